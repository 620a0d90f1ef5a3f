"""Work on a node: what is started, reported, stopped and refused."""

import asyncio
import os
import pwd
import signal
import stat
from pathlib import Path

import pytest

from lattice.wire.pb import agent_pb2 as pb
from tests.integration.agent.agent_rig import TOKEN, cluster, until
from tests.integration.agent.shim_process import alive

KEY = (7, 1)


def test_an_agent_registers_what_it_has() -> None:
    async def scenario() -> None:
        async with cluster("--cpus", "3", "--memory-mb", "512", "--features", "big,fast", "--group", "g1") as (
            server,
            _,
        ):
            session = server.sessions[0]
            assert session.metadata["authorization"] == f"Bearer {TOKEN}"
            (register,) = session.of_kind("register")
            hardware = register.hardware
            assert (register.node_id, hardware.cpus, hardware.memory_mb, hardware.group) == ("n1", 3, 512, "g1")
            assert {"big", "fast"} <= set(hardware.features)
            assert register.boot_id
            assert not register.runs

    asyncio.run(scenario())


def test_an_agent_beats_with_rising_numbers_after_the_welcome() -> None:
    async def scenario() -> None:
        async with cluster() as (server, _):
            session = server.sessions[0]
            await until(lambda: len(session.of_kind("heartbeat")) >= 4, "heartbeats")
            beats = [beat.seq for beat in session.of_kind("heartbeat")]
            assert beats == sorted(set(beats))
            assert session.of_kind("heartbeat")[-1].memory_used_mb > 0

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("script", "cause", "exit_code", "number"),
    [
        ("exit 0", pb.END_CAUSE_EXIT, 0, 0),
        ("exit 3", pb.END_CAUSE_EXIT, 3, 0),
        ("kill -SEGV $$", pb.END_CAUSE_SIGNAL, 0, signal.SIGSEGV),
    ],
)
def test_a_run_is_reported_when_it_runs_and_when_it_ends(
    script: str, cause: pb.EndCause, exit_code: int, number: int
) -> None:
    async def scenario() -> None:
        async with cluster() as (server, _):
            server.start(KEY, ["sh", "-c", script])
            ended = await server.ended(KEY)
            assert (ended.cause, ended.exit_code, ended.signal) == (cause, exit_code, number)
            assert [report.phase for report in server.all_reports(KEY)] == [pb.PHASE_RUNNING, pb.PHASE_ENDED]
            assert [report.seq for report in server.all_reports(KEY)] == [1, 2]

    asyncio.run(scenario())


def test_a_script_runs_with_its_arguments_and_its_own_environment(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster() as (server, agent):
            server.start(
                KEY,
                script=b"#!/bin/sh\necho $1 $LATTICE_ALLOC_ID $LATTICE_JOB_NAME $LATTICE_NNODES $COLOUR $LATTICE_RUN\n"
                b"echo ${LATTICE_TOKEN-none} ${LATTICE_TASK_INDEX}\npwd\ncat $LATTICE_TOKEN_FILE\n",
                script_args=["one"],
                name="mine",
                cwd=str(tmp_path),
                token="for this run",
                env={"COLOUR": "red", "LATTICE_TOKEN": "stolen"},
                nodes=["n1", "n2"],
                task_index=4,
            )
            await server.ended(KEY)
            output = (await server.output(KEY)).decode().splitlines()
            assert output == ["one a7 mine 2 red 1", "none 4", str(tmp_path), "for this run"]
            spec = (agent.folder(KEY) / "spec.json").read_text()
            assert "for this run" not in spec

    asyncio.run(scenario())


def test_a_missing_directory_falls_back_to_the_home_directory_and_says_so() -> None:
    async def scenario() -> None:
        async with cluster() as (server, _):
            server.start(KEY, ["pwd"], cwd="/not/there")
            await server.ended(KEY)
            home = pwd.getpwuid(os.getuid()).pw_dir
            assert (await server.output(KEY)).decode().strip() == os.path.realpath(home)
            errors = await server.output(KEY, stream=pb.OUTPUT_STREAM_STDERR)
            assert b"/not/there does not exist on this node" in errors

    asyncio.run(scenario())


def test_a_stopped_run_is_gone_with_all_its_processes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster() as (server, _):
            pids = tmp_path / "pids"
            script = f"trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ >> {pids}; exec sleep 600' & echo $$ >> {pids}; wait"
            server.start(KEY, ["sh", "-c", script])
            await until(lambda: pids.exists() and len(pids.read_text().split()) == 2, "both processes")
            server.stop(KEY, grace_s=0.2)
            ended = await server.ended(KEY)
            assert ended.cause == pb.END_CAUSE_STOPPED
            assert not [pid for pid in pids.read_text().split() if alive(int(pid))]

    asyncio.run(scenario())


def test_walltime_ends_a_run_and_can_be_changed_while_it_runs() -> None:
    async def scenario() -> None:
        async with cluster() as (server, _):
            server.start(KEY, ["sleep", "600"], walltime_s=600.0)
            await server.running(KEY)
            key = pb.RunKey(number=7, run=1)
            server.newest.send(update_run=pb.UpdateRun(key=key, walltime_s=0.3))
            ended = await server.ended(KEY)
            assert ended.cause == pb.END_CAUSE_WALLTIME

    asyncio.run(scenario())


def test_work_finds_the_command_line_and_its_token_is_renewed_while_it_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster() as (server, _):
            seen = tmp_path / "seen"
            script = f"command -v lattice > {seen}; until grep -q second $LATTICE_TOKEN_FILE; do sleep 0.05; done"
            server.start(KEY, ["sh", "-c", script], token="first")
            await server.running(KEY)
            server.newest.send(update_run=pb.UpdateRun(key=pb.RunKey(number=7, run=1), token="second"))
            ended = await server.ended(KEY)
            assert (ended.cause, ended.exit_code) == (pb.END_CAUSE_EXIT, 0)
            assert seen.read_text().strip().endswith("/bin/lattice")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"user": "nobody-of-this-name", "argv": ["true"]}, "does not exist on this node"),
        ({"argv": ["no-such-program"]}, "no-such-program"),
        ({}, "nothing to execute"),
        ({"script": b"#!/no/such/interpreter\n"}, "cannot execute"),
    ],
)
def test_a_run_that_cannot_start_is_refused_with_the_reason(fields: dict[str, object], text: str) -> None:
    async def scenario() -> None:
        async with cluster() as (server, _):
            server.start(KEY, **fields)  # type: ignore[arg-type]
            ended = await server.ended(KEY)
            assert ended.cause == pb.END_CAUSE_LAUNCH
            assert text in ended.message
            server.start((8, 1), ["true"])
            assert (await server.ended((8, 1))).cause == pb.END_CAUSE_EXIT

    asyncio.run(scenario())


def test_a_repeated_start_runs_the_work_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster() as (server, _):
            marks = tmp_path / "marks"
            for _ in range(5):
                server.start(KEY, ["sh", "-c", f"echo once >> {marks}; sleep 0.1"])
            await server.ended(KEY)
            server.start(KEY, ["sh", "-c", f"echo once >> {marks}"])
            await until(lambda: len([r for r in server.all_reports(KEY) if r.phase == pb.PHASE_ENDED]) >= 2, "answer")
            assert marks.read_text() == "once\n"

    asyncio.run(scenario())


def test_a_lower_run_is_refused_and_a_newer_one_replaces_the_older() -> None:
    async def scenario() -> None:
        async with cluster() as (server, _):
            server.start((7, 2), ["sleep", "600"])
            await server.running((7, 2))
            server.start((7, 1), ["true"])
            assert (await server.ended((7, 1))).cause == pb.END_CAUSE_LAUNCH
            server.start((7, 3), ["true"])
            assert (await server.ended((7, 2))).cause == pb.END_CAUSE_STOPPED
            assert (await server.ended((7, 3))).cause == pb.END_CAUSE_EXIT

    asyncio.run(scenario())


def test_a_stop_before_its_start_makes_the_late_start_harmless(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster() as (server, _):
            server.stop(KEY)
            assert (await server.ended(KEY)).cause == pb.END_CAUSE_STOPPED
            server.start(KEY, ["touch", str(tmp_path / "ran")])
            server.start((8, 1), ["true"])
            await server.ended((8, 1))
            assert not (tmp_path / "ran").exists()

    asyncio.run(scenario())


@pytest.mark.parametrize("files", [pb.RunFiles(stdout="pipe"), pb.RunFiles(stdin="pipe")], ids=["stdout", "stdin"])
def test_a_run_that_waits_for_the_other_end_of_a_pipe_is_stopped(tmp_path: Path, files: pb.RunFiles) -> None:
    """Its start is never answered: a stop that waited for the answer would hold the node for ever."""

    async def scenario() -> None:
        async with cluster() as (server, _):
            os.mkfifo(tmp_path / "pipe")
            server.start(KEY, ["touch", str(tmp_path / "ran")], cwd=str(tmp_path), files=files)
            # The agent has given the first start to its shim once a second one has ended.
            server.start((8, 1), ["true"])
            await server.ended((8, 1))
            server.stop(KEY, grace_s=600.0)
            assert (await server.ended(KEY)).cause == pb.END_CAUSE_STOPPED
            assert not (tmp_path / "ran").exists()

    asyncio.run(scenario())


@pytest.mark.root
def test_root_s_agent_runs_work_as_its_user_and_shows_it_no_more_than_its_own() -> None:
    async def scenario() -> None:
        async with cluster("--allow-user", "nobody") as (server, agent):
            nobody = pwd.getpwnam("nobody")
            server.start(
                KEY,
                script=b"#!/bin/sh\nid -un; id -u; id -g; cat $LATTICE_TOKEN_FILE; cat $(dirname $0)/spec.json\n",
                user="nobody",
                token="private\n",
            )
            await server.ended(KEY)
            output = (await server.output(KEY)).decode().split()
            assert output == ["nobody", str(nobody.pw_uid), str(nobody.pw_gid), "private"]
            assert b"ermission denied" in await server.output(KEY, stream=pb.OUTPUT_STREAM_STDERR)
            script = (agent.folder(KEY) / "script").stat()
            assert (script.st_uid, stat.S_IMODE(script.st_mode)) == (nobody.pw_uid, 0o500)

    asyncio.run(scenario())


@pytest.mark.root
def test_accounts_below_the_least_uid_are_refused() -> None:
    async def scenario() -> None:
        async with cluster() as (server, _):
            server.start(KEY, ["true"], user="daemon")
            ended = await server.ended(KEY)
            assert ended.cause == pb.END_CAUSE_LAUNCH
            assert "below the least allowed" in ended.message

    asyncio.run(scenario())
