"""How work ended: the same sentence wherever a user may look for it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually
from tests.mailbox import Mailbox

pytestmark = pytest.mark.e2e


ADDRESS = "ada@site.test"
EATER = "import time; x = bytearray(400 << 20); time.sleep(30)"
STUBBORN = "trap 'exit 9' TERM; echo begin; sleep 60 & wait"
UNLUCKY = "for i in 1 2 3 4 5 6; do echo trouble $i >&2; done; exit 3"


def submit(cluster: LocalCluster, *words: str) -> str:
    notify = ("--notify=end,fail", f"--notify-to=mail:{ADDRESS}")
    return cluster.cli("submit", "-q", *notify, *words).stdout.strip()


@pytest.fixture
def shared_nodes(cluster: LocalCluster) -> Iterator[LocalCluster]:
    cluster.put("/vclusters/default", {"node_sharing": "shared"})
    yield cluster
    cluster.put("/vclusters/default", {"node_sharing": "exclusive"})


@pytest.mark.root
def test_every_end_is_told_in_one_sentence_everywhere(
    shared_nodes: LocalCluster, mails: Mailbox, tmp_path: Path
) -> None:
    cluster = shared_nodes
    tmp_path.chmod(0o777)
    out = tmp_path / "out"

    def started(*words: str) -> str:
        return submit(cluster, "--cpus=1", "--memory=64M", *words)

    lost = started("--requeue=never", "--nodelist=n2", "--", "sleep", "60")
    sleeping, cancelled = (started("--nodelist=n1", "--", "sh", "-c", "echo up; sleep 60") for _ in range(2))
    dependent = started(f"--depends-on={cancelled}:success", "--", "true")
    waiting, group = started("--hold", "--", "true"), started("--hold", "--task-group=0-1", "--", "true")
    late = datetime.now(UTC) + timedelta(seconds=5)
    given_up = started("--hold", "--walltime=1s", f"--deadline={late.isoformat()}", "--", "true")
    failing = started("--nodelist=n1", "--", "sh", "-c", UNLUCKY)
    signalled = started("--nodelist=n1", "--", "sh", "-c", "kill -SEGV $$")
    missing = started("--nodelist=n1", "--", "no-such-program")
    limited = started("--nodelist=n1", "--walltime=1s", f"--stdout={out}", "--", "sh", "-c", STUBBORN)
    greedy = started("--nodelist=n1", "--", "python3", "-c", EATER)
    for each in (sleeping, cancelled, lost):
        cluster.wait_state(each, "Running")
    assert cluster.cli("--as", "ada", "cancel", sleeping, check=False).returncode != 0
    cluster.cli("cancel", cancelled)
    cluster.cli("--as=bob", "cancel", sleeping, waiting, group)
    with cluster.stopped("agent", "n2"):
        cluster.wait_end(lost)
    sentences = {
        failing: f"{failing} failed with exit code 3",
        signalled: f"{signalled} was killed by signal 11 (SIGSEGV)",
        limited: f"{limited} was killed at its walltime limit of 00:00:01",
        greedy: cluster.wait_end(greedy)["ending"],
        cancelled: f"{cancelled} was cancelled",
        sleeping: f"{sleeping} was cancelled by bob",
        waiting: f"{waiting} was cancelled by bob",
        group: f"{group} was cancelled by bob",
        dependent: f"{dependent} was never started: {cancelled} was to end with success, it was cancelled",
        given_up: f"{given_up} was given up: it could no longer end before its deadline",
        missing: f"{missing} could not be started: no-such-program: command not found in PATH",
        lost: f"{lost} failed with its node: node n2 was lost",
    }
    assert sentences[greedy].startswith(f"{greedy} was killed: out of memory, limit 64 MB, peak 6")
    assert ", python3 (pid " in sentences[greedy]
    for allocation_id, sentence in sentences.items():
        assert cluster.wait_end(allocation_id)["ending"] == sentence
    told_in_listings(cluster, sentences)
    told_by_mail(mails, sentences)
    told_in_the_output(cluster, {each: sentences[each] for each in (failing, signalled, greedy, cancelled, sleeping)})
    assert out.read_text() == f"begin\nlattice: {sentences[limited]}\n"
    assert "cancelled by bob" in cluster.cli("status", f"{group}_1").stdout
    explained = cluster.cli("explain", limited, greedy, failing).stdout
    assert "--walltime=00:00:02" in explained
    assert "--memory=" in explained
    assert "Last lines of stderr:\n" + "".join(f"  trouble {i}\n" for i in range(2, 7)) in explained


AT_ONCE = {"patience_s": "0", "min_runtime_s": "0", "near_completion_s": "0"}
PROBE = "tcp:1,period=1,failures=1,delay=0"


@pytest.fixture
def quick_preemption(shared_nodes: LocalCluster) -> Iterator[LocalCluster]:
    """Work may be preempted as soon as it runs."""
    kept = {name: shared_nodes.get(f"/settings/preemption.{name}")["value"] for name in AT_ONCE}
    for name, value in AT_ONCE.items():
        shared_nodes.put(f"/settings/preemption.{name}", {"value": value})
    yield shared_nodes
    for name, value in kept.items():
        shared_nodes.put(f"/settings/preemption.{name}", {"value": value})


def test_preempted_work_and_failed_probes_are_told_everywhere(
    quick_preemption: LocalCluster, mails: Mailbox, tmp_path: Path
) -> None:
    cluster = quick_preemption
    tmp_path.chmod(0o777)
    out, again = tmp_path / "out", tmp_path / "again"
    low = ("--exclusive", "--preemption-class=1", "--walltime=1h")
    gone = submit(cluster, *low, "--nodelist=n1", "--requeue=never", f"--stdout={out}", "--", "sleep", "60")
    taken = submit(cluster, *low, "--nodelist=n2", f"--stdout={again}", "--", "sleep", "60")
    for each in (gone, taken):
        cluster.wait_state(each, "Running")
    high = submit(cluster, "--nodes=2", "--exclusive", "--preemption-class=9", "--walltime=1h", "--", "sleep", "60")
    cluster.wait_state(high, "Running")
    assert "was preempted: other work needs its nodes; it will run again" in again.read_text()
    cluster.cli("cancel", high, taken)
    probed = submit(cluster, "--service", "--restart=never", f"--liveness-probe={PROBE}", "--", "sleep", "60")
    sentences = {
        gone: f"{gone} was preempted: work of class 9 needs its nodes",
        probed: cluster.wait_end(probed)["ending"],
    }
    assert sentences[probed].startswith(f"{probed} was ended by its liveness probe: ")
    assert cluster.wait_end(gone)["ending"] == sentences[gone]
    told_in_listings(cluster, sentences)
    told_by_mail(mails, sentences)
    told_in_the_output(cluster, {probed: sentences[probed]})
    assert out.read_text() == f"lattice: {sentences[gone]}\n"


def told_in_listings(cluster: LocalCluster, sentences: dict[str, str]) -> None:
    listed = cluster.cli("status", *sentences).stdout
    shown, explained = cluster.cli("status", "-v", *sentences).stdout, cluster.cli("explain", *sentences).stdout
    waited = cluster.cli("wait", *sentences, check=False).stdout.splitlines()
    for allocation_id, sentence in sentences.items():
        assert sentence.removeprefix(f"{allocation_id} ") in listed
        assert sentence in shown
        assert f"Reason:      {sentence}\n" in explained
        assert sentence in waited
        wanted = {"program": "sacct", "argv": ["-nPXj", allocation_id[1:], "-o", "SystemComment,Comment"]}
        told = cluster.post("/slurm/commands", wanted)["stdout"].splitlines()
        assert told[0].endswith(f"{sentence.partition(' ')[2]}|")  # a row of a group is about one of its tasks


def told_by_mail(mails: Mailbox, sentences: dict[str, str]) -> None:
    def missing() -> list[str]:
        told = {str(each.message["X-Lattice-Allocation"]): each.text.splitlines()[0] for each in mails.of(ADDRESS)}
        return [sentence for allocation_id, sentence in sentences.items() if told.get(allocation_id) != f"{sentence}."]

    eventually(lambda: not missing(), "a mail about each of them")


def told_in_the_output(cluster: LocalCluster, sentences: dict[str, str]) -> None:
    for allocation_id, sentence in sentences.items():
        assert cluster.logs(allocation_id, "stderr").splitlines()[-1] == f"lattice: {sentence}"
    shown = cluster.cli("logs", *sentences).stderr.splitlines()
    assert [sentence for sentence in sentences.values() if f"lattice: {sentence}" not in shown] == []


def test_work_that_is_suspended_or_held_is_not_called_running(cluster: LocalCluster) -> None:
    running = submit(cluster, "--", "sleep", "60")
    cluster.wait_state(running, "Running")
    cluster.cli("suspend", running)
    assert "Running (suspended)" in cluster.cli("status", running).stdout
    cluster.cli("cancel", running)
    group = submit(cluster, "--task-group=0-1", "--hold", "--", "true")
    cluster.cli("release", f"{group}_0")
    cluster.wait_end(f"{group}_0")
    assert "its last task is held by its user" in cluster.cli("status", group).stdout
    waited = cluster.cli("wait", group, "--timeout=2s", check=False)
    assert waited.returncode == 124
    assert f"{group} cannot continue: its last task is held by its user" in waited.stderr
    cluster.cli("cancel", group)
