"""Output in files of the user's choice, written live and as the user, besides the shim's own."""

import os
import signal
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.agent.shim_process import NOBODY, Client, ShimProcess, alive, wait_for

LONG_S = 60.0


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def make_pipe(shim: ShimProcess) -> None:
    """Which everybody may use, whatever the umask."""
    os.mkfifo(shim.scratch / "pipe")
    (shim.scratch / "pipe").chmod(0o666)


def _started(shim: ShimProcess, agent: Client, number: int, script: str, **files: str) -> dict[str, Any]:
    return agent.ask("start", **{**shim.request(number, "sh", "-c", script), "files": files})


def test_both_streams_reach_one_file_in_order_and_the_log(shim: ShimProcess, agent: Client) -> None:
    script = "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done"
    assert _started(shim, agent, 1, script, stdout="job.out")["ok"]
    agent.ended(1)
    wanted = "".join(f"out {i}\nerr {i}\n" for i in range(1, 6))
    assert (shim.scratch / "job.out").read_text() == wanted
    assert shim.output(1) == wanted


def test_streams_go_to_files_of_their_own(shim: ShimProcess, agent: Client) -> None:
    out, err = shim.scratch / "a.out", shim.scratch / "a.err"
    _started(shim, agent, 1, "echo one; echo two >&2; exit 4", stdout=str(out), stderr=str(err))
    assert agent.ended(1)["exit_code"] == 4
    wanted = ("one\n", "two\nlattice: a1 failed with exit code 4\n")
    assert (out.read_text(), err.read_text()) == wanted
    assert (shim.output(1), shim.output(1, "stderr")) == wanted


def test_lines_are_in_the_file_while_the_work_runs(shim: ShimProcess, agent: Client) -> None:
    out = shim.scratch / "live.out"
    os.mkfifo(shim.scratch / "hold", 0o666)
    _started(shim, agent, 1, "echo first; read line <hold; echo last", stdout=str(out))
    wait_for(lambda: out.exists() and out.read_text() == "first\n", "the first line in the file")
    (shim.scratch / "hold").write_text("go\n")
    agent.ended(1)
    assert out.read_text() == "first\nlast\n"


def test_what_the_copier_has_not_written_yet_survives_the_end_of_the_work(shim: ShimProcess, agent: Client) -> None:
    """The copier stands still while its run ends: nothing of the run's own may take it for a leftover."""
    out = shim.scratch / "late.out"
    os.mkfifo(shim.scratch / "hold", 0o666)
    _started(shim, agent, 1, "read line <hold; echo last", stdout=str(out))
    wait_for(out.exists, "the file")
    main = agent.ask("list")["runs"][0]["pid"]
    copiers = [pid for pid in children(shim.process.pid) if pid != main]
    assert len(copiers) == 1
    os.kill(copiers[0], signal.SIGSTOP)
    (shim.scratch / "hold").write_text("go\n")
    wait_for(lambda: not alive(main), "the end of the work")
    agent.ask("list")  # the shim has seen it by now, or sees it next
    wait_for(lambda: not Path(f"/proc/{main}").exists(), "the end to be seen")
    assert alive(copiers[0])
    os.kill(copiers[0], signal.SIGCONT)
    assert agent.ended(1)["exit_code"] == 0
    assert out.read_text() == "last\n"


def test_append_keeps_what_was_there_and_truncate_does_not(shim: ShimProcess, agent: Client) -> None:
    out = shim.scratch / "log"
    for number, mode in ((1, "truncate"), (2, "append"), (3, "truncate"), (4, "append")):
        _started(shim, agent, number, f"echo {number}", stdout=str(out), mode=mode)
        agent.ended(number)
        assert out.read_text() == {1: "1\n", 2: "1\n2\n", 3: "3\n", 4: "3\n4\n"}[number]


def test_input_comes_from_a_file(shim: ShimProcess, agent: Client) -> None:
    (shim.scratch / "in").write_text("from a file\n")
    _started(shim, agent, 1, "cat", stdin="in", stdout="/dev/null")
    agent.ended(1)
    assert shim.output(1) == "from a file\n"


@pytest.mark.parametrize("files", [{"stdout": "no/such/x.out"}, {"stdin": "no/such/in"}, {"stderr": "/"}])
def test_a_file_that_cannot_be_opened_is_named_and_nothing_runs(
    shim: ShimProcess, agent: Client, files: dict[str, str]
) -> None:
    answer = _started(shim, agent, 1, "touch ran", **files)
    assert not answer["ok"]
    assert answer["error"].startswith(f"cannot open {next(iter(files.values()))}: ")
    assert not (shim.scratch / "ran").exists()


@pytest.mark.parametrize("stream", ["stdout", "stderr", "stdin"])
def test_a_run_that_waits_for_the_other_end_of_a_pipe_is_stopped_at_once(
    shim: ShimProcess, agent: Client, stream: str
) -> None:
    make_pipe(shim)
    request = {**shim.request(1, "sh", "-c", "touch ran"), "files": {stream: "pipe"}}
    agent.send("start", **request)
    wait_for(lambda: len(children(shim.process.pid)) > 0, "its process")
    began = time.monotonic()
    agent.ask("stop", number=1, run=1, grace_s=LONG_S, why="test")
    agent.ended(1)
    assert time.monotonic() - began < LONG_S / 2
    wait_for(lambda: not children(shim.process.pid), "no copier is left")
    assert not (shim.scratch / "ran").exists()


def test_output_reaches_a_pipe_that_is_read_later(shim: ShimProcess, agent: Client) -> None:
    make_pipe(shim)
    agent.send("start", **{**shim.request(1, "sh", "-c", "seq 20000"), "files": {"stdout": "pipe"}})
    assert (shim.scratch / "pipe").read_text().splitlines()[-1] == "20000"
    assert agent.ended(1)["exit_code"] == 0


def test_what_a_killed_run_wrote_is_all_in_the_file(shim: ShimProcess, agent: Client) -> None:
    out = shim.scratch / "k.out"
    _started(shim, agent, 1, "seq 200000; touch done; sleep 300", stdout=str(out))
    wait_for((shim.scratch / "done").exists, "all was written")
    agent.ask("stop", number=1, run=1, grace_s=0, why="test")
    agent.ended(1)
    assert out.read_text().splitlines()[-2:] == ["200000", "lattice: a1 was stopped"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else")
def test_the_file_is_opened_as_the_user(shim: ShimProcess, agent: Client) -> None:
    mine = shim.scratch / "roots"
    mine.write_text("untouched")
    mine.chmod(0o644)
    link = shim.scratch / "link"
    link.symlink_to(mine)
    fields = {**shim.request(1, "sh", "-c", "echo x"), "uid": NOBODY, "gid": NOBODY, "groups": []}
    answer = agent.ask("start", **{**fields, "files": {"stdout": str(link)}})
    assert answer["error"] == f"cannot open {link}: Permission denied"
    assert mine.read_text() == "untouched"
    answer = agent.ask("start", **{**fields, "number": 2, "dir": f"{fields['dir']}2", "files": {"stdout": "own"}})
    assert answer["ok"]
    agent.ended(2)
    made = (shim.scratch / "own").stat()
    assert (made.st_uid, stat.S_IMODE(made.st_mode)) == (NOBODY, 0o644)
