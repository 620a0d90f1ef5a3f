"""The steps of a node: known once, reported until acknowledged, ended when nobody wants them, forgotten in time."""

import os
from pathlib import Path

import pytest

from lattice.agent.machine.step_status import EndedTask, StepStatus
from lattice.agent.shim_client import ShimMessage
from lattice.agent.steps import table as steps_module
from lattice.agent.steps.folders import StepFolders, StepSpec
from lattice.agent.steps.table import StepRetention, Steps
from lattice.ports.nodes.agents import RunKey, StepKey
from lattice.wire.pb import agent_pb2 as pb

KEY = StepKey(7, 1, 0)
OWNER = (os.geteuid(), os.getegid())


class Node:
    """A table of steps with everybody it speaks to."""

    def __init__(self, state_dir: Path, retention: StepRetention | None = None) -> None:
        self.folders = StepFolders(state_dir, reachable=False)
        self.asked: list[dict[str, object]] = []
        self.posted: list[pb.AgentMessage] = []
        self.cleared = 0
        self.steps = Steps(
            self.folders,
            lambda body, _answer: self.asked.append(body),
            self.posted.append,
            self._count,
            retention or StepRetention(),
        )

    def _count(self) -> None:
        self.cleared += 1

    def begin(self, key: StepKey = KEY, launch_id: str = "L", *, fence: bool = False) -> bool:
        spec = StepSpec(launch_id=launch_id, plan=b"plan", ranks=(0, 1), fence=fence)
        if not self.folders.path(key).exists():
            self.folders.create(key, spec, "secret", OWNER)
        is_new = self.steps.begin(key, launch_id, b"plan", (0, 1), fence=fence)
        if is_new:
            self.steps.launched(key, ShimMessage(ok=True))
        return is_new

    def end(self, key: StepKey = KEY) -> None:
        tasks = (EndedTask(rank=0), EndedTask(rank=1, exit_code=4))
        self.steps.heard(StepStatus(number=key.number, run=key.run, step=key.step, phase="ended", tasks=tasks))

    def reports(self) -> list[tuple[bool, list[tuple[int, int]]]]:
        found = []
        for message in self.posted:
            if message.HasField("step_report"):
                report = message.step_report
                found.append((report.ended, [(task.rank, task.exit_code) for task in report.tasks]))
        return found

    def operations(self) -> list[object]:
        return [body["op"] for body in self.asked]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_step_is_begun_once_and_its_end_reported_until_acknowledged(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert node.begin()
    assert not node.begin()
    node.end()
    assert node.reports() == [(True, [(0, 0), (1, 4)])]
    monkeypatch.setattr(steps_module, "REPEAT_AFTER_S", 0.0)
    node.steps.repeat_reports()
    assert len(node.reports()) == 2
    node.steps.acknowledged(KEY)
    node.steps.repeat_reports()
    assert len(node.reports()) == 2
    assert "forget_step" in node.operations()
    assert node.steps.known() == []
    assert not (node.folders.path(KEY) / "token").exists()


def test_another_launch_under_the_same_number_is_refused(node: Node) -> None:
    node.begin()
    assert not node.begin(launch_id="other")
    [report] = [message.step_report for message in node.posted]
    assert report.launch_id == "other"
    assert "another step of that number" in report.message


def test_a_launch_that_fails_counts_for_all_its_tasks(node: Node) -> None:
    node.steps.begin(KEY, "L", b"", (0, 1), fence=False)
    node.steps.refuse(KEY, "account unknown")
    [report] = [message.step_report for message in node.posted]
    assert [task.message for task in report.tasks] == ["account unknown"] * 2


def test_input_and_signals_that_come_before_the_shim_has_the_step_are_held_until_then(node: Node) -> None:
    node.steps.begin(KEY, "L", b"", (0, 1), fence=False)
    node.steps.feed(pb.StepInput(offset=0, data=b"hello", ticket=1), KEY)
    node.steps.order("signal_step", KEY, signal=10)
    node.steps.feed(pb.StepInput(offset=5, eof=True, ticket=2), KEY)
    assert node.operations() == []
    node.steps.launched(KEY, ShimMessage(ok=True))
    assert node.operations() == ["feed_step", "signal_step", "feed_step"]
    assert [body.get("eof") for body in node.asked] == [False, None, True]
    node.steps.feed(pb.StepInput(offset=5, eof=True, ticket=3), KEY)
    assert len(node.asked) == 4


def test_input_for_a_step_that_could_not_be_launched_is_answered_after_all(node: Node) -> None:
    node.steps.begin(KEY, "L", b"", (0, 1), fence=False)
    node.steps.feed(pb.StepInput(offset=0, data=b"hello", ticket=1), KEY)
    node.steps.refuse(KEY, "account unknown")
    assert node.operations() == ["feed_step"]


def test_steps_of_runs_that_do_not_hold_the_node_are_ended_first(node: Node) -> None:
    node.begin()
    other = StepKey(8, 1, 0)
    node.begin(other)
    assert node.steps.judge({RunKey(8, 1)})
    assert [body["number"] for body in node.asked if body["op"] == "end_step"] == [7]
    assert node.cleared == 0
    node.end()
    assert node.cleared == 1
    assert not node.steps.judge({RunKey(8, 1)})


def test_the_next_agent_finds_its_steps_and_loses_those_of_a_dead_shim(tmp_path: Path) -> None:
    first = Node(tmp_path)
    first.begin()
    other = StepKey(7, 1, 1)
    first.begin(other)
    second = Node(tmp_path)
    second.steps.recall()
    alive = StepStatus(number=7, run=1, step=1)
    second.steps.shim_answers([alive], "the shim died")
    [report] = [message.step_report for message in second.posted]
    assert (report.key.step, report.ended, report.message) == (0, True, "the shim died")
    assert [task.cause for task in report.tasks] == [pb.END_CAUSE_NODE] * 2
    assert [(known.key.step, known.ended) for known in second.steps.known()] == [(0, True), (1, False)]


def test_what_a_shim_has_and_nobody_knows_is_ended(node: Node) -> None:
    node.steps.shim_answers([StepStatus(number=9, run=1, step=0)], "")
    assert node.operations() == ["end_step"]


def test_fenced_steps_end_when_no_server_is_heard(node: Node) -> None:
    node.begin(fence=True)
    node.begin(StepKey(7, 1, 1))
    node.steps.fence()
    node.steps.fence()
    assert [body["step"] for body in node.asked if body["op"] == "end_step"] == [0]


def test_folders_go_when_they_are_too_many(tmp_path: Path) -> None:
    node = Node(tmp_path, StepRetention(max_steps=1))
    for step in range(3):
        key = StepKey(7, 1, step)
        node.begin(key)
        node.end(key)
        node.steps.acknowledged(key)
    assert node.steps.expired() == [StepKey(7, 1, 0), StepKey(7, 1, 1)]
    assert node.steps.expired() == []


def test_nothing_half_written_is_left_of_steps_whose_shim_or_agent_was_killed(tmp_path: Path) -> None:
    first, living = Node(tmp_path), StepKey(7, 1, 1)
    for key in (KEY, living):
        first.begin(key)
        for name in ("status.json.new", "place.json.new"):
            (first.folders.path(key) / name).write_text("{")
    second = Node(tmp_path)
    second.steps.recall()
    second.steps.shim_answers([StepStatus(number=7, run=1, step=1)], "the shim died")
    assert list(second.folders.path(KEY).glob("*.new")) == []
    assert [path.name for path in second.folders.path(living).glob("*.new")] == ["status.json.new"], "the shim's own"
