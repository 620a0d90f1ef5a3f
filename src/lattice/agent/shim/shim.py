"""The shim: parent of all workloads of one node. `python -S -E shim.py --state-dir DIR`.

One per state directory (a lock on `shim.lock`), reached over `shim.sock`, known by `shim.pid`. It
outlives the agent; when it dies its work is lost, and the next one kills what was left before it
listens. Standard library only and few modules of that, because every fork copies its page tables.

Exit codes: 0 after a shutdown, 1 when it cannot start, 2 for wrong arguments, 3 when another one
has this state directory.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # Started by path and without site-packages: find the sibling modules, after everything else,
    # and do not let this folder's names hide modules of the standard library.
    _here = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.realpath(path) != _here]
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(_here))))
    from lattice.agent.shim.light import step_back, take_their_place

    take_their_place()

import fcntl
import gc
import resource
import signal

from lattice.agent.shim.cgroups import Cgroup, CgroupRoot, open_root
from lattice.agent.shim.loop import Loop, become_subreaper, boot_now
from lattice.agent.shim.output import DEFAULT_LIMIT_BYTES, replace_file
from lattice.agent.shim.socket import Server
from lattice.agent.shim.spawn import Inheritance
from lattice.agent.shim.table import RunTable
from lattice.agent.shim.tree import Forest

if __name__ == "__main__":
    step_back()

SOCKET = "shim.sock"
LOCK = "shim.lock"
PID_FILE = "shim.pid"
LOG = "shim.log"
SWEEP_S = 10.0
CLEAR_AGAIN_S, MAX_CLEAR_AGAIN_S = 1.0, 60.0
NAMES = ("--state-dir", "--output-limit", "--cgroup-root")
USAGE = "usage: shim.py --state-dir DIR [--output-limit BYTES] [--cgroup-root NAME] [--detach]\n"

EXIT_CANNOT_START = 1
EXIT_USAGE = 2
EXIT_ALREADY_RUNNING = 3


class CannotStart(Exception):
    """Why there will be no shim."""

    def __init__(self, text: str, exit_code: int = EXIT_CANNOT_START) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class Options:
    __slots__ = ("cgroup_root", "detach", "output_limit", "state_dir")

    def __init__(self, arguments: list[str]) -> None:
        given = dict.fromkeys(NAMES, "")
        self.detach = "--detach" in arguments
        words = iter(word for word in arguments if word != "--detach")
        try:
            for word in words:
                name, has_value, value = word.partition("=")
                if name not in given:
                    raise ValueError(f"unknown argument {word}")
                given[name] = value if has_value else next(words, "")
            self.output_limit = int(given["--output-limit"] or DEFAULT_LIMIT_BYTES)
            if not given["--state-dir"] or self.output_limit < 1:
                raise ValueError("wrong arguments")
        except ValueError as error:
            raise CannotStart(f"{error}\n{USAGE}", EXIT_USAGE) from None
        self.state_dir = os.path.realpath(given["--state-dir"])
        self.cgroup_root = given["--cgroup-root"]


def default_cgroup_root(state_dir: str = ".") -> str:
    """A name that no other state directory of this machine has and that survives a restart."""
    folder = os.stat(state_dir)
    return f"lattice/{folder.st_dev:x}-{folder.st_ino:x}"


def take_lock() -> int:
    """Held as long as this process lives, and not inherited: a child that hangs before its exec
    must not look like a living shim."""
    fd = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise CannotStart("another shim has this state directory", EXIT_ALREADY_RUNNING) from None
    return fd


def serve(options: Options, ready: int) -> None:
    """Be the shim. `ready` gets a byte when the socket listens."""
    os.chdir(options.state_dir)
    lock = take_lock()
    become_subreaper()
    name = options.cgroup_root or default_cgroup_root()
    tracker: CgroupRoot | Forest = open_root(name) or Forest(options.state_dir)
    stuck = tracker.sweep(SWEEP_S)
    for name in stuck:
        _log(f"could not be killed yet: {name}")
    # Before anybody can connect.
    replace_file(PID_FILE, b"%d\n" % os.getpid())
    loop = Loop()
    server = Server(loop, SOCKET)
    # The signal handlers must be there before Inheritance looks at them.
    table_of: list[RunTable] = []
    loop.on_signals(
        {
            signal.SIGCHLD: lambda: table_of[0].reap(),
            signal.SIGTERM: lambda: table_of[0].shutdown(),
            signal.SIGINT: lambda: table_of[0].shutdown(),
        }
    )
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    table = RunTable(
        loop,
        tracker,
        Inheritance(),
        options.output_limit,
        reply=server.reply,
        tell=server.tell,
    )
    table_of.append(table)
    server.handle = table.handle
    if stuck and isinstance(tracker, CgroupRoot):
        clear_away(loop, [group for group in tracker.leftovers() if os.path.basename(group.path) in stuck])
    if ready >= 0:
        os.write(ready, b"+")
        os.close(ready)
    gc.collect()
    gc.freeze()
    loop.run()
    for leftover in (SOCKET, PID_FILE):
        os.unlink(leftover)
    tracker.remove()
    os.close(lock)
    table.say_goodbye()
    server.close()


def clear_away(loop: Loop, groups: list[Cgroup], again_s: float = CLEAR_AGAIN_S) -> None:
    """What hung in the kernel when it was killed may do so for long; its groups go when it is gone."""
    left = [group for group in groups if not group.remove()]
    for group in left:
        if group.populated():
            group.kill()
    if left:
        later_s = min(2 * again_s, MAX_CLEAR_AGAIN_S)
        loop.call_at(boot_now() + again_s, lambda: clear_away(loop, left, later_s))


def _log(text: str) -> None:
    sys.stderr.write(f"shim: {text}\n")
    sys.stderr.flush()


def close_inherited(keep: int) -> None:
    """Set up descriptors 0 to 2 and close any inherited ones above."""
    while (fd := os.open("/dev/null", os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)
    end = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if keep >= 0:
        os.closerange(3, keep)
        os.closerange(keep + 1, end)
    else:
        os.closerange(3, end)


def detach(options: Options) -> int:
    """Continue in a new process; the caller returns when that one listens or has given up."""
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        answer = b""
        while part := os.read(reader, 4096):
            answer += part
        os.wait()
        if answer == b"+":
            return 0
        code, _, text = answer.decode("utf-8", "replace").partition(" ")
        _log(text or "died before it was ready")
        return int(code) if code.isdigit() else EXIT_CANNOT_START
    os.setsid()
    if os.fork():
        os._exit(0)
    _run_detached(options, writer)
    os._exit(0)


def _run_detached(options: Options, ready: int) -> None:
    try:
        close_inherited(ready)
        null = os.open("/dev/null", os.O_RDWR)
        log = os.open(
            os.path.join(options.state_dir, LOG),
            os.O_WRONLY | os.O_CREAT | os.O_APPEND,
            0o600,
        )
        for fd, target in ((null, 0), (null, 1), (log, 2)):
            os.dup2(fd, target)
        os.close(null)
        os.close(log)
        serve(options, ready)
    except CannotStart as error:
        os.write(ready, f"{error.exit_code} {error}".encode())
        os._exit(error.exit_code)
    except OSError as error:
        os.write(ready, f"{EXIT_CANNOT_START} {error}".encode())
        os._exit(EXIT_CANNOT_START)


def main(arguments: list[str]) -> int:
    try:
        options = Options(arguments)
        os.makedirs(options.state_dir, 0o700, exist_ok=True)
        if options.detach:
            return detach(options)
        close_inherited(-1)
        serve(options, -1)
    except CannotStart as error:
        _log(str(error))
        return error.exit_code
    except OSError as error:
        _log(str(error))
        return EXIT_CANNOT_START
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
