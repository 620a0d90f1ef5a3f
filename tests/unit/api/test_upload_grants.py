"""What a node may have signed: chunks of runs that it was given, under its own name, and nothing else."""

import pytest

from lattice.api.grpc.agents.uploads import Refused, UploadGrants, Wanted
from lattice.wire.files.chunks import Place
from lattice.wire.files.samples import trace_name, trace_prefix

GRANTS = UploadGrants(b"s" * 32)
PREFIX = "chem/-/a7/logs/run-1"
CHUNK = Place(offset=0, line=0, at_ms=5).name


def wanted(name: str, *, prefix: str = PREFIX, grant: str | None = None, node: str = "n1") -> Wanted:
    return Wanted(prefix, name, GRANTS.grant(PREFIX, node) if grant is None else grant)


@pytest.mark.parametrize("stream", ["stdout", "stderr", "step-3/journal"])
def test_a_node_stores_chunks_of_its_own(stream: str) -> None:
    assert GRANTS.check("n1", wanted(f"{stream}/n1/{CHUNK}")) == f"{PREFIX}/{stream}/n1/{CHUNK}"


def test_a_node_stores_samples_of_its_own_runs() -> None:
    asked = wanted(f"n1/{trace_name(5)}", prefix=trace_prefix(PREFIX))
    assert GRANTS.check("n1", asked) == "chem/-/a7/telemetry/run-1/n1/000000000000005.jsonl.zst"


@pytest.mark.parametrize(
    "asked",
    [
        wanted(f"n2/{trace_name(5)}", prefix="chem/-/a7/telemetry/run-1"),
        wanted(f"n1/{trace_name(5)}", prefix="chem/-/a8/telemetry/run-1"),
        wanted(f"n1/{CHUNK}", prefix="chem/-/a7/telemetry/run-1"),
        wanted(f"stdout/n1/{CHUNK}", prefix="chem/-/a7/telemetry/run-1"),
        wanted(f"stdout/n1/{trace_name(5)}"),
        wanted(f"stdout/n2/{CHUNK}"),
        wanted(f"stdout/n1/../n2/{CHUNK}"),
        wanted(f"../run-2/stdout/n1/{CHUNK}"),
        wanted("deleted"),
        wanted("stdout/n1/deleted"),
        wanted(f"stdout/n1/{CHUNK}/x"),
        wanted(f"step-x/journal/n1/{CHUNK}"),
        wanted(f"stdout/n1/{CHUNK}", prefix="chem/-/a8/logs/run-1"),
        wanted(f"stdout/n1/{CHUNK}", grant=""),
        wanted(f"stdout/n1/{CHUNK}", grant="\u00e4" * 64),
        wanted(f"stdout/n1/{CHUNK}", node="n2"),
        wanted(f"stdout/n1/{CHUNK}", grant=UploadGrants(b"t" * 32).grant(PREFIX, "n1")),
    ],
)
def test_nothing_else_is_signed(asked: Wanted) -> None:
    with pytest.raises(Refused):
        GRANTS.check("n1", asked)
