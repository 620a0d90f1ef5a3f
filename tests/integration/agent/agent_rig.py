"""A real agent process with a real shim, and a server of the tests' own that speaks the agents' wire."""

import asyncio
import contextlib
import getpass
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import grpc

from lattice.agent.shim.cgroups import open_root
from lattice.agent.shim.shim import default_cgroup_root
from lattice.wire.pb import agent_pb2 as pb
from lattice.wire.pb.agent_pb2_grpc import add_AgentServiceServicer_to_server
from tests.integration.agent.shim_process import alive

DEADLINE_S = 60.0
TOKEN = "agent-secret"
PROGRAM = "lattice.daemons.programs.agent"
Key = tuple[int, int]
Context = grpc.aio.ServicerContext[pb.AgentMessage, pb.ServerMessage]


async def until(condition: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    end, pause_s = time.monotonic() + deadline_s, 0.005
    while not condition():
        assert time.monotonic() < end, f"not within {deadline_s} s: {what}"
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 1.2, 0.05)


async def all_gone(pids: list[int]) -> None:
    await until(lambda: not any(alive(pid) for pid in pids), f"end of {pids}")


def key_of(key: pb.RunKey) -> Key:
    return key.number, key.run


def run_key(key: Key) -> pb.RunKey:
    return pb.RunKey(number=key[0], run=key[1])


class Session:
    """One stream of the agent, as the server sees it."""

    def __init__(self, metadata: dict[str, str]) -> None:
        self.metadata = metadata
        self.messages: list[pb.AgentMessage] = []
        self.is_open = True
        self._outbox: asyncio.Queue[pb.ServerMessage] = asyncio.Queue()

    def send(self, **body: Any) -> None:  # noqa: ANN401 - any message of the wire
        self._outbox.put_nowait(pb.ServerMessage(**body))

    async def next_to_send(self) -> pb.ServerMessage:
        return await self._outbox.get()

    def of_kind(self, kind: str) -> list[Any]:
        return [getattr(message, kind) for message in self.messages if message.WhichOneof("body") == kind]

    def reports(self, key: Key) -> list[pb.RunReport]:
        return [report for report in self.of_kind("run_report") if key_of(report.key) == key]

    def position(self, condition: Callable[[pb.AgentMessage], bool]) -> int:
        return next(index for index, message in enumerate(self.messages) if condition(message))


class TestServer:
    """Welcomes agents, acknowledges reports unless told not to, and remembers everything."""

    __test__ = False

    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.valid: set[Key] = set()
        self.acknowledges = True
        self.heartbeat_interval_s = 0.2
        self.down_after_s = 90.0
        self.protocol: pb.Protocol | None = None  # None: a server of release 0.1.0
        self.port = 0
        self._server: grpc.aio.Server | None = None
        self._readers = 0

    async def listen(self, port: int = 0) -> None:
        self._server = grpc.aio.server(options=(("grpc.so_reuseport", 0), ("grpc.http2.max_ping_strikes", 0)))
        add_AgentServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        await self._server.start()

    async def close(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    async def Connect(self, messages: AsyncIterator[pb.AgentMessage], context: Context) -> None:
        metadata = {key: str(value) for key, value in context.invocation_metadata() or ()}
        session = Session(metadata)
        self.sessions.append(session)
        writer = asyncio.create_task(self._write(session, context))
        try:
            async for message in messages:
                session.messages.append(message)
                self._answer(session, message)
        finally:
            session.is_open = False
            writer.cancel()

    async def _write(self, session: Session, context: Context) -> None:
        while True:
            await context.write(await session.next_to_send())

    def _answer(self, session: Session, message: pb.AgentMessage) -> None:
        if message.HasField("register"):
            session.send(
                welcome=pb.Welcome(
                    valid_runs=[run_key(key) for key in sorted(self.valid)],
                    heartbeat_interval_s=self.heartbeat_interval_s,
                    down_after_s=self.down_after_s,
                    server_name="test",
                    session=len(self.sessions),
                    protocol=self.protocol,
                )
            )
        elif message.HasField("run_report") and self.acknowledges:
            report = message.run_report
            session.send(report_ack=pb.ReportAck(key=report.key, seq=report.seq))

    async def session(self, number: int = 1) -> Session:
        """The agent's stream of that number, once it is confirmed."""
        await until(lambda: len(self.sessions) >= number, f"stream {number}")
        session = self.sessions[number - 1]
        await until(lambda: session.of_kind("confirmed"), "Confirmed")
        return session

    @property
    def newest(self) -> Session:
        return self.sessions[-1]

    def start(self, key: Key, argv: Iterable[str] = (), **more: Any) -> None:  # noqa: ANN401 - fields of StartRun
        self.valid.add(key)
        fields: dict[str, Any] = {"user": getpass.getuser(), "cwd": "/", "nodes": ["n1"], "grace_s": 5.0, **more}
        order = pb.StartRun(key=run_key(key), allocation_id=f"a{key[0]}", argv=list(argv), **fields)
        self.newest.send(start_run=order)

    def stop(self, key: Key, grace_s: float = 5.0, why: str = "cancelled") -> None:
        self.newest.send(stop_run=pb.StopRun(key=run_key(key), grace_s=grace_s, why=why))

    def all_reports(self, key: Key) -> list[pb.RunReport]:
        return [report for session in self.sessions for report in session.reports(key)]

    async def running(self, key: Key) -> pb.RunReport:
        return await self._reported(key, pb.PHASE_RUNNING)

    async def ended(self, key: Key) -> pb.RunReport:
        return await self._reported(key, pb.PHASE_ENDED)

    async def _reported(self, key: Key, phase: pb.Phase) -> pb.RunReport:
        def found() -> list[pb.RunReport]:
            return [report for report in self.all_reports(key) if report.phase == phase]

        await until(found, f"report {pb.Phase.Name(phase)} of {key}: {self.all_reports(key)}")
        return found()[0]

    def read(self, key: Key, **more: Any) -> int:  # noqa: ANN401 - fields of ReadOutput
        self._readers += 1
        fields = {"stream": pb.OUTPUT_STREAM_STDOUT, **more}
        self.newest.send(read_output=pb.ReadOutput(reader=self._readers, key=run_key(key), **fields))
        return self._readers

    def chunks(self, reader: int) -> list[pb.OutputChunk]:
        return [chunk for chunk in self.newest.of_kind("output_chunk") if chunk.reader == reader]

    async def output(self, key: Key, **more: Any) -> bytes:  # noqa: ANN401 - fields of ReadOutput
        """All that one reader is sent, up to its end."""
        reader = self.read(key, **more)
        await until(lambda: any(chunk.eof for chunk in self.chunks(reader)), "end of output")
        chunks = self.chunks(reader)
        assert not chunks[-1].error, chunks[-1].error
        return b"".join(chunk.data for chunk in chunks)


class AgentProcess:
    """One agent that can be killed and started again over the same state directory."""

    def __init__(
        self, state_dir: Path, servers: str, *options: str, program: str = PROGRAM, sources: Path | None = None
    ) -> None:
        """`sources`: where the modules of another release lie, and `program` its agent."""
        self.state_dir = state_dir
        self._environment = None if sources is None else {**os.environ, "PYTHONPATH": str(sources)}
        self.token_file = state_dir.parent / "token"
        self.token_file.write_text(f"{TOKEN}\n")
        self.log = state_dir.parent / "agent.log"
        self.command = [sys.executable, "-m", program, "--node-id", "n1"]
        self.command += ["--state-dir", str(state_dir), "--servers", servers, "--token-file", str(self.token_file)]
        self.command += ["--allow-user", getpass.getuser(), *options]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill(self, number: int = signal.SIGKILL) -> int:
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_S)

    def shim_pid(self) -> int:
        return int((self.state_dir / "shim.pid").read_text())

    def folder(self, key: Key) -> Path:
        return self.state_dir / "runs" / f"{key[0]}.{key[1]}"

    def status(self, key: Key) -> str:
        """The shim's record of a run; it may come a moment after the start."""
        file = self.folder(key) / "status.json"
        return file.read_text() if file.exists() else ""

    async def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()
        # A killed agent may have left a shim that is still on its way.
        while pids := self._shims():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            await all_gone(pids)
        self._remove_cgroup()

    def _remove_cgroup(self) -> None:
        """What a killed shim could not clear away."""
        root = open_root(default_cgroup_root(str(self.state_dir)))
        if root is not None:
            root.sweep(DEADLINE_S)
            root.remove()

    def _shims(self) -> list[int]:
        wanted = os.fsencode(self.state_dir)
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and wanted in (entry / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return [pid for pid in found if alive(pid)]


@contextlib.asynccontextmanager
async def cluster(*options: str, server: TestServer | None = None) -> AsyncIterator[tuple[TestServer, AgentProcess]]:
    """A listening server and a registered agent."""
    server = server or TestServer()
    folder = Path(tempfile.mkdtemp(prefix="lattice-agent-"))
    folder.chmod(0o755)
    await server.listen()
    agent = AgentProcess(folder / "state", f"127.0.0.1:{server.port}", *options)
    try:
        agent.start()
        await server.session()
        yield server, agent
    except BaseException:
        sys.stderr.write(agent.log.read_text(errors="replace"))
        raise
    finally:
        await agent.close()
        await server.close()
        shutil.rmtree(folder, ignore_errors=True)
