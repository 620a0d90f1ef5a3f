"""`lattice` through its forwarder: the same bytes as the Python command, as the caller, and each line once."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lattice.cli.warm.install import install_quick
from lattice.cli.warm.interpreter import SERVED
from lattice.testing import LocalCluster
from tests.cli.terminal import CONTROL_C, Terminal
from tests.conftest import require_program

pytestmark = pytest.mark.e2e

DEADLINE_S = 30.0


class Quick:
    """A forwarder with a runtime directory of its own, and the interpreters that it starts."""

    def __init__(self, folder: Path, runtime: Path, cluster: LocalCluster) -> None:
        self.folder, self.runtime, self.cluster = folder, runtime, cluster

    @property
    def program(self) -> str:
        return str(self.folder / "lattice")

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in self.cluster.environment().items() if not name.startswith("PYTHON")}
        kept.pop("LATTICE_WARM", None)
        return {**kept, "XDG_RUNTIME_DIR": str(self.runtime), **more}

    def run(
        self,
        *words: str,
        python: bool = False,
        cwd: Path | None = None,
        stdin: bytes = b"",
        variables: dict[str, str] | None = None,
    ) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            [self.program, *words],
            env=self.environment(**({"LATTICE_WARM": "off"} if python else {}), **(variables or {})),
            cwd=cwd or self.cluster.directory,
            input=stdin,
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )

    def sockets(self) -> list[Path]:
        return [path for path in self.runtime.glob("lattice/*") if path.is_socket() and "." not in path.name]

    def interpreters(self) -> list[int]:
        return [pid for path in self.sockets() if (pid := owner(path))]

    def warm(self) -> int:
        """The interpreter of this environment, which the first command starts."""
        self.run("status")
        deadline = time.monotonic() + DEADLINE_S
        while not (found := self.interpreters()):
            assert time.monotonic() < deadline, "no interpreter"
            time.sleep(0.02)
        return found[0]

    def stop(self) -> None:
        for pid in self.interpreters():
            os.kill(pid, signal.SIGCONT)
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.runtime / "lattice", ignore_errors=True)


def owner(path: Path) -> int:
    """The process that listens there; 0 for none."""
    with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
        connection.connect(str(path))
        return int(struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])
    return 0


@pytest.fixture(scope="module")
def installed() -> Iterator[Path]:
    require_program("cc")
    with tempfile.TemporaryDirectory(prefix="quick-") as place:
        folder = Path(place)
        (folder / "python").mkdir()
        assert install_quick(folder)
        yield folder


@pytest.fixture
def quick(installed: Path, cluster: LocalCluster) -> Iterator[Quick]:
    with tempfile.TemporaryDirectory(prefix="run-") as runtime:
        made = Quick(installed, Path(runtime), cluster)
        try:
            yield made
        finally:
            made.stop()


def served_by(quick: Quick, *words: str, variables: dict[str, str] | None = None) -> bool:
    """Whether the warm interpreter runs the line: the Python command is replaced for it."""
    trap = quick.folder / "python" / "lattice"
    kept = trap.read_text()
    trap.write_text("#!/bin/sh\necho python\n")
    try:
        return quick.run(*words, variables=variables).stdout != b"python\n"
    finally:
        trap.write_text(kept)


LINES: tuple[tuple[str, ...], ...] = (
    ("status",),
    ("status", "--all", "-o", "wide"),
    ("status", "-o", "json"),
    ("status", "--nosuch"),
    ("status", "--help"),
    ("status", "a999999"),
    ("status", "--columns=id,state", "--no-headers"),
    ("submit",),
    ("submit", "--walltime=10", "--", "true"),
    ("submit", "--nodes=99", "--dry-run", "--", "true"),
    ("submit", "--dry-run", "-v", "--", "true"),
    ("submit", "no-such-script.sh"),
    ("run", "--wait", "--", "true"),
    ("logs", "a999999"),
    ("cancel",),
    ("cancel", "a999999"),
    ("explain", "a999999"),
    ("nodes",),
    ("nodes", "-o", "name"),
    ("nodes", "n1", "--nosuch"),
    ("nodes", "--summary"),
    ("version",),
    ("nosuch",),
    (),
    ("--quiet", "status"),
)


def test_forwarder_and_interpreter_name_the_same_commands() -> None:
    import lattice.cli.warm.interpreter as interpreter

    source = Path(interpreter.__file__).with_name("forward.c").read_text()
    assert "SERVED[] = {" + ", ".join(f'"{word}"' for word in SERVED) + ", NULL}" in source


@pytest.mark.parametrize("body", [b"", b"\0", b"22\0lattice\0", b"22\0lattice\0one\0", b"22\0lattice\0000"])
def test_a_request_that_is_not_one_is_damaged_and_nothing_else(body: bytes) -> None:
    from lattice.cli.warm.interpreter import Damaged, parsed

    with pytest.raises(Damaged):
        parsed(body)


def steady(output: bytes) -> list[bytes]:
    """Without the lines of JSON that tell the time of the answer."""
    return [line for line in output.split(b"\n") if not any(word in line for word in (b"_at", b"elapsed", b"seconds"))]


def test_output_and_codes_are_those_of_the_python_command(quick: Quick) -> None:
    done = quick.run("submit", "--", "sh", "-c", "echo out; echo err >&2; exit 3", python=True)
    name = done.stdout.split()[-1].decode()
    quick.run("wait", name)
    quick.warm()
    lines = (
        *LINES,
        ("status", name),
        ("status", name, "--script"),
        ("logs", name),
        ("explain", name),
        ("cancel", name),
    )
    for words in lines:
        slow, fast = quick.run(*words, python=True), quick.run(*words)
        assert (fast.returncode, steady(fast.stdout), steady(fast.stderr)) == (
            slow.returncode,
            steady(slow.stdout),
            steady(slow.stderr),
        ), words


def test_the_interpreter_runs_these_commands_and_no_others(quick: Quick) -> None:
    quick.warm()
    assert served_by(quick, "status")
    assert not served_by(quick, "history")
    assert not served_by(quick, "--quiet", "status")


@pytest.mark.parametrize(
    "more",
    [
        {"LATTICE_WARM": "off"},
        {"LATTICE_ALLOC_ID": "a1"},
        {"LC_ALL": "de_DE.ISO-8859-1"},
        {"PYTHONPATH": "/nowhere"},
    ],
)
def test_python_runs_where_the_interpreter_could_differ(quick: Quick, more: dict[str, str]) -> None:
    quick.warm()
    assert not served_by(quick, "status", variables=more)


def test_directory_umask_environment_and_zone_are_the_callers(quick: Quick, tmp_path: Path) -> None:
    quick.warm()
    (tmp_path / "job.sh").write_text('#!/bin/sh\necho "$COLOUR $(pwd) $(umask)"\n')
    umask = os.umask(0o027)
    try:
        done = quick.run("run", "--export=COLOUR", "job.sh", cwd=tmp_path, variables={"COLOUR": "green"})
    finally:
        os.umask(umask)
    assert done.stdout.decode() == f"green {tmp_path} 0027\n", done.stderr
    dry = ("submit", "--dry-run", "--begin=23:59", "--", "true")
    for zone in ("UTC", "Asia/Tokyo"):
        fast, slow = (quick.run(*dry, python=python, variables={"TZ": zone}) for python in (False, True))
        assert fast.stdout == slow.stdout


def test_a_directory_that_was_removed_is_reported_as_python_reports_it(quick: Quick, tmp_path: Path) -> None:
    quick.warm()
    outcomes = []
    for setting in ("", "off"):
        gone = tmp_path / "gone"
        gone.mkdir()
        line = f'rmdir "{gone}"; exec "{quick.program}" submit --dry-run -- true'
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=gone,
            env=quick.environment(LATTICE_WARM=setting),
            capture_output=True,
            check=False,
        )
        outcomes.append((done.returncode, done.stdout, done.stderr))
    assert outcomes[0] == outcomes[1]


def test_input_output_and_a_closed_reader(quick: Quick) -> None:
    quick.warm()
    done = quick.run("submit", "-", stdin=b"#!/bin/sh\ntrue\n")
    assert (done.returncode, done.stdout[:21]) == (0, b"Submitted allocation "), done.stderr
    line = f'"{quick.program}" nodes | true; "{quick.program}" nodes >/dev/full; echo $?'
    full = subprocess.run(["/bin/sh", "-c", line], env=quick.environment(), capture_output=True, text=True, check=False)
    assert (full.stdout, full.stderr) == ("1\n", "error: cannot write the output: No space left on device\n")


def test_files_that_a_shell_has_open_for_the_command_are_read(quick: Quick) -> None:
    quick.warm()
    line = f'"{quick.program}" run <(printf "#!/bin/sh\\necho from a pipe\\n")'
    done = subprocess.run(
        ["/bin/bash", "-c", line], env=quick.environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "from a pipe\n"), done.stderr


def test_a_large_environment_and_a_long_line_arrive_whole(quick: Quick) -> None:
    quick.warm()
    variables = {f"LARGE_{number}": "x" * 100_000 for number in range(8)}
    words = ["submit", "--dry-run", "--export=ALL", "--", "echo", *(f"word{number}" for number in range(5_000))]
    fast, slow = (quick.run(*words, python=python, variables=variables) for python in (False, True))
    assert (fast.returncode, fast.stdout, fast.stderr) == (slow.returncode, slow.stdout, slow.stderr)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_stopped_command_stops_and_goes_on(quick: Quick) -> None:
    interpreter = quick.warm()
    with subprocess.Popen(
        [quick.program, "run", "--", "sh", "-c", "echo here; sleep 1; echo there"],
        env=quick.environment(),
        stdout=subprocess.PIPE,
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"here\n"
        (child,) = children(interpreter)
        started.send_signal(signal.SIGTSTP)
        until(lambda: state_of(started.pid) == state_of(child) == "T", "not stopped")
        started.send_signal(signal.SIGCONT)
        assert started.stdout.read() == b"there\n"
        assert started.wait(DEADLINE_S) == 0


def children(pid: int) -> list[int]:
    """Those that run, not those that nobody has waited for yet."""
    every = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [child for child in every if not is_gone(child)]


def until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_a_killed_forwarder_ends_the_command_and_not_the_work(quick: Quick) -> None:
    interpreter = quick.warm()
    with subprocess.Popen(
        [quick.program, "run", "--", "sh", "-c", "echo here; sleep 60"], env=quick.environment(), stdout=subprocess.PIPE
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"here\n"
        assert len(children(interpreter)) == 1
        started.kill()
        until(lambda: not children(interpreter), "the child goes on")
    newest = quick.cluster.get("/allocations?limit=1")["items"][0]
    # What it writes may be here before the report of its node that it runs.
    quick.cluster.wait_state(newest["id"], "Running", "Completed", "Failed", "Cancelled")
    assert quick.cluster.allocation(newest["id"])["state"] == "Running"


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_sigterm_ends_the_forwarder_as_it_ends_the_python_command(quick: Quick) -> None:
    quick.warm()
    codes = []
    for setting in ("", "off"):
        with subprocess.Popen(
            [quick.program, "run", "--", "sh", "-c", "echo here; sleep 60"],
            env=quick.environment(LATTICE_WARM=setting),
            stdout=subprocess.PIPE,
        ) as started:
            assert started.stdout is not None
            started.stdout.readline()
            started.terminate()
            codes.append(started.wait(DEADLINE_S))
    assert codes == [-signal.SIGTERM, -signal.SIGTERM]


def test_interrupts_and_answers_go_through_a_terminal(quick: Quick, cluster: LocalCluster) -> None:
    quick.warm()
    words = ("run", "--", "sh", "-c", "echo here; sleep 60")
    screen = Terminal(cluster, quick.program, *words, variables=quick.environment())
    try:
        screen.until("here")
        screen.type(CONTROL_C)
        screen.until("detach")
        screen.type("c\n")
        screen.until("is being cancelled")
        assert screen.ends() == 130
    finally:
        screen.close()


def test_an_interpreter_that_hangs_costs_a_moment_and_runs_nothing_later(quick: Quick) -> None:
    interpreter = quick.warm()
    os.kill(interpreter, signal.SIGSTOP)
    before = quick.cluster.get("/allocations?limit=1")["items"][0]["id"]
    done = quick.run("submit", "--", "true")
    os.kill(interpreter, signal.SIGCONT)
    assert done.returncode == 0
    assert quick.run("status").returncode == 0  # it has seen the line that was given up
    newest = quick.cluster.get("/allocations?limit=1")["items"][0]["id"]
    assert int(newest[1:]) == int(before[1:]) + 1


def test_a_killed_interpreter_is_replaced(quick: Quick) -> None:
    interpreter = quick.warm()
    os.kill(interpreter, signal.SIGKILL)
    assert quick.run("status").returncode == 0
    until(lambda: quick.interpreters() not in ([], [interpreter]), "no new interpreter")


def test_an_interpreter_killed_in_the_middle_is_said(quick: Quick) -> None:
    interpreter = quick.warm()
    with subprocess.Popen(
        [quick.program, "run", "--", "sh", "-c", "echo here; sleep 60"],
        env=quick.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        started.stdout.readline()
        os.kill(children(interpreter)[0], signal.SIGKILL)
        assert started.stderr.read() == b"error: the command was killed; it may have taken effect\n"
        assert started.wait(DEADLINE_S) == 1


def test_changed_code_is_not_run_from_memory(quick: Quick) -> None:
    import lattice.cli.commands.work.status as module

    interpreter = quick.warm()
    file = Path(module.__file__)
    about = file.stat()
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns + 1))
    try:
        assert quick.run("status").returncode == 0
        until(lambda: is_gone(interpreter), "the old interpreter stays")
    finally:
        os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))


def test_many_callers_at_once_are_all_served(quick: Quick) -> None:
    """Also more than the interpreter takes, with a interpreter that is only starting."""
    started = [
        subprocess.Popen([quick.program, "nodes"], env=quick.environment(), stdout=subprocess.PIPE) for _ in range(24)
    ]
    outputs = {process.communicate(timeout=90)[0] for process in started}
    assert len(outputs) == 1
    assert {process.returncode for process in started} == {0}
    assert len(quick.interpreters()) <= 1


@pytest.mark.root
def test_a_directory_of_somebody_else_is_not_used(quick: Quick) -> None:
    theirs = quick.runtime / "lattice"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, 65534, 65534)
    assert quick.run("status").returncode == 0
    assert not list(theirs.iterdir())
    os.chown(theirs, 0, 0)
    theirs.chmod(0o755)
    assert quick.run("status").returncode == 0
    assert not list(theirs.iterdir())


def test_limits_and_groups_get_a_interpreter_of_their_own(quick: Quick) -> None:
    quick.warm()
    line = f'ulimit -S -n 64; "{quick.program}" status'
    subprocess.run(["/bin/sh", "-c", line], env=quick.environment(), check=True, capture_output=True)
    until(lambda: len(quick.interpreters()) == 2, "one interpreter for both")


def test_the_lock_is_left_alone_by_children(quick: Quick) -> None:
    """Where the interpreter has gone while a command still runs, another may start."""
    interpreter = quick.warm()
    with subprocess.Popen(
        [quick.program, "run", "--", "sh", "-c", "echo here; sleep 60"], env=quick.environment(), stdout=subprocess.PIPE
    ) as started:
        assert started.stdout is not None
        started.stdout.readline()
        os.kill(interpreter, signal.SIGKILL)
        quick.run("status")
        until(lambda: quick.interpreters() not in ([], [interpreter]), "no new interpreter")
        quick.cluster.cli("cancel", "--all-mine", "-q")


def test_without_a_compiler_python_goes_on_working(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not install_quick(tmp_path)
    monkeypatch.undo()
    done = subprocess.run(
        [tmp_path / "lattice", "nodes"], env=cluster.environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout == cluster.cli("nodes").stdout
