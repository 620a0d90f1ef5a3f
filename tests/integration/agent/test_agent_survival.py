"""What happens to work when agent, shim or server go away in the middle of it."""

import asyncio
import os
import resource
import signal
import subprocess
import time
from pathlib import Path

from lattice.wire.pb import agent_pb2 as pb
from tests.integration.agent.agent_rig import AgentProcess, TestServer, cluster, until
from tests.integration.agent.shim_process import alive

KEY = (7, 1)


def known(session_register: pb.Register) -> dict[tuple[int, int], pb.Phase]:
    return {(run.key.number, run.key.run): run.phase for run in session_register.runs}


def test_a_killed_agent_costs_neither_process_nor_output_nor_exit_code(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster() as (server, agent):
            go, pid_file = tmp_path / "go", tmp_path / "pid"
            script = f"echo before; echo $$ > {pid_file}; while ! [ -e {go} ]; do sleep 0.05; done; echo after; exit 5"
            server.start(KEY, ["sh", "-c", script])
            await server.running(KEY)
            await until(lambda: pid_file.exists() and pid_file.read_text(), "the work's own pid")
            agent.kill()
            agent.start()
            session = await server.session(2)
            assert known(session.of_kind("register")[0]) == {KEY: pb.PHASE_RUNNING}
            assert alive(int(pid_file.read_text()))
            go.touch()
            ended = await server.ended(KEY)
            assert (ended.cause, ended.exit_code) == (pb.END_CAUSE_EXIT, 5)
            assert await server.output(KEY) == b"before\nafter\n"

    asyncio.run(scenario())


def test_an_end_that_no_agent_saw_is_reported_by_the_next_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster() as (server, agent):
            go = tmp_path / "go"
            server.start(KEY, ["sh", "-c", f"while ! [ -e {go} ]; do sleep 0.02; done; exit 6"])
            await server.running(KEY)
            agent.kill()
            go.touch()
            await until(lambda: '"ended"' in agent.status(KEY), "the shim's record of the end")
            agent.start()
            assert (await server.ended(KEY)).exit_code == 6

    asyncio.run(scenario())


def test_an_end_is_repeated_until_it_is_acknowledged_and_forgotten_then() -> None:
    async def scenario() -> None:
        async with cluster() as (server, agent):
            server.acknowledges = False
            server.start(KEY, ["sh", "-c", "exit 4"])
            await server.ended(KEY)
            agent.kill()
            server.acknowledges = True
            agent.start()
            session = await server.session(2)
            assert known(session.of_kind("register")[0]) == {KEY: pb.PHASE_ENDED}
            await until(lambda: session.reports(KEY), "the repeated report")
            assert session.reports(KEY)[0].exit_code == 4
            await until((agent.folder(KEY) / "acknowledged").exists, "the acknowledgement on disk")
            agent.kill()
            agent.start()
            session = await server.session(3)
            assert known(session.of_kind("register")[0]) == {}

    asyncio.run(scenario())


def test_a_killed_shim_ends_its_work_with_cause_node_and_a_new_one_takes_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster() as (server, agent):
            pid_file = tmp_path / "pid"
            server.start(KEY, ["sh", "-c", f"echo $$ > {pid_file}; exec sleep 600"])
            await server.running(KEY)
            await until(lambda: pid_file.exists() and pid_file.read_text(), "the work's own pid")
            shim = agent.shim_pid()
            os.kill(shim, signal.SIGKILL)
            ended = await server.ended(KEY)
            assert ended.cause == pb.END_CAUSE_NODE
            assert not alive(int(pid_file.read_text()))
            assert agent.shim_pid() != shim
            server.start((8, 1), ["true"])
            assert (await server.ended((8, 1))).cause == pb.END_CAUSE_EXIT

    asyncio.run(scenario())


def test_agent_and_shim_killed_together_lose_the_work_but_not_the_report(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster() as (server, agent):
            pid_file = tmp_path / "pid"
            server.start(KEY, ["sh", "-c", f"echo $$ > {pid_file}; exec sleep 600"])
            await server.running(KEY)
            await until(lambda: pid_file.exists() and pid_file.read_text(), "the work's own pid")
            agent.kill()
            os.kill(agent.shim_pid(), signal.SIGKILL)
            agent.start()
            assert (await server.ended(KEY)).cause == pb.END_CAUSE_NODE
            assert not alive(int(pid_file.read_text()))

    asyncio.run(scenario())


def test_a_stale_run_is_dead_before_the_node_confirms(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster() as (server, agent):
            pid_file = tmp_path / "pid"
            server.start(KEY, ["sh", "-c", f"trap '' TERM; echo $$ > {pid_file}; sleep 600"])
            await server.running(KEY)
            await until(lambda: pid_file.exists() and pid_file.read_text(), "the work's own pid")
            agent.kill()
            server.valid.clear()
            agent.start()
            session = await server.session(2)
            assert not alive(int(pid_file.read_text()))
            await server.ended(KEY)
            ended = session.position(lambda m: m.HasField("run_report") and m.run_report.phase == pb.PHASE_ENDED)
            confirmed = session.position(lambda m: m.HasField("confirmed"))
            assert session.messages[confirmed].confirmed.session == 2
            assert session.messages[ended].run_report.cause == pb.END_CAUSE_STOPPED

    asyncio.run(scenario())


def test_work_goes_on_while_the_server_is_away_and_is_reported_to_its_successor() -> None:
    async def scenario() -> None:
        async with cluster() as (server, _):
            server.start(KEY, ["sh", "-c", "sleep 0.3; exit 9"])
            await server.running(KEY)
            port = server.port
            await server.close()
            successor = TestServer()
            successor.valid = {KEY}
            await asyncio.sleep(0.5)
            await successor.listen(port)
            try:
                assert (await successor.ended(KEY)).exit_code == 9
            finally:
                await successor.close()

    asyncio.run(scenario())


def test_an_agent_moves_on_to_another_server() -> None:
    async def scenario() -> None:
        other = TestServer()
        await other.listen()
        server = TestServer()
        async with cluster(server=server) as (_, agent):
            agent.kill()
            place = agent.command.index("--servers") + 1
            agent.command[place] = f"127.0.0.1:{server.port},127.0.0.1:{other.port}"
            agent.start()
            await until(lambda: len(server.sessions) == 2 or other.sessions, "a stream")
            first, second = (server, other) if len(server.sessions) == 2 else (other, server)
            before = len(second.sessions)
            await first.close()
            await until(lambda: len(second.sessions) > before, "a stream to the other server")
        await other.close()

    asyncio.run(scenario())


def test_a_goodbye_brings_a_new_registration_at_once() -> None:
    async def scenario() -> None:
        async with cluster() as (server, _):
            server.newest.send(goodbye=pb.Goodbye(why="rebalancing"))
            await server.session(2)

    asyncio.run(scenario())


def test_a_fenced_run_dies_when_no_server_is_heard() -> None:
    async def scenario() -> None:
        server = TestServer()
        server.down_after_s = 1.0
        async with cluster(server=server) as (_, agent):
            server.start(KEY, ["sleep", "600"], fence=True)
            server.start((8, 1), ["sleep", "600"])
            await server.running(KEY)
            await server.running((8, 1))
            await server.close()
            await until(lambda: '"ended"' in agent.status(KEY), "the end of the fenced run")
            assert '"fenced"' in agent.status(KEY)
            assert '"running"' in agent.status((8, 1))

    asyncio.run(scenario())


def test_sigterm_ends_the_agent_at_once_and_nothing_else(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster() as (server, agent):
            pid_file = tmp_path / "pid"
            server.start(KEY, ["sh", "-c", f"echo $$ > {pid_file}; exec sleep 600"])
            await server.running(KEY)
            await until(lambda: pid_file.exists() and pid_file.read_text(), "the work's own pid")
            begin = time.monotonic()
            assert await asyncio.to_thread(agent.kill, signal.SIGTERM) == 0
            assert time.monotonic() - begin < 10
            assert alive(agent.shim_pid())
            assert alive(int(pid_file.read_text()))

    asyncio.run(scenario())


def test_a_second_agent_over_the_same_state_directory_is_told_so() -> None:
    async def scenario() -> None:
        async with cluster() as (_, agent):
            second = await asyncio.to_thread(subprocess.run, agent.command, capture_output=True, text=True, timeout=20)
            assert second.returncode == 2
            assert f"another agent (pid {agent.process.pid}) uses {agent.state_dir}" in second.stderr

    asyncio.run(scenario())


def test_run_folders_go_when_their_time_has_come() -> None:
    async def scenario() -> None:
        async with cluster("--keep-runs", "0") as (server, agent):
            server.start(KEY, ["true"])
            await server.ended(KEY)
            await until(lambda: not agent.folder(KEY).exists(), "removal of the run folder")

    asyncio.run(scenario())


def test_a_start_that_was_recorded_and_never_forked_can_be_asked_for_again() -> None:
    """The folder of a start that the shim never heard of is no run: the server may ask again."""

    async def scenario() -> None:
        async with cluster() as (server, agent):
            agent.kill()
            folder = agent.folder(KEY)
            folder.mkdir()
            (folder / "spec.json").write_text("{")
            agent.start()
            session = await server.session(2)
            assert known(session.of_kind("register")[0]) == {}
            server.start(KEY, ["true"])
            assert (await server.ended(KEY)).cause == pb.END_CAUSE_EXIT

    asyncio.run(scenario())


def test_an_agent_that_cannot_start_says_why(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path / "state", "nowhere")
    failed = subprocess.run(agent.command, capture_output=True, text=True, timeout=20)
    assert failed.returncode == 2
    assert "not a server address: 'nowhere'" in failed.stderr


def test_a_full_disk_costs_a_node_neither_its_server_nor_its_agent() -> None:
    async def scenario() -> None:
        async with cluster() as (server, agent):
            server.start(KEY, ["sleep", "300"])
            server.start((8, 1), ["sleep", "300"])
            await server.running(KEY)
            await server.running((8, 1))
            resource.prlimit(agent.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            server.newest.send(goodbye=pb.Goodbye(why="test"))
            await server.session(2)
            server.stop((8, 1))
            await server.ended((8, 1))
            await until((agent.folder((8, 1)) / "acknowledged").exists, "the end to be noted")
            assert agent.process.poll() is None
            agent.kill()
            agent.command = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *agent.command]
            agent.start()
            session = await server.session(3)
            assert agent.process.poll() is None
            assert KEY in known(session.of_kind("register")[0])

    asyncio.run(scenario())


def test_a_node_that_can_get_no_shim_falls_silent_until_it_has_one() -> None:
    async def scenario() -> None:
        async with cluster() as (server, agent):

            def beats() -> int:
                return len(server.newest.of_kind("heartbeat"))

            lock = agent.state_dir / "shim.lock"
            lock.unlink()
            lock.mkdir()
            os.kill(agent.shim_pid(), signal.SIGKILL)
            before = -1
            while before != beats():
                before = beats()
                await asyncio.sleep(6 * server.heartbeat_interval_s)
            server.start(KEY, ["true"])
            await asyncio.sleep(4 * server.heartbeat_interval_s)
            assert beats() == before
            lock.rmdir()
            await server.ended(KEY)
            await until(lambda: beats() > before, "heartbeats")

    asyncio.run(scenario())
