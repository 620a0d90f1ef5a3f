"""The process that reads which files runs touch, and prints it as lines of JSON: the machine's events pass here, not in the agent.

`reader.py ROOT` takes a line of JSON on its input each time the runs change that are looked at (["7.1", ...]), and ends with it.
ROOT is the control group below which the agent's runs have theirs. It prints `{"ready": ...}` or `{"problem": ...}`, then lines of what
was touched: those of a second, of one process and file, are one.
"""

import json
import os
import re
import select
import sys
import time
from collections.abc import Callable

from lattice.agent.telemetry.access.births import Births, Born
from lattice.agent.telemetry.access.fanotify import FileWatch, Mount, Touched, names_of, read_mounts

TELL_S = 1.0
MAX_KEPT = 5_000  # of one second: then it is over earlier
DYING_S = 5.0  # events of a process may come after its end
UNKNOWN = "unknown"

Key = tuple[str, int, int, int, str]


class Owners:
    """Whose each process is: the run by name, or none."""

    def __init__(self, root: str, births: Births | None, cgroup_of: Callable[[int], str | None] | None = None) -> None:
        self._pattern = re.compile(rf"(?:^|/){re.escape(root)}/alloc-(\d+\.\d+)(?:/|$)", re.MULTILINE)
        self._births = births
        self._cgroup_of = cgroup_of or read_cgroup
        self._known: dict[int, str] = {}  # empty: of no run
        self._dying: dict[int, float] = {}
        self._parents: dict[int, int] = {}  # of those of which it is not known yet
        self._givers: set[int] = set()  # of no run themselves, and some of their children are put into one
        self.began: list[int] = []  # processes of runs with another program than before

    def find(self, pid: int) -> str:
        """The run, empty for others, or UNKNOWN for a process that ended before its run was known."""
        known = self._known.get(pid)
        if known is not None:
            return known
        self.catch_up()
        known = self._known.get(pid)
        return self._look(pid) if known is None else known

    def _look(self, pid: int) -> str:
        text, parent = self._cgroup_of(pid), self._parents.get(pid)
        if text is None:
            return UNKNOWN if parent is None or parent in self._givers else ""
        match = self._pattern.search(text)
        found = match[1] if match else ""
        self._known[pid] = found
        if found and parent is not None:
            self._givers.add(parent)
        return found

    def catch_up(self) -> None:
        """What was born and died since."""
        if self._births is not None:
            for born in self._births.read():
                self.note(born)

    def note(self, born: Born) -> None:
        match born.kind:
            case "fork":
                self._dying.pop(born.pid, None)
                owner = self._known.get(born.parent, "")
                if owner:
                    self._known[born.pid] = owner
                else:  # it may be put into the group of a run
                    self._known.pop(born.pid, None)
                    self._parents[born.pid] = born.parent
            case "exec":
                if not self._known.get(born.pid):
                    self._look(born.pid)
                if self._known.get(born.pid):
                    self.began.append(born.pid)
            case _:
                self._dying[born.pid] = time.monotonic() + DYING_S

    def forget(self) -> None:
        """Once a second: who is gone, and without the connector all that may be outdated."""
        if self._births is None:
            self._known.clear()
        now_s = time.monotonic()
        for pid in [pid for pid, at_s in self._dying.items() if at_s <= now_s]:
            del self._dying[pid]
            self._known.pop(pid, None)
            self._parents.pop(pid, None)
            self._givers.discard(pid)


def read_cgroup(pid: int) -> str | None:
    """None where it is gone."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


class Marks:
    """Which file systems are watched, each once."""

    def __init__(self, watch: FileWatch) -> None:
        self._watch = watch
        self._devices: set[str] = set()
        self._namespaces: set[int] = set()
        self.failed: list[str] = []  # new ones

    def add_all(self, mounts: list[Mount], root: str = "") -> None:
        for mount in mounts:
            if mount.device in self._devices:
                continue
            self._devices.add(mount.device)
            try:
                self._watch.add(root + mount.point)
            except OSError as error:
                self.failed.append(f"{mount.kind} at {mount.point}: {error.strerror}")

    def add_of(self, pid: int) -> None:
        """What this process sees and others do not."""
        try:
            namespace = os.stat(f"/proc/{pid}/ns/mnt").st_ino
        except OSError:
            return
        if namespace not in self._namespaces:
            self._namespaces.add(namespace)
            self.add_all(read_mounts(f"/proc/{pid}/mountinfo"), f"/proc/{pid}/root")


class Record:
    """What was touched in this second, by run, process and file."""

    def __init__(self) -> None:
        self._touched: dict[Key, list[int]] = {}  # mask, count
        self._programs: dict[int, tuple[str, int]] = {}
        self.unknown = 0

    def __len__(self) -> int:
        return len(self._touched)

    def add(self, run: str, event: Touched) -> None:
        try:
            path = os.readlink(f"/proc/self/fd/{event.fd}")
            status = os.fstat(event.fd)
        except OSError:
            return
        if event.pid not in self._programs:
            self.meet(event.pid)
        kept = self._touched.setdefault((run, event.pid, status.st_dev, status.st_ino, path), [0, 0])
        kept[0] |= event.mask
        kept[1] += 1

    def meet(self, pid: int) -> None:
        """While it lives: its name and whose rights it has."""
        self._programs[pid] = _program_of(pid)

    def tell(self, at_ms: int) -> list[dict[str, object]]:
        """And forget it."""
        lines: list[dict[str, object]] = []
        for (run, pid, device, inode, path), (mask, count) in self._touched.items():
            program, uid = self._programs.get(pid, ("", -1))
            line: dict[str, object] = {"run": run, "at_ms": at_ms, "path": printable(path), "did": names_of(mask)}
            line |= {"events": count, "pid": pid, "device": f"{os.major(device)}:{os.minor(device)}", "inode": inode}
            line |= {"program": program} if program else {}
            line |= {"uid": uid} if uid >= 0 else {}
            lines.append(line)
        if self.unknown:
            lines.append({"at_ms": at_ms, "unassigned": self.unknown})
        self._touched.clear()
        if len(self._programs) > MAX_KEPT:
            self._programs.clear()
        self.unknown = 0
        return lines


def printable(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _program_of(pid: int) -> tuple[str, int]:
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read(64).strip().decode("utf-8", "replace"), uid
    except OSError:
        return "", -1


class Reader:
    def __init__(self, root: str) -> None:
        self._watch = FileWatch()
        try:
            self._births: Births | None = Births()
        except OSError:
            self._births = None
        self._owners = Owners(root, self._births)
        self._marks = Marks(self._watch)
        self._record = Record()
        self._runs: frozenset[str] = frozenset()
        self._input = b""
        self._tell_s = time.monotonic() + TELL_S

    def run(self) -> None:
        """Until the input ends."""
        self._marks.add_all(read_mounts())
        _print({"ready": True, "follows_children": self._births is not None})
        poll = select.poll()
        for fd in (0, self._watch.fd, *(() if self._births is None else (self._births.fileno(),))):
            poll.register(fd, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll(max(1.0, 1000 * (self._tell_s - time.monotonic())))}
            if 0 in ready and not self._take_runs():
                return
            self._owners.catch_up()
            for pid in self._owners.began:
                self._marks.add_of(pid)
                self._record.meet(pid)
            self._owners.began.clear()
            for event in self._watch.read():
                self._take(event)
            if time.monotonic() >= self._tell_s or len(self._record) > MAX_KEPT:
                self._tell()

    def _take_runs(self) -> bool:
        text = os.read(0, 1 << 20)
        *lines, self._input = (self._input + text).split(b"\n")
        for line in lines:
            self._runs = frozenset(json.loads(line))
        return bool(text)

    def _take(self, event: Touched) -> None:
        if event.fd < 0:
            _print({"at_ms": _now_ms(), "lost": True})
            return
        try:
            if event.pid == os.getpid():
                return
            run = self._owners.find(event.pid)
            if run == UNKNOWN:
                self._record.unknown += 1
            elif run in self._runs:
                self._record.add(run, event)
        finally:
            os.close(event.fd)

    def _tell(self) -> None:
        self._tell_s = time.monotonic() + TELL_S
        self._owners.forget()
        self._marks.add_all(read_mounts())
        for line in self._record.tell(_now_ms()):
            _print(line)
        for problem in self._marks.failed:
            _print({"at_ms": _now_ms(), "not_watched": problem})
        self._marks.failed.clear()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _print(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> int:
    try:
        reader = Reader(sys.argv[1])
    except (OSError, AttributeError) as error:
        _print({"problem": str(error)})
        return 1
    try:
        reader.run()
    except (BrokenPipeError, KeyboardInterrupt):
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
