"""srun's request is on its way while the interpreter of its script starts: it is asked once, and interrupts are not lost."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lattice.cli.slurm.install import install
from tests.conftest import require_program

Answer = Callable[[], dict[str, Any] | None]


class Server(ThreadingHTTPServer):
    """Gives its answers in order, and keeps what it was asked; for None it hangs up."""

    def __init__(self, answers: list[Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = answers
        self.asked: list[dict[str, Any]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.server.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        answer = self.server.answers[len(self.server.asked) - 1]()
        if answer is None:
            self.close_connection = True
            return
        data = json.dumps(answer, separators=(",", ":")).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        return


@contextmanager
def serving(*answers: Answer) -> Iterator[Server]:
    server = Server(list(answers))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_program("cc")
    return install(tmp_path_factory.mktemp("slurm") / "bin").parent


def begin(programs: Path, server: Server, home: Path, *words: str) -> "subprocess.Popen[str]":
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LATTICE_API_URL": f"http://127.0.0.1:{server.server_port}",
        "LATTICE_TOKEN": "t",
        "COLOUR": "blue",
    }
    line = [str(programs / "srun"), *words]
    return subprocess.Popen(line, env=environment, cwd=home, stdout=-1, stderr=-1, text=True)


def test_srun_asks_once_and_its_script_reads_the_answer(programs: Path, tmp_path: Path) -> None:
    with serving(lambda: {"stdout": "told\n", "code": 3}) as server:
        srun = begin(programs, server, tmp_path, "-N", "2", "hostname")
        out, err = srun.communicate(timeout=60)
    assert (out, err, srun.returncode) == ("told\n", "", 3)
    assert [(each["program"], each["argv"]) for each in server.asked] == [("srun", ["-N", "2", "hostname"])]
    assert server.asked[0]["environment"]["COLOUR"] == "blue"


def test_srun_asks_again_under_the_same_id_when_no_answer_came(programs: Path, tmp_path: Path) -> None:
    with serving(lambda: None, lambda: {"code": 0}) as server:
        srun = begin(programs, server, tmp_path, "hostname")
        assert srun.communicate(timeout=60) == ("", "")
    first, second = server.asked
    assert first.pop("environment").items() <= second.pop("environment").items()
    assert first == second


def test_an_interrupt_before_the_script_runs_gives_the_work_up(programs: Path, tmp_path: Path) -> None:
    begun: list[subprocess.Popen[str]] = []
    known = threading.Event()

    def interrupted() -> dict[str, Any]:
        assert known.wait(30)
        begun[0].send_signal(signal.SIGINT)
        return {"resume": "wait:7"}

    with serving(interrupted, lambda: {"code": 1}) as server:
        begun.append(begin(programs, server, tmp_path, "hostname"))
        known.set()
        begun[0].communicate(timeout=60)
    assert [each.get("resume") for each in server.asked] == [None, "cancel:7"]
    assert begun[0].returncode == 1
