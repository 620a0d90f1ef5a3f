"""What the name of a container means for a step on this node, given what the shim keeps and what runs."""

import asyncio
import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lattice.agent.containers.holder import Base
from lattice.agent.containers.node import Inside
from lattice.agent.containers.steps import MOUNTS, StepContainers, note_mounts, noted_mounts
from lattice.agent.images.layouts import Unpacked
from lattice.agent.images.mounting import ImageRefused, ImageUnavailable
from lattice.agent.runs.launch import Account
from lattice.agent.shim_client import ShimMessage
from lattice.ports.nodes.agents import RunKey, StartOrder
from lattice.ports.nodes.images import ContainerOrder, ImageOrder
from lattice.ports.nodes.steps import LaunchOrder

RUN = RunKey(7, 1)
IMAGE = ImageOrder(reference="tools", digest="d" * 64, source="/tools")
NO_IMAGE = ImageOrder(reference="", digest="", source="")
ADA = Account(name="ada", uid=1000, gid=1000, groups=(), home="/home/ada", shell="/bin/sh")  # noqa: S604 - no call of one


class Node:
    """Makes nothing, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.made: list[Path | Base] = []
        self.within = ""
        self.mounts: list[object] = []
        self.released = 0
        self.has_hooks = False

    def let_in(self, container: ContainerOrder, inside: Inside, request: dict[str, object]) -> str:
        request["sealed"] = True
        return "/"

    async def obtain(self, *_: object) -> tuple[Path, Inside]:
        return Path("/cache/image"), Inside(Unpacked(), ADA)

    async def inside(self, *_: object) -> Inside:
        return Inside(Unpacked(), ADA)

    async def make(self, order: object, container: object, request: object, image: Path | Base, *rest: object) -> str:
        self.made.append(image)
        self.mounts.append(rest[-1])
        return "/proc/10/ns/mnt"

    async def keep(
        self, container: object, request: object, image: Path, inside: object, mark: str, memory_mb: int, within: str
    ) -> Base:
        self.within = within
        return self.base("/proc/9/ns/mnt", mark)

    def base(self, namespace: str, mark: str) -> Base:
        return Base(namespace, Path("/state/containers"), mark)

    def release(self, request: Mapping[str, object]) -> None:
        self.released += 1


class Shim:
    """Answers; `fails` are what it says of further launches first."""

    def __init__(self, kept: dict[str, tuple[int, str]], running: dict[str, tuple[bool, str]]) -> None:
        self.kept, self.running = kept, running
        self.heard: list[dict[str, Any]] = []
        self.fails: list[ShimMessage] = []
        self.view = -1

    def ask(self, body: dict[str, object], on_answer: Any) -> None:  # noqa: ANN401 - as the driver's
        self.heard.append(dict(body))
        if on_answer is None:
            return
        if body["op"] == "containers":
            on_answer(ShimMessage(ok=True, pid=50, kept=dict(self.kept), running=dict(self.running), view=self.view))
        else:
            on_answer(self.fails.pop(0) if self.fails else ShimMessage(ok=True, phase="running"))

    def views(self) -> list[dict[str, Any]]:
        return [body["view"] for body in self.heard if body["op"] == "launch_step"]


def launched(
    shim: Shim, node: Node, container: ContainerOrder, step: int = 3, run: Path = Path("/state/runs/7.1")
) -> ShimMessage | None:
    base = StartOrder(key=RUN, allocation_id="a7", user="ada")
    order = LaunchOrder(
        base=base,
        step=step,
        launch_id="x",
        plan=b"",
        tasks=(),
        size=1,
        nodes=("n1",),
        node_index=0,
        container=container,
    )
    steps = StepContainers(node, shim.ask)  # type: ignore[arg-type]
    request: dict[str, object] = {"op": "launch_step", "dir": "/state/steps/7.1.3", "env": {}, "cwd": "/"}
    answer = asyncio.run(steps.launch(order, request, run, lambda _: True))
    assert steps.kept == ({RUN} if container.name and answer is not None and answer.ok else set())
    return answer


KEPT = {"tools": (12, "digest")}
RUNS = {"tools": (True, "digest")}
READS = {"tools": (False, "digest")}
JOINS = {"name": "tools", "join": True}
AGAIN = {"name": "tools", "writable": False, "source": "/proc/10/ns/mnt", "about": "digest"}
NEW = {**AGAIN, "about": "d" * 64, "keep": "/proc/9/ns/mnt"}


@pytest.mark.parametrize(
    ("way", "image", "more", "kept", "running", "view"),
    [
        ("", IMAGE, {}, {}, {}, NEW),
        ("create", IMAGE, {}, {}, {}, NEW),
        ("no_exec", IMAGE, {}, {}, {}, NEW),
        ("", IMAGE, {}, KEPT, {}, AGAIN),
        ("", NO_IMAGE, {}, KEPT, {}, AGAIN),
        ("", NO_IMAGE, {"writable": True}, KEPT, {}, {**AGAIN, "writable": True}),
        ("", NO_IMAGE, {}, KEPT, RUNS, JOINS),
        ("exec", NO_IMAGE, {}, KEPT, RUNS, JOINS),
        ("", NO_IMAGE, {}, {}, RUNS, JOINS),
        ("no_exec", NO_IMAGE, {}, KEPT, RUNS, AGAIN),
        ("", NO_IMAGE, {"binds": ("/a:/b",)}, KEPT, RUNS, AGAIN),
        ("", NO_IMAGE, {"writable": True}, KEPT, READS, {**AGAIN, "writable": True}),
    ],
)
def test_name_means_what_it_says(
    way: str,
    image: ImageOrder,
    more: dict[str, Any],
    kept: dict[str, tuple[int, str]],
    running: dict[str, tuple[bool, str]],
    view: dict[str, Any],
) -> None:
    shim, node = Shim(kept, running), Node()
    answer = launched(shim, node, ContainerOrder(image=image, name="tools", way=way, **more))
    assert answer is not None
    assert answer.ok
    assert shim.views() == [view]
    assert node.released == 1
    if view.get("about") == "digest":
        assert node.made == [Base("/proc/50/fd/12", Path("/state/containers"), "7.1 tools")]


@pytest.mark.parametrize(
    ("way", "image", "kept", "running", "message"),
    [
        ("", NO_IMAGE, {}, {}, 'with name "tools" does not exist on this node, and --container-image is not set'),
        ("no_exec", NO_IMAGE, {"other": (1, "")}, {}, "there are: other"),
        ("create", IMAGE, KEPT, {}, '"tools" exists on this node already; leave :create out to use it'),
        ("exec", NO_IMAGE, {}, {}, 'with name "tools" does not exist on this node'),
        ("exec", IMAGE, KEPT, {}, 'with name "tools" is there, but no step runs in it on this node; leave :exec out'),
    ],
)
def test_what_is_not_so_is_refused(
    way: str, image: ImageOrder, kept: dict[str, tuple[int, str]], running: dict[str, tuple[bool, str]], message: str
) -> None:
    shim, node = Shim(kept, running), Node()
    with pytest.raises(ImageRefused) as refused:
        launched(shim, node, ContainerOrder(image=image, name="tools", way=way))
    assert message in str(refused.value)
    assert (shim.views(), node.made, node.released) == ([], [], 1)


def test_nothing_is_made_for_hooks_of_the_site_of_files_that_a_step_may_be_changing() -> None:
    beside = ContainerOrder(image=NO_IMAGE, name="tools", way="no_exec")
    node = Node()
    node.has_hooks = True
    with pytest.raises(ImageRefused, match='a step that writes runs in "tools"; join it'):
        launched(Shim(KEPT, RUNS), node, beside)
    for shim in (Shim(KEPT, READS), Shim(KEPT, {})):
        launched(shim, node, beside)
        assert shim.views() == [AGAIN]


def test_container_without_a_name_is_not_kept_and_is_called_by_its_step() -> None:
    shim, node = Shim({}, {}), Node()
    launched(shim, node, ContainerOrder(image=IMAGE))
    assert shim.views() == [{**AGAIN, "name": "7.3", "about": "d" * 64}]
    assert [body["op"] for body in shim.heard] == ["launch_step"]


def test_step_that_was_to_join_one_that_ended_gets_its_own_view() -> None:
    shim, node = Shim(KEPT, RUNS), Node()
    gone = ShimMessage(ok=False, error="does not run any more", errno=errno.ESRCH)
    shim.fails = [gone]
    ask = shim.ask

    def ask_and_end(body: dict[str, object], on_answer: Any) -> None:  # noqa: ANN401 - as the driver's
        ask(body, on_answer)
        if body["op"] == "launch_step":
            shim.running = {}

    shim.ask = ask_and_end  # type: ignore[method-assign]
    answer = launched(shim, node, ContainerOrder(image=NO_IMAGE, name="tools"))
    assert answer is not None
    assert answer.ok
    assert shim.views() == [JOINS, AGAIN]
    shim = Shim(KEPT, RUNS)
    shim.fails = [gone]
    assert launched(shim, node, ContainerOrder(image=NO_IMAGE, name="tools", way="exec")) == gone


def test_containers_of_runs_that_do_not_hold_the_node_are_dropped() -> None:
    shim = Shim({}, {})
    steps = StepContainers(Node(), shim.ask)  # type: ignore[arg-type]
    steps.meet_shim(ShimMessage(containers=((7, 1), (8, 2))))
    steps.judge({RunKey(8, 2)})
    assert shim.heard == [{"op": "drop_containers", "number": 7, "run": 1}]
    assert steps.kept == {RunKey(8, 2)}


def test_container_that_comes_after_the_end_of_its_run_is_dropped_again() -> None:
    shim = Shim({}, {})
    node = Node()
    steps = StepContainers(node, shim.ask)  # type: ignore[arg-type]
    steps.drop(RUN)
    base = StartOrder(key=RUN, user="ada")
    order = LaunchOrder(
        base=base,
        step=0,
        launch_id="x",
        plan=b"",
        tasks=(),
        size=1,
        nodes=("n1",),
        node_index=0,
        container=ContainerOrder(image=IMAGE, name="tools"),
    )
    asyncio.run(steps.launch(order, {"op": "launch_step", "dir": "/x"}, Path("/x"), lambda _: True))
    assert [body["op"] for body in shim.heard] == ["drop_containers", "containers", "launch_step", "drop_containers"]
    assert steps.kept == set()


def test_mounts_of_a_run_are_noted_for_its_steps(tmp_path: Path) -> None:
    mounts = [{"kind": "bind", "target": "/tmp", "source": "/scratch/7.1/tmp"}]
    note_mounts({"dir": str(tmp_path), "mounts": mounts})
    assert noted_mounts(tmp_path) == mounts
    (tmp_path / MOUNTS).write_bytes(msgspec.json.encode({"not": "a list"}))
    assert noted_mounts(tmp_path) == []
    assert noted_mounts(tmp_path / "none") == []


@pytest.mark.parametrize("name", ["", "tools"])
def test_scratch_of_a_size_is_not_mounted_twice(tmp_path: Path, name: str) -> None:
    note_mounts(
        {
            "dir": str(tmp_path),
            "mounts": [
                {"kind": "disk", "target": "/scratch/7.1", "source": "/scratch/7.1.img"},
                {"kind": "bind", "target": "/tmp", "source": "/scratch/7.1/tmp"},
            ],
        }
    )
    shim, node = Shim({}, {}), Node()
    with pytest.raises(ImageUnavailable, match="does not show where the scratch of the allocation is"):
        launched(shim, node, ContainerOrder(image=IMAGE, name=name), run=tmp_path)
    shim.view = 4
    assert launched(shim, node, ContainerOrder(image=IMAGE, name=name), run=tmp_path) is not None
    seen = [
        {"kind": "bind", "target": "/scratch/7.1", "source": "/scratch/7.1"},
        {"kind": "bind", "target": "/tmp", "source": "/scratch/7.1/tmp"},
    ]
    assert node.mounts == [seen]
    if name:
        assert node.within == "/proc/50/fd/4"
    else:
        assert node.made == [Base("/proc/50/fd/4", Path("/cache/image"), "")]
