"""A real shim for tests: started in the foreground, spoken to over its socket, and taken away with
everything it started."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lattice.agent.shim
from lattice.agent.shim.cgroups import CgroupRoot, open_root
from lattice.agent.shim.hierarchies import find_hierarchies

NOBODY = 65534
DEADLINE_S = 60.0
SOURCES = Path(lattice.agent.shim.__file__).parent
SHARED = Path("core/model/work/endings.py")  # the one module outside that the shim needs
PATH = "/usr/local/bin:/usr/bin:/bin"

Message = dict[str, Any]


def readable_python(uid: int) -> str:
    """An interpreter that this user may execute."""
    for program in (sys.executable, "/usr/bin/python3"):
        try:
            answer = subprocess.run([program, "-S", "-c", ""], user=uid, group=uid, check=False)
        except OSError:
            continue
        if answer.returncode == 0:
            return program
    raise AssertionError(f"uid {uid} can execute no python")


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def stands_still(pid: int) -> bool:
    """Whether the process is stopped, or frozen with its cgroup."""
    if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
        return True
    groups = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    for top in [mount[1] for mount in mounts if mount[2] == "cgroup2"]:
        for events in [Path(f"{top}{path}/cgroup.events") for hierarchy, _, path in groups if hierarchy == "0"]:
            if events.exists() and "frozen 1" in events.read_text().splitlines():
                return True
    return False


def wait_for(condition: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    until, pause_s = time.monotonic() + deadline_s, 0.005
    while not condition():
        assert time.monotonic() < until, f"not within {deadline_s} s: {what}"
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.2, 0.05)


class Client:
    """What an agent is to the shim."""

    def __init__(self, state_dir: Path) -> None:
        self.events: list[Message] = []
        self._answers: dict[int, Message] = {}
        self._last_id = 0
        folder = os.open(state_dir, os.O_PATH)
        try:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.settimeout(DEADLINE_S)
            # Test folders have long names, socket addresses may not.
            self.socket.connect(f"/proc/self/fd/{folder}/shim.sock")
        except OSError:
            self.socket.close()
            raise
        finally:
            os.close(folder)
        self._lines = self.socket.makefile("rb")

    def send(self, op: str, **fields: object) -> int:
        self._last_id += 1
        self.send_bytes(json.dumps({"op": op, "id": self._last_id, **fields}).encode() + b"\n")
        return self._last_id

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> Message:
        line = self._lines.readline()
        if not line:
            raise ConnectionError("the shim closed the connection")
        message: Message = json.loads(line)
        if "event" in message:
            self.events.append(message)
        return message

    def answer(self, request_id: int) -> Message:
        while request_id not in self._answers:
            message = self.receive()
            if "event" not in message:
                self._answers[message["id"]] = message
        return self._answers.pop(request_id)

    def ask(self, op: str, **fields: object) -> Message:
        return self.answer(self.send(op, **fields))

    def ended(self, number: int, run: int = 1) -> Message:
        """The event that tells the end of a run, awaited if need be."""
        while True:
            for event in self.events:
                if event["event"] == "ended" and (event["number"], event["run"]) == (number, run):
                    return event
            message = self.receive()
            if "event" not in message:
                self._answers[message["id"]] = message

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


class ShimProcess:
    """A state directory and the shim in it, run as `uid`."""

    def __init__(
        self,
        *options: str,
        uid: int = 0,
        cgroup: bool = True,
        descriptors: int = 0,
        program: Path = SOURCES / "shim.py",
        state_dir: Path | None = None,
    ) -> None:
        """`program`: that of another release."""
        self.descriptors = descriptors  # how many the shim may have open; 0 = as many as we
        self.uid = uid if os.geteuid() == 0 else os.geteuid()
        self.options = options
        self.dir = state_dir or Path(tempfile.mkdtemp(prefix="lattice-shim-"))
        self.scratch = self.dir / "scratch"
        self.scratch.mkdir(mode=0o777)
        self.scratch.chmod(0o777)
        self.dir.chmod(0o755)
        self.cgroup_root = f"lattice/test-{self.dir.name}" if cgroup else ""
        self.python = sys.executable
        self.program = program
        if self.uid != os.geteuid():
            self._prepare_other_user()
        self._clients: list[Client] = []
        self.process = self._spawn()

    def _prepare_other_user(self) -> None:
        """A copy of the sources that the user can read, and nothing else of ours."""
        self.python = readable_python(self.uid)
        package = self.dir / "copy" / "lattice" / "agent" / "shim"
        shutil.copytree(SOURCES, package, ignore=shutil.ignore_patterns("__pycache__"))
        for parent in (package.parent.parent, package.parent):
            (parent / "__init__.py").touch()
        shared = SOURCES.parent.parent / SHARED
        words = package.parent.parent / SHARED
        words.parent.mkdir(parents=True)
        for parent in list(words.parents)[:3]:
            (parent / "__init__.py").touch()
        shutil.copy(shared, words)
        self.program = package / "shim.py"
        for path in (self.dir, self.scratch):
            os.chown(path, self.uid, self.uid)

    def command(self, *more: str) -> list[str]:
        root = ["--cgroup-root", self.cgroup_root] if self.cgroup_root else []
        limit = ["sh", "-c", f'ulimit -n {self.descriptors}; exec "$@"', "sh"] if self.descriptors else []
        start = [*limit, self.python, "-S", "-E", str(self.program), "--state-dir", str(self.dir)]
        return [*start, *root, *self.options, *more]

    def _spawn(self) -> subprocess.Popen[bytes]:
        as_user: dict[str, Any] = {}
        if self.uid != os.geteuid():
            as_user = {"user": self.uid, "group": self.uid, "extra_groups": []}
        return subprocess.Popen(self.command(), **as_user)

    def connect(self) -> Client:
        until = time.monotonic() + DEADLINE_S
        while True:
            try:
                client = Client(self.dir)
            except (FileNotFoundError, ConnectionRefusedError):
                assert time.monotonic() < until, "the shim does not listen"
                assert self.process.poll() is None, "the shim died"
                time.sleep(0.005)
            else:
                self._clients.append(client)
                return client

    def restart(self) -> None:
        self.process.wait(DEADLINE_S)
        self.process = self._spawn()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def cpu_s(self) -> float:
        """Time at work of the shim and of what it started that has ended."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def run_dir(self, number: int, run: int = 1) -> Path:
        return self.dir / "runs" / f"{number}.{run}"

    def request(self, number: int, *argv: str, run: int = 1, **more: object) -> Message:
        """Fields of a start request."""
        fields: Message = {
            "number": number,
            "run": run,
            "dir": str(self.run_dir(number, run)),
            "argv": list(argv),
            "env": {"PATH": PATH},
            "cwd": str(self.scratch),
            "uid": self.uid,
            "gid": self.uid,
            "groups": [],
            "cgroup": f"alloc-{number}.{run}",
            "memory_mb": 0,
            "walltime_s": 60,
            "grace_s": 5,
        }
        return {**fields, **more}

    def status(self, number: int, run: int = 1) -> Message:
        status: Message = json.loads((self.run_dir(number, run) / "status.json").read_text())
        return status

    def phase(self, number: int) -> str:
        """As written down; empty before the first time."""
        try:
            return str(self.status(number)["phase"])
        except FileNotFoundError:
            return ""

    def output(self, number: int, stream: str = "stdout") -> str:
        try:
            return (self.run_dir(number) / stream).read_text()
        except FileNotFoundError:
            return ""

    def written_pid(self, name: str) -> int:
        """The number that a workload wrote into its scratch folder."""
        path = self.scratch / name
        wait_for(lambda: path.exists() and path.read_text().strip(), f"{name} to be written")
        return int(path.read_text())

    def groups(self) -> list[str]:
        """Names of the cgroups that exist below this shim's root."""
        if not self.cgroup_root:
            return []
        root = find_hierarchies()
        found = []
        for top in (root.unified, *root.v1.values()):
            folder = Path(f"{top}/{self.cgroup_root}")
            if top and folder.is_dir():
                found += [path.name for path in folder.iterdir() if path.is_dir()]
        return found

    def close(self) -> None:
        """Leave nothing behind, whatever the test did."""
        for client in self._clients:
            client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.kill()
        if self.cgroup_root and os.geteuid() == 0:
            root: CgroupRoot | None = open_root(self.cgroup_root)
            if root is not None:
                root.sweep(DEADLINE_S)
                root.remove()
        shutil.rmtree(self.dir, ignore_errors=True)
