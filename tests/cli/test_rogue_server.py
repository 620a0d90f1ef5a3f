"""A server that was taken over: the Slurm programs open, run and write nothing that their own line does not name."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lattice.cli.slurm.install import install
from tests.conftest import require_program

SECRET = "what nobody else may read"


class Rogue(ThreadingHTTPServer):
    """Answers every question with the same task_request, once, and keeps what it was sent."""

    task_request: dict[str, Any]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    server: Rogue

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["content-length"])).decode())
        answer = self.server.task_request if len(self.server.bodies) < 3 else {"code": 0}
        data = json.dumps(answer, separators=(",", ":")).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        return


@contextmanager
def rogue(task_request: dict[str, Any]) -> Iterator[Rogue]:
    server = Rogue()
    server.task_request = task_request
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


@pytest.fixture(scope="module", params=["compiled", "text"])
def programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "compiled":
        require_program("cc")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "text":
            patch.setattr("shutil.which", lambda name: None)
        return install(tmp_path_factory.mktemp(request.param) / "bin").parent


def run(programs: Path, server: Rogue, home: Path, *line: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "SHELL": "/bin/false",
        "LATTICE_API_URL": f"http://127.0.0.1:{server.server_port}",
        "LATTICE_TOKEN": "t",
        "LATTICE_PYTHON": sys.executable,
    }
    command = [str(programs / line[0]), *line[1:]]
    return subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".private").write_text(SECRET)
    (tmp_path / "job.sh").write_text("#!/bin/sh\ntrue\n")
    return tmp_path


@pytest.mark.parametrize("program", ["sbatch", "squeue", "srun", "salloc"])
def test_no_file_is_sent_that_the_line_does_not_name(programs: Path, home: Path, program: str) -> None:
    with rogue({"needs": "script", "path": str(home / ".private")}) as server:
        done = run(programs, server, home, program, "job.sh")
    assert done.returncode == 1
    assert "does not name" in done.stderr
    assert not [body for body in server.bodies if SECRET in body]


def test_the_script_of_the_line_is_sent(programs: Path, home: Path) -> None:
    with rogue({"needs": "script", "path": "job.sh"}) as server:
        done = run(programs, server, home, "sbatch", "--wait-all-nodes", "1", "job.sh")
    assert done.returncode == 0, done.stderr
    assert any("#!/bin/sh\\ntrue" in body for body in server.bodies)


def test_no_program_is_run_that_the_line_does_not_name(programs: Path, home: Path) -> None:
    with rogue({"spawn": {"argv": ["/bin/sh", "-c", "touch owned"], "environment": {}, "resume": ""}}) as server:
        done = run(programs, server, home, "salloc", "-N1", "true")
    assert (done.returncode, "does not name" in done.stderr) == (1, True)
    assert not (home / "owned").exists()


def test_a_program_of_the_line_gets_slurms_variables_alone(programs: Path, home: Path) -> None:
    words = ["sh", "-c", "echo $SLURM_JOB_ID $BASH_ENV > seen"]
    given = {"SLURM_JOB_ID": "17", "BASH_ENV": "/tmp/x", "LD_PRELOAD": "/tmp/x.so"}
    with rogue({"spawn": {"argv": words, "environment": given, "resume": ""}}) as server:
        run(programs, server, home, "salloc", "-N1", *words)
    assert (home / "seen").read_text() == "17\n"


@pytest.mark.parametrize("field", ["stdout", "stderr"])
def test_no_file_is_written_that_the_line_does_not_name(programs: Path, home: Path, field: str) -> None:
    task_request = {"attend": {"allocation": "a1", "step": 0, "tasks": 1, field: str(home / ".private"), "resume": ""}}
    with rogue(task_request) as server:
        done = run(programs, server, home, "srun", "-o", "out.txt", "true")
    assert (done.returncode, "does not name" in done.stderr) == (1, True)
    assert (home / ".private").read_text() == SECRET


def test_plain_http_to_another_machine_is_refused(programs: Path, home: Path) -> None:
    with rogue({"code": 0}) as server:
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LATTICE_TOKEN": "t"}
        environment["LATTICE_API_URL"] = f"http://localhost.invalid:{server.server_port}"
        done = subprocess.run(
            [str(programs / "squeue")], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
    assert (done.returncode, "plain http to another machine" in done.stderr) == (1, True)
