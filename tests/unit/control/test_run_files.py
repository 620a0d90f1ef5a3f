"""Names of a run's files, and its signal before the limit."""

import pytest

from lattice.control.work.run_files import early_signal, run_files
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.work.allocations import Allocation, Part, Request
from lattice.core.model.work.asked import Asked
from lattice.ports.nodes.agents import EarlySignal, RunFiles
from lattice.wire.work.payloads import Work
from lattice.wire.work.run_files import OutputFiles


def record(**fields: object) -> Allocation:
    nodes = ("n1.site", "n2.site")
    base: dict[str, object] = {
        "number": 17,
        "name": "fit",
        "user": "alice",
        "account": "alice",
        "tenant": "physics",
        "vcluster": "default",
        "request": Request(),
        "submitted_at": 1,
        "shares": tuple(Share(node=node, whole=True) for node in nodes),
        "parts": (Part(node=nodes[0]),),
    }
    return Allocation(**{**base, **fields})  # type: ignore[arg-type]


def test_patterns_are_filled_for_the_node() -> None:
    work = Work(output=OutputFiles(stdout="%x-%4j-%A-%a-%u-%N-%n-%t-%s-%%", stderr="e.%J", stdin="in", mode="append"))
    names = run_files(record(), work, "n2.site")
    assert names == RunFiles(
        stdout="fit-0017-17-4294967294-alice-n2-1-0-batch-%", stderr="e.17", stdin="in", append=True
    )


def test_a_task_of_a_group_has_its_groups_number_and_its_index() -> None:
    work = Work(output=OutputFiles(stdout="slurm-%A_%a.out"))
    names = run_files(record(group=12, task_index=4), work, "n1.site")
    assert names is not None
    assert names.stdout == "slurm-12_4.out"


def test_work_of_sbatch_writes_what_it_asked_for_and_others_only_hold_nodes() -> None:
    asked = Asked(program="sbatch", stdout="/home/alice/slurm-%j.out", open_mode="append")
    names = run_files(record(asked=asked), Work(), "n1.site")
    assert names == RunFiles(stdout="/home/alice/slurm-17.out", append=True)
    assert run_files(record(asked=Asked(program="salloc", stdout="x")), Work(), "n1.site") is None
    assert run_files(record(), Work(), "n1.site") is None
    assert run_files(record(), Work(output=OutputFiles()), "n1.site") is None


def test_parts_that_share_a_file_do_not_empty_it() -> None:
    parts = (Part(node="n1.site"), Part(node="n2.site"))
    shared = run_files(record(parts=parts, per_node=True), Work(output=OutputFiles(stdout="all")), "n1.site")
    own = run_files(record(parts=parts, per_node=True), Work(output=OutputFiles(stdout="%N")), "n1.site")
    assert (shared is not None and shared.append, own is not None and own.append) == (True, False)


@pytest.mark.parametrize(
    ("native", "asked", "wanted"),
    [
        ("USR1@90", "", EarlySignal(signal=10, before_s=90, to="all")),
        ("B:TERM", "", EarlySignal(signal=15, before_s=60, to="entrypoint")),
        ("", "USR2@30", EarlySignal(signal=12, before_s=30, to="steps")),
        ("", "B:USR2@30", EarlySignal(signal=12, before_s=30, to="entrypoint")),
        ("", "", None),
        ("nonsense", "", None),
        ("USR1@soon", "", None),
        ("USR1@99999", "", None),
    ],
)
def test_the_early_signal_is_read(native: str, asked: str, wanted: EarlySignal | None) -> None:
    allocation = record(asked=Asked(signal=asked)) if asked else record()
    assert early_signal(allocation, Work(signal=native)) == wanted
