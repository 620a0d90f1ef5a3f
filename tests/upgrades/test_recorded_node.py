"""A node goes on with this release's agent where an earlier one stopped, and agent and shim may be of different releases."""

import asyncio
import getpass
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lattice.agent.runs.recovery import BOOT_ID_SOURCE
from lattice.wire.pb import agent_pb2 as pb
from tests.integration.agent.agent_rig import AgentProcess, Session, TestServer, key_of, until
from tests.integration.agent.shim_process import ShimProcess
from tests.upgrades import node_files
from tests.upgrades.node_files import KEPT, NODE, RUNNING, SIGNALLED, STEPS, UNASKED, UNHEARD
from tests.upgrades.record import HERE
from tests.upgrades.test_recorded_wire import missing

RELEASES = sorted(path.parent.name for path in HERE.glob(f"*/{NODE}"))
Message = dict[str, Any]


def localised(text: str, folder: Path) -> str:
    return text.replace("{folder}", str(folder)).replace("{user}", getpass.getuser())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Short enough for a socket, and open to the accounts of work."""
    tmp_path.chmod(0o755)
    (tmp_path / "scratch").mkdir()
    return tmp_path


def lay_state(release: str, folder: Path, boot_id: str) -> Path:
    """The state directory as the old agent left it, on this machine."""
    state = folder / "state"
    shutil.copytree(HERE / release / NODE / node_files.STATE, state)
    for path in state.rglob("*.json"):
        path.write_text(localised(path.read_text(), folder))
    for path in state.rglob("script"):
        path.chmod(0o500)
    (state / "boot_id").write_text(f"{boot_id}\n")
    return state


def undo_shim(folder: Path) -> None:
    """Leave only what an agent writes before it asks the shim."""
    for pattern in ("status.json", "stdout", "stderr", "journal.*"):
        for path in folder.rglob(pattern):
            path.unlink()


def lines_of(release: str, folder: Path, who: str) -> list[Message]:
    recorded = (HERE / release / NODE / node_files.FRAMES).read_text().splitlines()
    lines = [json.loads(localised(line, folder)) for line in recorded]
    return [mine(each["line"]) for each in lines if each["from"] == who]


def mine(line: Message) -> Message:
    """For work of this account."""
    owner = {"uid": os.getuid(), "gid": os.getgid(), "groups": os.getgroups()}
    return {**line, **owner} if "uid" in line else line


async def with_agent(state: Path, scenario: Callable[[TestServer, AgentProcess], Any]) -> None:
    server = TestServer()
    server.valid = {UNHEARD, RUNNING, UNASKED, SIGNALLED}
    await server.listen()
    agent = AgentProcess(state, f"127.0.0.1:{server.port}")
    try:
        agent.start()
        await scenario(server, agent)
    finally:
        await agent.close()
        await server.close()


def known_steps(session: Session) -> dict[int, bool]:
    """Which steps the agent brought, and whether they ended."""
    return {each.key.step: each.ended for each in session.of_kind("register")[0].steps}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("rebooted", [True, False], ids=["after a reboot", "after a lost shim"])
def test_the_folders_of_an_old_agent_are_taken_over(release: str, folder: Path, *, rebooted: bool) -> None:
    """Ends that no server heard are reported as they were; what ran is lost with the node's cause, not forgotten."""
    state = lay_state(release, folder, node_files.NO_BOOT if rebooted else BOOT_ID_SOURCE.read_text().strip())

    async def scenario(server: TestServer, agent: AgentProcess) -> None:
        session = await server.session()
        register = session.of_kind("register")[0]
        assert {key_of(run.key) for run in register.runs} == {UNHEARD, RUNNING, UNASKED, SIGNALLED}
        assert known_steps(session)[STEPS["ended"]]
        unheard = await server.ended(UNHEARD)
        assert (unheard.cause, unheard.exit_code) == (pb.END_CAUSE_EXIT, 6)
        signalled = await server.ended(SIGNALLED)
        assert (signalled.cause, signalled.message) == (pb.END_CAUSE_STOPPED, "stopped: cancelled by ada")
        for key in (RUNNING, UNASKED):
            lost = await server.ended(key)
            assert lost.cause == pb.END_CAUSE_NODE
            assert (lost.message == "the node was restarted") == rebooted, lost.message
        assert await server.output(KEPT) == b"out\n"
        assert (await server.output(KEPT, stream=pb.OUTPUT_STREAM_STDERR)).startswith(b"err\n")
        assert await server.output(UNHEARD) == b"unheard\n"
        assert await server.output(RUNNING) == b"alive\n"
        assert b"read by rank 0\n" in await server.output(RUNNING, step=STEPS["ended"])
        await until((agent.folder(UNHEARD) / "acknowledged").exists, "the acknowledgement on disk")

    asyncio.run(with_agent(state, scenario))


@pytest.fixture
def make_shim() -> Iterator[Callable[..., ShimProcess]]:
    started: list[ShimProcess] = []

    def make(**more: Any) -> ShimProcess:  # noqa: ANN401 - arguments of ShimProcess
        started.append(ShimProcess(uid=os.getuid(), cgroup=os.geteuid() == 0, **more))
        return started[-1]

    yield make
    for shim in started:
        shim.close()


@pytest.mark.parametrize("release", RELEASES)
def test_work_under_an_old_shim_is_adopted(release: str, folder: Path, make_shim: Callable[..., ShimProcess]) -> None:
    """The old agent started it and is gone; its shim lives. This agent finds the run, hears its end and reads its output."""
    state = lay_state(release, folder, BOOT_ID_SOURCE.read_text().strip())
    undo_shim(state / "runs" / f"{RUNNING[0]}.{RUNNING[1]}")
    program = node_files.unpack_shim(HERE / release / NODE / node_files.SHIM, folder / "release")
    shim = make_shim(program=program, state_dir=state)
    old_agent = shim.connect()
    (start,) = (line for line in lines_of(release, folder, "agent") if is_start(line, RUNNING))
    old_agent.send_bytes(json.dumps(start).encode() + b"\n")
    assert old_agent.answer(start["id"])["ok"]
    old_agent.close()

    async def scenario(server: TestServer, agent: AgentProcess) -> None:
        session = await server.session()
        phases = {key_of(run.key): run.phase for run in session.of_kind("register")[0].runs}
        assert phases[RUNNING] == pb.PHASE_RUNNING
        assert agent.shim_pid() == shim.process.pid
        (folder / "scratch" / "go").touch()
        ended = await server.ended(RUNNING)
        assert (ended.cause, ended.exit_code) == (pb.END_CAUSE_EXIT, 5)
        assert await server.output(RUNNING) == b"alive\nover\n"
        await until((agent.folder(RUNNING) / "acknowledged").exists, "the acknowledgement on disk")
        server.start((21, 1), ["sh", "-c", "exit 7"])  # new work goes to the old shim, too
        assert (await server.ended((21, 1))).exit_code == 7

    asyncio.run(with_agent(state, scenario))


def is_start(line: Message, key: tuple[int, int]) -> bool:
    return bool(line["op"] == "start" and (line["number"], line["run"]) == key)


UNSTEADY = {"pid", "started_boot_s", "cpu_s", "elapsed_s", "peak_memory_mb", "cgroup", "memory_limit", "phase"}


@pytest.mark.parametrize("release", RELEASES)
def test_this_shim_serves_an_old_agent(release: str, folder: Path, make_shim: Callable[..., ShimProcess]) -> None:
    """An agent that was put back to the earlier release finds the shim of this one: every request of its is answered as before."""
    undo_shim(lay_state(release, folder, ""))
    client = make_shim().connect()
    before = {line["id"]: line for line in lines_of(release, folder, "shim") if "id" in line}
    ends = [line for line in lines_of(release, folder, "shim") if line.get("event") == "ended"]
    for line in lines_of(release, folder, "agent"):
        if line["id"] not in before:
            continue  # the shim was stopped by then
        client.send_bytes(json.dumps(line).encode() + b"\n")
        answer = client.answer(line["id"])
        assert steady(missing(before[line["id"]], answer)) == [], (line, answer)
        if line["op"] in ("stop", "start") and line["number"] in (KEPT[0], SIGNALLED[0], UNHEARD[0]) and is_last(line):
            (was,) = (end for end in ends if (end["number"], end["run"]) == (line["number"], line["run"]))
            assert steady(missing(was, client.ended(line["number"], line["run"]))) == []
    (folder / "scratch" / "go").touch()
    assert client.ended(*RUNNING)["exit_code"] == 5


def is_last(line: Message) -> bool:
    """Whether nothing is asked of the run between this and its end."""
    return bool(line["op"] == "stop" or line["number"] != SIGNALLED[0])


def steady(problems: list[str]) -> list[str]:
    return [each for each in problems if each.split(" ")[0].rpartition(".")[2] not in UNSTEADY]


def test_something_was_recorded() -> None:
    assert RELEASES
