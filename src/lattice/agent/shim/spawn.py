"""One workload process: the fork that carries out what is asked for.

Between fork and exec the child is on its own: new session, cgroup, descriptors, credentials,
signals, directory, files, in an order that matters. All signals are blocked from before the fork
until the shim's handlers are gone and the process is the user's; from then on a stop ends it, also
while it waits for a file. Whatever fails there comes back as a line over a pipe that exec closes.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import signal
import struct
import termios
from collections.abc import Callable

from lattice.agent.shim.cgroups import Cgroup
from lattice.agent.shim.confinement.memory_policy import set_policy
from lattice.agent.shim.confinement.seal import drop_capabilities, seal
from lattice.agent.shim.hierarchies import read_figure, write_text
from lattice.agent.shim.launch import Launch
from lattice.agent.shim.loop import Loop
from lattice.agent.shim.namespace import enter_namespace
from lattice.agent.shim.tree import ProcessTree

# A process that moves itself by writing to cgroup.procs takes a lock that stops every fork and exit of the machine for an RCU grace
# period: some 10 ms when moves are rare. A child that is born in its cgroup (clone3 with CLONE_INTO_CGROUP, Linux 5.7) costs nothing
# of the kind. Where clone3 is missing or forbidden, fork as usual and let the child move. v1 hierarchies have no such birth, but let a
# single thread move itself without the lock (`join_files` of a group).
CLONE_INTO_CGROUP = 0x2_0000_0000
SYS_CLONE3 = 435
UNAVAILABLE = {errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG, errno.EOPNOTSUPP}

# PyDLL keeps the interpreter's lock: the child must come back holding it.
_libc = ctypes.PyDLL(None, use_errno=True)
_python = ctypes.pythonapi
_NO_SIGNALS = bytes(128)  # a sigset_t
_ALL_SIGNALS = b"\xff" * 128

EXIT_NOT_STARTED = 127
OOM_SCORE = "/proc/self/oom_score_adj"
# Of a file's name in the report of a failure.
MAX_PATH = 100
SPARE_DESCRIPTORS = 64
# Two pipes, two files with their tails, the group's events, the report of exec, the copier's last line.
DESCRIPTORS_PER_RUN = 9


class Inheritance:
    """What the shim has for itself and takes back in its children: the soft limit of descriptors, the signals that are
    handled or ignored, and the protection from the kernel when memory runs out, which the agent's unit gives."""

    __slots__ = ("_files", "_is_protected", "_signals")

    def __init__(self) -> None:
        """Call once, after the shim's own handlers are in place."""
        self._files = resource.getrlimit(resource.RLIMIT_NOFILE)
        hard = self._files[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self._signals = [number for number in signal.valid_signals() if signal.getsignal(number) is not signal.SIG_DFL]
        self._is_protected = read_figure(OOM_SCORE) < 0

    def check_room(self, runs: int) -> None:
        """OSError when the runs could together need more descriptors than are available: what has
        started must be able to write its output and to end."""
        if runs * DESCRIPTORS_PER_RUN + SPARE_DESCRIPTORS > self._files[1]:
            raise OSError(errno.EMFILE, "this node has too many runs open")

    def open_pipe(self) -> tuple[int, int]:
        """A pipe whose reading end never waits; OSError while some descriptors are still left."""
        reader, writer = os.pipe()
        if writer > self._files[1] - SPARE_DESCRIPTORS:
            os.close(reader)
            os.close(writer)
            raise OSError(errno.EMFILE, "this node has too many runs open")
        os.set_blocking(reader, False)
        return reader, writer

    def expose(self) -> None:
        """The kernel may choose the process before the daemons of the machine. Before it sees another file system."""
        if self._is_protected:
            write_text(OOM_SCORE, "0")

    def restore(self) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, self._files)
        signal.set_wakeup_fd(-1)
        for number in self._signals:
            # SIG_DFL. `signal.signal` makes an enum of the old handler, which takes ten times as long.
            _libc.signal(number, None)


class Wiring:
    """What a process gets as its descriptors 0 to 2: descriptors of ours, -1 for nothing, or files that it opens as its
    user. With `terminal` all three are the slave side of a terminal, which becomes its controlling one. Behind a `gate` (or
    -1) another process opens files first, and reports success or the reason. `pmi`, if not -1, stays open in the process, which
    learns its number from PMI_FD."""

    __slots__ = (
        "err",
        "err_path",
        "gate",
        "in_path",
        "out",
        "out_path",
        "pmi",
        "stdin",
        "terminal",
        "truncate",
        "wait",
    )

    def __init__(self, out: int, err: int, stdin: int = -1, *, terminal: bool = False) -> None:
        self.stdin, self.out, self.err, self.terminal = stdin, out, err, terminal
        self.in_path = self.out_path = self.err_path = b""
        self.truncate = False
        self.gate = self.pmi = -1
        self.wait: Callable[[int, Launch], None] | None = None  # with `pmi`, as the user, before exec

    def open_files(self) -> None:
        """In the child, as the user, in the directory of the run."""
        if self.gate >= 0:
            _pass_gate(self.gate)
        if self.in_path:
            _open_as(0, self.in_path, os.O_RDONLY)
        write = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if self.truncate else 0)
        if self.out_path:
            _open_as(1, self.out_path, write)
        if self.err_path == self.out_path and self.err_path:
            os.dup2(1, 2)
        elif self.err_path:
            _open_as(2, self.err_path, write)


def _open_as(number: int, path: bytes, flags: int) -> None:
    try:
        fd = os.open(path, flags, 0o666)
    except OSError as error:
        raise UnopenedFile(error.errno or 0, path) from error
    os.dup2(fd, number)
    os.close(fd)


def _pass_gate(gate: int) -> None:
    """Wait for the process that opens the files; `ready`, or a number and a name."""
    said = b""
    while piece := os.read(gate, 8192):
        said += piece
    os.close(gate)
    if said != b"ready":
        number, _, path = said.partition(b" ")
        raise UnopenedFile(int(number) if number.isdigit() else errno.EIO, path)


class UnopenedFile(Exception):
    """A file of the user's choice cannot be opened."""

    def __init__(self, code: int, path: bytes) -> None:
        super().__init__(code, path)
        self.code = code
        self.path = path


def block_signals() -> None:
    """Let none through until `unblock_signals`."""
    _libc.pthread_sigmask(signal.SIG_SETMASK, _ALL_SIGNALS, None)


def unblock_signals() -> None:
    """Let every signal through. `signal.pthread_sigmask` also says which ones were blocked, and handles an exception for each
    that has no name: that costs as much as the fork itself."""
    _libc.pthread_sigmask(signal.SIG_SETMASK, _NO_SIGNALS, None)


def fork_into(folder: str) -> int | None:
    """Like os.fork, the child being a member of the cgroup v2 `folder`; None (in the parent, with
    no child) where the kernel cannot do that. For a process with one thread."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size,
        # tls, set_tid, set_tid_size, cgroup.
        request = struct.pack("@11Q", CLONE_INTO_CGROUP, 0, 0, 0, signal.SIGCHLD, *[0] * 5, fd)
        _python.PyOS_BeforeFork()
        pid = int(_libc.syscall(SYS_CLONE3, request, len(request)))
        if pid == 0:
            _python.PyOS_AfterFork_Child()
            return 0
        code = ctypes.get_errno()
        _python.PyOS_AfterFork_Parent()
    finally:
        os.close(fd)
    if pid > 0:
        return pid
    if code in UNAVAILABLE:
        return None
    raise OSError(code, f"cannot fork: {os.strerror(code)}")


def spawn(
    launch: Launch,
    group: Cgroup | ProcessTree,
    inheritance: Inheritance,
    wiring: Wiring,
    report: int,
) -> int:
    """Fork the workload; its pid. `report` is closed by exec or carries why there was none."""
    block_signals()
    try:
        pid = fork_into(group.folder) if group.folder else None
        join_files = group.join_files
        if pid is None:
            join_files = group.all_join_files
            pid = os.fork()
        if pid == 0:
            _become(launch, join_files, inheritance, wiring, report)
        return pid
    finally:
        unblock_signals()


def _become(
    launch: Launch,
    join_files: tuple[str, ...],
    inheritance: Inheritance,
    wiring: Wiring,
    report: int,
) -> None:
    """Never returns, not even to a shim that was killed meanwhile."""
    stage, code = "session", 0
    try:
        os.setsid()
        stage = "memory protection"
        inheritance.expose()
        stage = "cgroup"
        for path in join_files:
            # As root, so before the credentials go.
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            os.write(fd, b"0")
            os.close(fd)
        if launch.namespace >= 0:
            stage = "file system"
            enter_namespace(launch.namespace)
        stage = "CPUs and memory"
        _bind(launch)
        stage = "descriptors"
        _set_descriptors(wiring, report)
        if wiring.pmi >= 0:
            os.set_inheritable(wiring.pmi, True)
            launch.env[b"PMI_FD"] = b"%d" % wiring.pmi
        inheritance.restore()
        os.umask(launch.umask)
        stage = "limits"
        for number, pair in launch.rlimits:
            resource.setrlimit(number, pair)
        stage = "credentials"
        if launch.is_sealed:
            drop_capabilities()
        if os.geteuid() == 0:
            os.setgroups(launch.groups)
            os.setresgid(launch.gid, launch.gid, launch.gid)
            os.setresuid(launch.uid, launch.uid, launch.uid)
        # What follows may wait: for a file server, a pipe's other end. A stop must reach it there.
        unblock_signals()
        stage = "directory"
        # As the user: root may be mapped to an unprivileged user on a network file system.
        os.chdir(launch.cwd)
        stage = "files"
        wiring.open_files()
        if launch.is_sealed:
            stage = "container"
            seal()
        stage = "exec"
        _exec(launch, wiring)
    except OSError as error:
        code = error.errno or 0
    except UnopenedFile as error:
        stage, code = "file:" + error.path[:MAX_PATH].hex(), error.code
    finally:
        _leave(report, f"{stage} {code}")


def _leave(report: int, said: str) -> None:
    """Never returns: the shim may be gone."""
    try:
        os.write(report, said.encode())
    finally:
        os._exit(EXIT_NOT_STARTED)


def _bind(launch: Launch) -> None:
    if launch.cpus:
        os.sched_setaffinity(0, launch.cpus)
    if launch.memory_policy is not None:
        set_policy(launch.memory_policy)


def _set_descriptors(wiring: Wiring, report: int) -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for number, fd in enumerate((wiring.stdin, wiring.out, wiring.err)):
        os.dup2(fd if fd >= 0 else null, number)
    if wiring.terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    # Everything is close-on-exec already; closed here because chdir may hang for long on a dead
    # file server, and must not hold the agent's connection or other runs' pipes meanwhile.
    first = 3
    for fd in sorted({report, wiring.gate, wiring.pmi} - {-1}):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _exec(launch: Launch, wiring: Wiring) -> None:
    """Like execvp, in the environment's PATH; OSError when there is no such program."""
    if wiring.wait is not None:
        wiring.wait(wiring.pmi, launch)
    failure = FileNotFoundError(errno.ENOENT, "not found")
    refused: OSError | None = None
    for path in launch.candidates:
        try:
            os.execve(path, launch.argv, launch.env)  # noqa: S606 - this is what a shim is for
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            refused = error
    raise refused or failure


def read_report(loop: Loop, fd: int) -> bytes | None:
    """What the child wrote to its report pipe, empty after exec; None while it has said nothing. The pipe is closed then."""
    try:
        report = os.read(fd, 256)
    except BlockingIOError:
        return None
    loop.unwatch(fd)
    os.close(fd)
    return report


def describe_failure(launch: Launch, report: bytes) -> str:
    """A sentence for the user out of what the child wrote to the report pipe."""
    stage, _, number = report.decode("ascii", "replace").partition(" ")
    code = int(number) if number.isdigit() else 0
    program = launch.argv[0].decode("utf-8", "replace")
    if stage.startswith("file:"):
        path = bytes.fromhex(stage[len("file:") :]).decode("utf-8", "replace")
        return f"cannot open {path}: {os.strerror(code)}"
    if stage == "directory":
        where = launch.cwd.decode("utf-8", "replace")
        return f"cannot enter directory {where}: {os.strerror(code)}"
    if stage != "exec":
        return f"cannot set up {stage} for {program}: {os.strerror(code)}"
    if code == errno.ENOENT and b"/" not in launch.argv[0]:
        return f"{program}: command not found in PATH"
    return f"cannot execute {program}: {os.strerror(code)}"
