"""What a node may have signed: chunks of runs that it was given, under its own name, and nothing else."""

import asyncio
from collections.abc import Mapping

import pytest

from lattice.api.grpc.agents.uploads import Refused, UploadGrants, UploadSigning, Wanted
from lattice.ports.nodes.checkpoints import READS, WRITES
from lattice.ports.quorum.object_store import BadObjectName, SignedPut
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


RESULT = "s3://results/models/a7"


def result(name: str, method: str = "", query: str = "", *, prefix: str = RESULT, of: str = RESULT) -> Wanted:
    return Wanted(prefix, name, GRANTS.grant(of, "n1"), method, query)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (result("weights"), "models/a7/weights"),
        (result("deep/a b.bin"), "models/a7/deep/a b.bin"),
        (result(""), "models/a7"),
        (result("x", "POST", "uploads"), "models/a7/x"),
        (result("x", "PUT", "partNumber=3&uploadId=abc~1"), "models/a7/x"),
        (result("x", "POST", "uploadId=abc"), "models/a7/x"),
        (result("x", "DELETE", "uploadId=abc"), "models/a7/x"),
    ],
)
def test_a_node_uploads_results_below_its_own_target(asked: Wanted, name: str) -> None:
    assert GRANTS.check("n1", asked) == name


@pytest.mark.parametrize(
    "asked",
    [
        result("../a8/weights"),
        result("/weights"),
        result("a//b"),
        result("./a"),
        result("a\nb"),
        result("x" * 1100),
        result("", prefix="s3://results", of="s3://results"),
        result("weights", prefix="s3://results/models/a8"),
        result("weights", prefix="s3://training/models/a7"),
        result("weights", of="s3://results"),
        result("x", "GET"),
        result("x", "DELETE"),
        result("x", "PUT", "acl"),
        result("x", "POST", "restore"),
        result("x", "PUT", "partNumber=3&uploadId=a&x-amz-acl=public-read"),
        Wanted(RESULT, "weights", GRANTS.grant(RESULT, "n2")),
        Wanted(PREFIX, f"stdout/n1/{CHUNK}", GRANTS.grant(PREFIX, "n1"), "DELETE"),
        Wanted(PREFIX, f"stdout/n1/{CHUNK}", GRANTS.grant(PREFIX, "n1"), "", "acl"),
    ],
)
def test_no_other_request_for_results_is_signed(asked: Wanted) -> None:
    with pytest.raises(Refused):
        GRANTS.check("n1", asked)


OBJECTS = "chem/-/a7/checkpoints/3"


def checkpoint(name: str, method: str = "", query: str = "", *, way: str = WRITES, of: str = "") -> Wanted:
    return Wanted(way + OBJECTS, name, GRANTS.grant(of or way + OBJECTS, "n1"), method, query)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (checkpoint("contents.json"), f"{OBJECTS}/contents.json"),
        (checkpoint("files/deep/a b.bin"), f"{OBJECTS}/files/deep/a b.bin"),
        (checkpoint("files/x", "PUT", "partNumber=3&uploadId=abc"), f"{OBJECTS}/files/x"),
        (checkpoint("files/x", "GET", way=READS), f"{OBJECTS}/files/x"),
    ],
)
def test_a_node_writes_or_reads_the_checkpoint_that_it_was_given(asked: Wanted, name: str) -> None:
    assert GRANTS.check("n1", asked) == name
    assert GRANTS.check("n1", asked) == name


@pytest.mark.parametrize(
    "asked",
    [
        checkpoint("files/x", "GET"),
        checkpoint("files/x", "DELETE"),
        checkpoint("files/x", way=READS),
        checkpoint("files/x", "PUT", "partNumber=3&uploadId=abc", way=READS),
        checkpoint("files/x", "GET", "acl", way=READS),
        checkpoint("files/x", of=READS + OBJECTS),
        checkpoint("files/x", "GET", way=READS, of=WRITES + OBJECTS),
        checkpoint("files/x", of=OBJECTS),
        checkpoint("files/x", of=WRITES + "chem/-/a8/checkpoints/3"),
        checkpoint("a\nb"),
        checkpoint("x" * 1100),
        Wanted(WRITES + OBJECTS, "files/x", GRANTS.grant(WRITES + OBJECTS, "n2")),
    ],
)
def test_nothing_else_of_a_checkpoint_is_signed(asked: Wanted) -> None:
    with pytest.raises(Refused):
        GRANTS.check("n1", asked)


@pytest.mark.parametrize("name", ["", "../3/x", "files//x", "./x", "/x"])
def test_names_that_lead_out_of_a_checkpoint_are_not_signed(name: str) -> None:
    with pytest.raises(BadObjectName):
        GRANTS.check("n1", checkpoint(name))


class _Buckets:
    def sign(self, bucket: str, name: str, method: str, query: Mapping[str, str]) -> SignedPut:
        return SignedPut(f"{method} {bucket} {name} {dict(query)}", {})


def test_results_are_signed_without_a_store_for_output() -> None:
    signing = UploadSigning(None, GRANTS, _Buckets())
    assert not signing.takes_output

    def signed(asked: Wanted, by: UploadSigning = signing) -> str:
        return asyncio.run(by.sign("n1", asked)).url

    assert signed(result("x")) == "PUT results models/a7/x {}"
    asked = result("x", "PUT", "partNumber=3&uploadId=a=")
    assert signed(asked) == "PUT results models/a7/x {'partNumber': '3', 'uploadId': 'a='}"
    assert signed(result("x", "POST", "uploads")).endswith("{'uploads': ''}")
    with pytest.raises(Refused, match="signs no requests"):
        signed(wanted(f"stdout/n1/{CHUNK}"))
    with pytest.raises(Refused, match="no bucket for results"):
        signed(result("x"), UploadSigning(None, GRANTS))
