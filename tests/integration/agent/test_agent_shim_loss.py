"""What an agent does when its shim dies while the agent waits for something else: an answer, or the hooks of its own start."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lattice.agent.containers.holder import Held
from lattice.agent.driver import Driver
from lattice.agent.hooks.protocol import Launch
from lattice.agent.hooks.record import write_record
from lattice.agent.hooks.scratch import ScratchSettings
from lattice.agent.hooks.stage_out import StageOutHook
from lattice.agent.machine.state import Retention
from lattice.agent.messages import NodeFacts
from lattice.agent.runs.folders import RunFolders
from lattice.agent.settings import Settings
from lattice.agent.shim_client import SHIM_SOCKET
from lattice.ports.nodes.agents import EndCause, Phase, RunKey, StartOrder
from lattice.ports.nodes.data import StageOutOrder
from tests.integration.agent.agent_rig import cluster, until
from tests.unit.agent.test_launch import own_policy

KEY = (7, 1)
# Kills the agent that runs it, once.
DIES = "#!/bin/sh\nif [ -e {folder}/die ]; then rm {folder}/die; kill -9 $PPID; sleep 60; fi\n"
# Kills the shim while the next agent undoes what was prepared, and lasts until the shim is gone.
KILLS = """#!/bin/sh
[ -s {folder}/shim ] || exit 0
read -r pid <{folder}/shim
rm {folder}/shim
kill -9 "$pid"
while [ -n "$(readlink /proc/$pid/exe)" ]; do sleep 0.01; done
touch {folder}/killed
"""


class StubShim:
    """Knows no run, and answers nothing but that."""

    def __init__(self) -> None:
        self.connections: list[asyncio.StreamWriter] = []
        self.heard: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        while line := await reader.readline():
            asked = json.loads(line)
            self.heard.append(asked["op"])
            if asked["op"] == "list":
                answer = {"id": asked["id"], "ok": True, "pid": len(self.connections), "protocol": [1, 2]}
                writer.write(json.dumps(answer).encode() + b"\n")


@asynccontextmanager
async def stub_of(state_dir: Path) -> AsyncIterator[StubShim]:
    stub = StubShim()
    server = await asyncio.start_unix_server(stub.serve, state_dir / SHIM_SOCKET)
    try:
        yield stub
    finally:
        server.close()
        for connection in stub.connections:
            connection.close()


def driver_of(state_dir: Path, scratch_dir: Path | None = None) -> Driver:
    facts = NodeFacts(
        node_id="n1",
        address="",
        boot_id="b",
        cpus=4,
        memory_mb=4096,
        gpus=0,
        gpu_type="",
        group="",
        features=(),
        runs_as_root=True,
        agent_user="",
    )
    settings = Settings(
        state_dir=state_dir,
        facts=facts,
        policy=own_policy(),
        retention=Retention(),
        output_limit=1,
        grace_s=1.0,
        scratch=ScratchSettings(folder=scratch_dir),
    )
    return Driver(settings, None)


def test_a_container_whose_shim_died_before_it_answered_is_let_go(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with stub_of(tmp_path) as stub:
            driver = driver_of(tmp_path)
            await driver.start()
            holder = await asyncio.create_subprocess_exec("cat", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            request: dict[str, object] = {"op": "start", "dir": str(tmp_path / "runs" / "7.1")}
            driver._containers._held[str(request["dir"])] = [Held(holder, "/proc/1/ns/mnt")]
            driver.ask_shim(request, lambda answer: driver._containers.release(request))
            await until(lambda: "start" in stub.heard, "the request")
            stub.connections[0].close()
            await asyncio.wait_for(holder.wait(), 30)
            driver.end_checks()
            assert driver._shim.client is not None
            driver._shim.client.close()

    asyncio.run(scenario())


def test_results_of_a_lost_run_do_not_keep_its_agent_from_the_servers(tmp_path: Path) -> None:
    """Agent and shim died before the run had a record of its start. Its results go to a bucket, for which only a server can sign."""
    scratch, owner = tmp_path / "scratch", (os.getuid(), os.getgid())
    results = scratch / "7.1" / "out"
    results.mkdir(parents=True)
    (results / "file").write_text("result")
    key = RunKey(*KEY)
    out = StageOutOrder(source="out", target="s3://results/a7", grant="grant")
    order = StartOrder(key=key, allocation_id="a7", argv=("true",), stage_out=(out,))
    folder = RunFolders(tmp_path / "agent", reachable=False).create(order, owner, "a shim that is gone")
    left: dict[str, str] = {}

    async def scenario() -> None:
        request: dict[str, object] = {"env": {}, "uid": owner[0], "gid": owner[1]}
        await StageOutHook(scratch, "n1").prepare(Launch(order=order, request=request, leave=left.update))
        write_record(folder, {"stage_out": left})
        async with stub_of(tmp_path / "agent"):
            driver = driver_of(tmp_path / "agent", scratch)
            await asyncio.wait_for(driver.start(), 60)
            run = driver.find_run(key)
            assert run is not None
            assert (run.phase, run.settled, run.end and run.end.cause) == (Phase.ENDED, False, EndCause.NODE)
            assert (results / "file").exists()
            driver.end_checks()
            assert driver._shim.client is not None
            driver._shim.client.close()

    asyncio.run(scenario())


@pytest.mark.root
def test_a_shim_that_dies_while_the_new_agent_still_undoes_is_replaced(tmp_path: Path) -> None:
    prologue, epilogue = tmp_path / "prologue.d" / "10-dies", tmp_path / "epilogue"
    prologue.parent.mkdir()
    for program, text in ((prologue, DIES), (epilogue, KILLS)):
        program.write_text(text.format(folder=tmp_path))
        program.chmod(0o755)

    async def scenario() -> None:
        # The first of two prologues is one to undo when the second one fails.
        options = ("--prologue", "/bin/true", "--prologue-dir", str(prologue.parent), "--epilogue", str(epilogue))
        async with cluster(*options) as (server, agent):
            (tmp_path / "die").touch()
            server.start(KEY, ["true"])
            await until(lambda: agent.process.poll() is not None, "the agent killed by its prologue")
            (tmp_path / "shim").write_text(f"{agent.shim_pid()}\n")
            agent.start()
            await server.session(2)
            assert (tmp_path / "killed").exists()
            server.start(KEY, ["true"])
            assert (await server.ended(KEY)).exit_code == 0

    asyncio.run(scenario())
