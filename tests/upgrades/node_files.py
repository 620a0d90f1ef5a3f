"""What a release leaves on a node: the state directory of an agent whose machine died, and what agent and shim said to each other.

::

    node/state/        run and step folders, boot id, last server; {folder} and {user} differ from machine to machine
    node/shim.jsonl    every line between agent and shim, in order: {"from": "agent" or "shim", "line": ...}
    node/shim.zip      the shim's own modules, so that a real one can outlive its agent

`python -m tests.upgrades.node_files TARGET SOURCES PROGRAM` records the release whose modules lie in SOURCES and whose agent is
the module PROGRAM.
"""

import asyncio
import contextlib
import getpass
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import lattice.agent
from lattice.wire.pb import agent_pb2 as pb
from tests.integration.agent.agent_rig import AgentProcess, TestServer, run_key, until

NODE, STATE, FRAMES, SHIM = "node", "state", "shim.jsonl", "shim.zip"
SHIM_SOCKET = "shim.sock"
SOURCES = Path(lattice.agent.__file__).parents[2]
PROGRAM = "lattice.daemons.programs.agent"
NOT_FOR_OTHERS = {"shim.sock", "shim.lock", "shim.pid", "shim.log", "agent.lock", "behind"}
NO_BOOT = "00000000-0000-0000-0000-000000000000"
IMPORT = re.compile(r"^\s*from (lattice[\w.]*) import", re.MULTILINE)

# Runs: what became of them before the machine died. The number of the allocation stands for the case.
KEPT = (11, 1)  # ended, and a server acknowledged it
UNHEARD = (12, 2)  # ended, and no server heard of it
RUNNING = (13, 1)
UNASKED = (14, 1)  # accepted; the shim never answered
SIGNALLED = (15, 1)
STEPS = {"ended": 0, "running": 1}  # of RUNNING
WAITS = "echo alive; while ! [ -e go ]; do sleep 0.05; done; echo over; exit 5"


class Tap:
    """Stands between agent and shim, and writes down what they say."""

    def __init__(self, state_dir: Path) -> None:
        self.lines: list[tuple[str, str]] = []
        self._behind = state_dir / "behind"
        self._front = state_dir / SHIM_SOCKET
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._front.rename(self._behind)
        self._server = await asyncio.start_unix_server(self._serve, self._front, limit=1 << 24)

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_shim, to_shim = await asyncio.open_unix_connection(self._behind, limit=1 << 24)
        await asyncio.gather(self._pass("agent", reader, to_shim), self._pass("shim", from_shim, writer))

    async def _pass(self, who: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                self.lines.append((who, line.decode().rstrip("\n")))
                writer.write(line)
                await writer.drain()
        writer.close()


def shim_modules(sources: Path) -> Iterator[Path]:
    """The files that the shim needs, relative to `sources`: it is started from them alone."""
    agent = sources / "lattice" / "agent"
    waiting = [agent / "shim.py" if (agent / "shim.py").exists() else agent / "shim" / "shim.py"]
    seen: set[Path] = set()
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        waiting += [folder / "__init__.py" for folder in file.parents if sources in folder.parents]
        found = [sources.joinpath(*name.split(".")) for name in IMPORT.findall(file.read_text())]
        waiting += [
            path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py" for path in found
        ]
    return (file.relative_to(sources) for file in sorted(seen))


def pack_shim(sources: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in shim_modules(sources):
            made = zipfile.ZipInfo(str(file), (1980, 1, 1, 0, 0, 0))
            archive.writestr(made, (sources / file).read_bytes(), zipfile.ZIP_DEFLATED)


def unpack_shim(packed: Path, target: Path) -> Path:
    """The program of a recorded shim."""
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(target)
    (program,) = target.glob("lattice/agent/**/shim.py")
    return program


@contextlib.asynccontextmanager
async def node(folder: Path, sources: Path, program: str) -> AsyncIterator[tuple[TestServer, AgentProcess, Tap]]:
    """An agent of the release, behind whose back its talk with the shim is written down."""
    server = TestServer()
    await server.listen()
    agent = AgentProcess(folder / "state", f"127.0.0.1:{server.port}", program=program, sources=sources)
    tap = Tap(agent.state_dir)
    try:
        agent.start()
        await server.session()
        agent.kill()
        await tap.start()
        agent.start()
        await server.session(2)
        yield server, agent, tap
    finally:
        tap.stop()
        await agent.close()
        await server.close()


def step(number: int, argv: list[str], **more: Any) -> pb.LaunchStep:  # noqa: ANN401 - fields of LaunchStep
    base = pb.StartRun(
        key=run_key(RUNNING),
        allocation_id=f"a{RUNNING[0]}",
        user=getpass.getuser(),
        cwd="/",
        argv=argv,
        nodes=["n1"],
        env={"PATH": "/usr/bin:/bin"},
        token="of the step",
        grace_s=5.0,
    )
    tasks = [pb.StepTask(rank=rank, local_rank=rank, has_input=rank == 0) for rank in (0, 1)]
    fields = {"launch_id": f"launch-{number}", "plan": b"plan", "tasks": tasks, "size": 2, "nodes": ["n1"], **more}
    return pb.LaunchStep(base=base, step=number, **fields)


def step_key(number: int) -> pb.StepKey:
    return pb.StepKey(run=run_key(RUNNING), step=number)


async def work(server: TestServer, agent: AgentProcess, scratch: Path) -> None:
    """One run, or step, of each kind that a state directory can hold."""
    common: dict[str, Any] = {
        "env": {"PATH": "/usr/bin:/bin"},
        "submit_dir": "/",
        "api_url": "http://127.0.0.1:1",
        "tasks": 1,
    }
    server.start(
        KEPT, script=b"#!/bin/sh\necho out; echo err >&2; exit 3\n", token="of the run", name="kept", walltime_s=60,
        task_index=4, task_group_id="a11", summary=True, cpus=1, memory_mb=64, **common,
    )  # fmt: skip
    await server.ended(KEPT)
    await until((agent.folder(KEPT) / "acknowledged").exists, "the acknowledgement on disk")
    files = pb.RunFiles(stdout=str(scratch / "out"), append=True)
    early = pb.EarlySignal(signal=int(signal.SIGUSR1), before_s=5.0, to="all")
    server.start(RUNNING, ["sh", "-c", WAITS], **{**common, "cwd": str(scratch)}, token="of the run", files=files,
                 early_signal=early, walltime_s=3600, fence=True)  # fmt: skip
    await server.running(RUNNING)
    await steps(server)
    server.start(SIGNALLED, ["sleep", "600"], **common)
    await server.running(SIGNALLED)
    server.newest.send(pause_run=pb.PauseRun(key=run_key(SIGNALLED), paused=True))
    server.newest.send(pause_run=pb.PauseRun(key=run_key(SIGNALLED), paused=False))
    server.newest.send(update_run=pb.UpdateRun(key=run_key(SIGNALLED), walltime_s=900))
    server.newest.send(signal_run=pb.SignalRun(key=run_key(SIGNALLED), signal=int(signal.SIGCONT), to="all"))
    server.acknowledges = False
    server.stop(SIGNALLED, why="cancelled by ada")
    await server.ended(SIGNALLED)
    server.start(UNHEARD, ["sh", "-c", "echo unheard; exit 6"], **common)
    await server.ended(UNHEARD)


async def steps(server: TestServer) -> None:
    server.newest.send(launch_step=step(STEPS["ended"], ["cat"], time_s=600.0, cpus_per_task=1))
    key = step_key(STEPS["ended"])
    server.newest.send(step_input=pb.StepInput(key=key, offset=0, data=b"read by rank 0\n", eof=True, ticket=1))

    def ended() -> list[pb.StepReport]:
        return [report for report in server.newest.of_kind("step_report") if report.ended]

    await until(ended, "the end of the step")
    server.newest.send(launch_step=step(STEPS["running"], ["sh", "-c", "echo working; exec sleep 600"]))
    reader = server.read(RUNNING, step=STEPS["running"], follow=True)
    await until(lambda: b"working" in b"".join(chunk.data for chunk in server.chunks(reader)), "its journal")
    server.newest.send(signal_step=pb.SignalStep(key=step_key(STEPS["running"]), signal=int(signal.SIGCONT)))


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


async def record_node(target: Path, sources: Path = SOURCES, program: str = PROGRAM) -> None:
    folder = Path(tempfile.mkdtemp(prefix="lattice-node-"))
    folder.chmod(0o755)
    scratch = folder / "scratch"
    scratch.mkdir()
    recorded = target / NODE
    recorded.mkdir(parents=True)
    try:
        async with node(folder, sources, program) as (server, agent, tap):
            await work(server, agent, scratch)
            journal = agent.state_dir / "steps" / f"{RUNNING[0]}.{RUNNING[1]}.{STEPS['running']}"
            await until(lambda: list(journal.glob("journal.*")), "what the running step wrote")
            await until(lambda: '"running"' in agent.status(RUNNING), "the shim's record of the running one")
            shim = agent.shim_pid()
            os.kill(shim, signal.SIGSTOP)
            await until(lambda: stopped(shim), "the shim to stand still")
            server.start(UNASKED, ["true"])
            await until((agent.folder(UNASKED) / "spec.json").exists, "the record of the start")
            agent.kill()
            keep_state(agent.state_dir, recorded / STATE, folder)
            os.kill(shim, signal.SIGCONT)
            keep_lines(tap.lines, recorded / FRAMES, folder)
        pack_shim(sources, recorded / SHIM)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def anonymous(text: str, folder: Path) -> str:
    """The same on every machine: no directory and no account of the one where it was recorded."""
    text = text.replace(str(folder), "{folder}")
    home = os.path.expanduser("~")
    account = {f'"user": "{getpass.getuser()}"': '"user": "{user}"', f'"user":"{getpass.getuser()}"': '"user":"{user}"'}
    for name in ("USER", "LOGNAME"):
        account[f'"{name}": "{getpass.getuser()}"'] = f'"{name}": "{{user}}"'
        account[f'"{name}":"{getpass.getuser()}"'] = f'"{name}":"{{user}}"'
    account |= {f'"HOME":"{home}"': '"HOME":"/"', f'"HOME": "{home}"': '"HOME": "/"'}
    for own, other in account.items():
        text = text.replace(own, other)
    return text


def keep_state(state_dir: Path, target: Path, folder: Path) -> None:
    for path in sorted(state_dir.rglob("*")):
        name = path.relative_to(state_dir)
        if not path.is_file() or path.name in NOT_FOR_OTHERS or name.parts[0] == "bin":
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        content = path.read_bytes()
        if path.name == "boot_id":
            content = f"{NO_BOOT}\n".encode()
        if path.suffix == ".json":
            content = anonymous(content.decode(), folder).encode()
        (target / name).write_bytes(content)


def keep_lines(lines: list[tuple[str, str]], target: Path, folder: Path) -> None:
    written = [json.dumps({"from": who, "line": json.loads(anonymous(line, folder))}) for who, line in lines]
    target.write_text("\n".join(written) + "\n")


if __name__ == "__main__":
    asyncio.run(record_node(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
