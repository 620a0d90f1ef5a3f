"""Steps: many tasks at once, each with its own streams, inside the allocation's group."""

import base64
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from lattice.agent.shim.hierarchies import find_hierarchies
from lattice.agent.shim.journal import RECORD, STDERR, STDOUT, read_journal
from tests.integration.agent.shim_process import Client, ShimProcess, alive, wait_for

Message = dict[str, Any]


def request(shim: ShimProcess, number: int, *argv: str, tasks: int = 1, step: int = 0, **task: object) -> Message:
    fields = shim.request(number, *argv)
    folder = shim.dir / "steps" / f"{number}.1.{step}"
    folder.mkdir(parents=True, exist_ok=True)
    if shim.uid:
        os.chown(folder.parent, shim.uid, shim.uid)
        os.chown(folder, shim.uid, shim.uid)
    each = [{"rank": rank, "env": {"RANK": str(rank)}, **task} for rank in range(tasks)]
    return {**fields, "dir": str(folder), "step": step, "tasks": each}


def step_end(agent: Client, number: int, step: int = 0) -> Message:
    return step_event(agent, number, step, "ended")


def step_event(agent: Client, number: int, step: int, phase: str) -> Message:
    """The first one of that phase, awaited if need be."""
    while True:
        for event in agent.events:
            if (
                event["event"] == "step"
                and event["phase"] == phase
                and (event["number"], event["step"]) == (number, step)
            ):
                return event
        agent.receive()


def written(fields: Message, stream: int = STDOUT) -> dict[int, bytes]:
    """What each rank wrote, from the journal."""
    found: dict[int, bytes] = {}
    _, data = read_journal(fields["dir"], 0, 1 << 24)
    place = 0
    while place < len(data):
        kind, rank, length = RECORD.unpack_from(data, place)
        place += RECORD.size + length
        if kind == stream:
            found[rank] = found.get(rank, b"") + data[place - length : place]
    return found


def about(fields: Message) -> Message:
    return {name: fields[name] for name in ("number", "run", "step")}


def test_tasks_write_into_one_journal_and_end_each_with_its_code(shim: ShimProcess, agent: Client) -> None:
    fields = request(shim, 7, "sh", "-c", "echo hello $RANK; echo oops $RANK >&2; exit $RANK", tasks=4)
    assert agent.ask("launch_step", **fields)["ok"]
    end = step_end(agent, 7)
    assert [(task["rank"], task["exit_code"]) for task in end["tasks"]] == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert written(fields) == {rank: f"hello {rank}\n".encode() for rank in range(4)}
    assert written(fields, STDERR)[2] == b"oops 2\n"
    assert end["cpu_s"] > 0
    assert end["peak_memory_mb"] > 0


def test_a_failure_is_told_before_the_others_have_ended(shim: ShimProcess, agent: Client) -> None:
    fields = request(shim, 1, "sh", "-c", "[ $RANK = 1 ] && exit 5; exec sleep 300", tasks=3)
    agent.ask("launch_step", **fields)
    first = next(event for event in iter(agent.receive, None) if event.get("event") == "step")
    assert first["phase"] == "running"
    assert [(task["rank"], task["exit_code"]) for task in first["tasks"]] == [(1, 5)]
    agent.ask("end_step", **about(fields), grace_s=0, why="failed")
    end = step_end(agent, 1)
    assert [task["signal"] for task in end["tasks"]] == [signal.SIGKILL, 0, signal.SIGKILL]


def test_input_reaches_every_task_once_however_often_it_is_sent(shim: ShimProcess, agent: Client) -> None:
    fields = request(shim, 1, "cat", tasks=3, has_input=True)
    agent.ask("launch_step", **fields)
    piece = base64.b64encode(b"one\n").decode()
    assert agent.ask("feed_step", **about(fields), offset=0, data=piece)["upto"] == 4
    assert agent.ask("feed_step", **about(fields), offset=0, data=piece)["upto"] == 4
    assert agent.ask("feed_step", **about(fields), offset=9, data=piece)["upto"] == 4
    both = base64.b64encode(b"one\ntwo\n").decode()
    assert agent.ask("feed_step", **about(fields), offset=0, data=both, eof=True)["upto"] == 8
    end = step_end(agent, 1)
    assert [task["exit_code"] for task in end["tasks"]] == [0, 0, 0]
    assert written(fields) == dict.fromkeys(range(3), b"one\ntwo\n")


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_input_for_one_task_reaches_no_other_and_keeps_its_place(shim: ShimProcess, agent: Client) -> None:
    fields = request(shim, 1, "cat", tasks=3, has_input=True)
    agent.ask("launch_step", **fields)
    of_all, of_one, of_other = about(fields), {**about(fields), "client": "a"}, {**about(fields), "client": "b"}
    assert agent.ask("feed_step", **of_all, offset=0, data=encoded(b"all\n"))["upto"] == 4
    assert agent.ask("feed_step", **of_one, offset=0, data=encoded(b"one\n"), task=1)["upto"] == 4
    assert agent.ask("feed_step", **of_one, offset=0, data=encoded(b"one\nagain\n"), task=1)["upto"] == 10
    assert agent.ask("feed_step", **of_other, offset=0, data=encoded(b"two\n"), task=2)["upto"] == 4
    assert agent.ask("feed_step", **of_other, offset=4, data=encoded(b"nobody\n"), task=7)["upto"] == 11
    assert agent.ask("feed_step", **of_all, offset=4, data=encoded(b"end\n"), eof=True)["upto"] == 8
    step_end(agent, 1)
    assert written(fields) == {0: b"all\nend\n", 1: b"all\none\nagain\nend\n", 2: b"all\ntwo\nend\n"}


def test_input_for_single_tasks_waits_when_too_much_of_it_is_not_taken(shim: ShimProcess, agent: Client) -> None:
    script = "[ $RANK = 0 ] && while [ ! -e go ]; do sleep 0.01; done; exec wc -c"
    fields = request(shim, 1, "sh", "-c", script, tasks=2, has_input=True)
    agent.ask("launch_step", **fields)
    block = b"x" * (1 << 17)  # more than a pipe holds: rank 0 passes nothing that comes behind it
    assert agent.ask("feed_step", **about(fields), offset=0, data=encoded(block))["upto"] == len(block)
    sent = [0, 0]
    while True:
        rank = sum(sent) % 2
        feed = {**about(fields), "client": f"c{rank}", "offset": sent[rank], "data": encoded(b"y"), "task": rank}
        if agent.ask("feed_step", **feed)["upto"] == sent[rank]:
            break
        sent[rank] += 1
    assert sent == [512, 512]
    (shim.scratch / "go").touch()
    while agent.ask("feed_step", **feed)["upto"] == sent[rank]:
        pass
    sent[rank] += 1
    agent.ask("feed_step", **about(fields), offset=len(block), eof=True)
    step_end(agent, 1)
    assert {rank: int(said) for rank, said in written(fields).items()} == {
        rank: len(block) + count for rank, count in enumerate(sent)
    }


def test_large_input_waits_for_a_slow_reader(shim: ShimProcess, agent: Client) -> None:
    fields = request(shim, 1, "sh", "-c", "while [ ! -e go ]; do sleep 0.01; done; wc -c", has_input=True)
    agent.ask("launch_step", **fields)
    block, offset = b"x" * (1 << 20), 0
    while (
        agent.ask("feed_step", **about(fields), offset=offset, data=base64.b64encode(block).decode())["upto"] > offset
    ):
        offset += len(block)
    assert offset >= 4 << 20
    (shim.scratch / "go").touch()
    while agent.ask("feed_step", **about(fields), offset=offset, eof=True)["upto"] != offset:
        pass
    step_end(agent, 1)
    assert written(fields)[0].strip() == str(offset).encode()


def test_a_missing_program_is_told_of_its_rank(shim: ShimProcess, agent: Client) -> None:
    fields = request(shim, 1, "true", tasks=2)
    fields["tasks"][1]["argv"] = ["no-such-program"]
    agent.ask("launch_step", **fields)
    end = step_end(agent, 1)
    assert end["tasks"][0]["error"] == ""
    assert end["tasks"][1]["error"] == "no-such-program: command not found in PATH"


def test_output_files_are_opened_by_the_task(shim: ShimProcess, agent: Client) -> None:
    fields = request(shim, 1, "sh", "-c", "echo out; echo err >&2; cat", tasks=1)
    (shim.scratch / "in").write_text("given\n")
    fields["tasks"][0] |= {"stdin": "in", "stdout": "both", "stderr": "both"}
    agent.ask("launch_step", **fields)
    assert step_end(agent, 1)["tasks"][0]["exit_code"] == 0
    assert (shim.scratch / "both").read_text() == "out\nerr\ngiven\n"
    fields = request(shim, 1, "true", step=1, stdout="/no/such/folder/file")
    agent.ask("launch_step", **fields)
    assert "cannot open /no/such/folder/file" in step_end(agent, 1, 1)["tasks"][0]["error"]


def test_a_terminal_has_a_size_and_echoes(shim: ShimProcess, agent: Client) -> None:
    fields = request(shim, 1, "sh", "-c", "stty size; read line; stty size; echo got $line; tty", pty=True)
    agent.ask("launch_step", **{**fields, "rows": 30, "columns": 100})
    wait_for(lambda: b"30 100" in written_so_far(fields), "the first size")
    agent.ask("resize_step", **about(fields), rows=40, columns=140)
    agent.ask("feed_step", **about(fields), offset=0, data=base64.b64encode(b"word\n").decode())
    end = step_end(agent, 1)
    assert end["tasks"][0]["exit_code"] == 0
    shown = written(fields)[0].decode().split()
    assert shown[:7] == ["30", "100", "word", "40", "140", "got", "word"]
    assert shown[7].startswith("/dev/pts/")


def written_so_far(fields: Message) -> bytes:
    try:
        return written(fields).get(0, b"")
    except FileNotFoundError:
        return b""


def test_signals_reach_the_tasks_and_what_they_left_is_killed(shim: ShimProcess, agent: Client) -> None:
    script = "trap 'echo usr; exit 7' USR1; setsid sleep 300 >/dev/null 2>&1 & echo $! >pid; echo ready; wait; wait"
    fields = request(shim, 1, "bash", "-c", script)
    agent.ask("launch_step", **fields)
    wait_for(lambda: b"ready" in written_so_far(fields), "the task")
    agent.ask("signal_step", **about(fields), signal=int(signal.SIGUSR1))
    end = step_end(agent, 1)
    assert end["tasks"][0]["exit_code"] == 7
    assert not alive(int(Path(shim.scratch / "pid").read_text()))


def test_time_limit_ends_a_step(shim: ShimProcess, agent: Client) -> None:
    fields = request(shim, 1, "sleep", "300", tasks=2)
    agent.ask("launch_step", **{**fields, "time_s": 0.2, "grace_s": 5})
    end = step_end(agent, 1)
    assert end["cause"] == "walltime"
    assert [task["signal"] for task in end["tasks"]] == [signal.SIGTERM] * 2


def test_the_end_of_the_script_ends_its_steps(shim: ShimProcess, agent: Client) -> None:
    agent.ask("start", **shim.request(3, "sh", "-c", "while [ ! -e go ]; do sleep 0.01; done"))
    fields = request(shim, 3, "sh", "-c", "echo $$ >pid.$RANK; exec sleep 300", tasks=2)
    assert agent.ask("launch_step", **fields)["ok"]
    pids = [shim.scratch / "pid.0", shim.scratch / "pid.1"]
    wait_for(lambda: all(path.exists() and path.read_text() for path in pids), "the tasks")
    Path(shim.scratch / "go").touch()
    end = step_end(agent, 3)
    assert [task["signal"] for task in end["tasks"]] == [signal.SIGKILL] * 2
    wait_for(lambda: shim.phase(3) == "ended", "the run's end")
    assert agent.ask("launch_step", **request(shim, 3, "true", step=1))["error"] == "the allocation is ending"


@pytest.mark.root
def test_a_step_without_a_run_has_a_group_that_goes_with_it(root_shim: ShimProcess) -> None:
    agent = root_shim.connect()
    fields = request(root_shim, 5, "sh", "-c", "cat /proc/self/cgroup", tasks=2)
    agent.ask("launch_step", **{**fields, "memory_mb": 500})
    end = step_end(agent, 5)
    assert all(task["exit_code"] == 0 for task in end["tasks"])
    assert b"alloc-5.1/step-0" in written(fields)[1]
    wait_for(lambda: root_shim.groups() == [], "the group's removal")


def test_list_names_steps_until_they_are_forgotten(shim: ShimProcess, agent: Client) -> None:
    fields = request(shim, 1, "true")
    agent.ask("launch_step", **fields)
    step_end(agent, 1)
    [step] = agent.ask("list")["steps"]
    assert (step["number"], step["step"], step["phase"]) == (1, 0, "ended")
    assert agent.ask("forget_step", **about(fields))["ok"]
    assert agent.ask("list")["steps"] == []


def test_writers_wait_for_readers_that_are_far_behind(shim: ShimProcess, agent: Client) -> None:
    fields = request(shim, 1, "sh", "-c", "head -c 50000000 /dev/zero; echo done >flag")
    agent.ask("launch_step", **fields)
    total = 0
    while not any(event["event"] == "step" for event in agent.events):
        agent.ask("read_step", **about(fields), upto=total)
        try:
            start, data = read_journal(fields["dir"], total, 1 << 22)
        except FileNotFoundError:
            continue
        assert start == total
        total += len(data)
    while data := read_journal(fields["dir"], total, 1 << 22)[1]:
        total += len(data)
    assert total > 50_000_000


@pytest.mark.root
def test_a_step_without_a_group_leaves_no_file_system_behind(root_shim: ShimProcess) -> None:
    agent = root_shim.connect()
    unified = find_hierarchies().unified
    most = Path(f"{unified}/{root_shim.cgroup_root}/cgroup.max.descendants")
    fields = request(root_shim, 7, "true")
    most.write_text("1")  # enough for what the steps of the allocation share, and not for the step
    answer = agent.ask("launch_step", **fields, mounts=[{"kind": "tmpfs", "target": "/dev/shm"}])
    assert not answer["ok"]
    wait_for(lambda: not root_shim.groups(), "the group of the allocation to go")
    descriptors = [os.readlink(each) for each in Path(f"/proc/{root_shim.process.pid}/fd").iterdir()]
    assert not [each for each in descriptors if each.startswith("mnt:[")]
    most.write_text("max")
    assert agent.ask("launch_step", **fields)["ok"]
    assert step_end(agent, 7)["tasks"][0]["exit_code"] == 0
