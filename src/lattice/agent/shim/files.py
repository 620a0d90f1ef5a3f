"""Output of a run in files of the user's choice, besides the shim's own.

A process of its own per run, the copier, stands between the workload and the shim: it opens the files as the user, so that
root follows no link and asks no network file system, then copies what the workload writes into them and on to the shim.
A file system that hangs stops this one run, never the shim. The workload waits before its exec until the files are open;
when one cannot be opened the run fails with the reason.

The copier belongs to no group: what is still in its pipe when the workload is gone must reach the files. When no writer is
left it waits for the shim's note, the sentence that says how the run ended, adds it to the file of stderr and ends. The shim
closes the note in any case, also by its own death. The copier has changed its user without an exec, so only root may inspect it.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import stat

from lattice.agent.shim.launch import Launch
from lattice.agent.shim.loop import keep_only
from lattice.agent.shim.namespace import enter_namespace
from lattice.agent.shim.spawn import Inheritance, Wiring, block_signals, unblock_signals

CHUNK_BYTES = 1 << 16
# How long the files may take after the last process of the run has gone.
MAX_S = 30.0
READY = b"ready"
NEWLINE = b"\n"
PIPE_PAUSE_MS = 20


class Plumbing:
    """The pipes of one start. `logs` are the shim's reading ends by stream, `note` its end of the copier's last line or -1;
    `theirs` everything that only children need."""

    __slots__ = ("copier", "logs", "note", "theirs", "wiring")

    def __init__(self) -> None:
        self.logs: dict[str, int] = {}
        self.theirs: list[int] = []
        self.wiring = Wiring(-1, -1)
        self.copier = 0
        self.note = -1

    def close_theirs(self) -> None:
        for fd in self.theirs:
            os.close(fd)
        self.theirs = []

    def close(self) -> None:
        self.close_theirs()
        for fd in self.logs.values():
            os.close(fd)
        self.logs = {}
        if self.note >= 0:
            os.close(self.note)
            self.note = -1


def lay(launch: Launch, inheritance: Inheritance) -> Plumbing:
    """Pipes for a run, and the copier where files are named. Raises OSError and leaves no descriptor then."""
    plumbing = Plumbing()
    try:
        _lay(plumbing, launch, inheritance)
    except OSError:
        plumbing.close()
        raise
    plumbing.wiring.in_path = launch.stdin
    return plumbing


def _lay(plumbing: Plumbing, launch: Launch, inheritance: Inheritance) -> None:
    copied: list[tuple[int, int, bytes]] = []
    ends: dict[str, int] = {}
    for stream, path in (("stdout", launch.stdout), ("stderr", launch.stderr)):
        if stream == "stderr" and launch.are_joined:
            ends[stream] = ends["stdout"]
            continue
        plumbing.logs[stream], log_w = inheritance.open_pipe()
        plumbing.theirs.append(log_w)
        ends[stream] = log_w
        if path:
            source, ends[stream] = os.pipe()
            plumbing.theirs += [source, ends[stream]]
            copied.append((source, log_w, path))
    plumbing.wiring.out, plumbing.wiring.err = ends["stdout"], ends["stderr"]
    if copied:
        plumbing.wiring.gate, gate_w = os.pipe()
        plumbing.theirs += [plumbing.wiring.gate, gate_w]
        note_r, plumbing.note = os.pipe()
        plumbing.theirs.append(note_r)
        plumbing.copier = _fork_copier(launch, inheritance, copied, gate_w, note_r)
        # The workload must not hold these: the copier would never see the end, the workload never its answer.
        for fd in (gate_w, note_r, *(source for source, _, _ in copied), *(log_w for _, log_w, _ in copied)):
            plumbing.theirs.remove(fd)
            os.close(fd)


def _fork_copier(
    launch: Launch, inheritance: Inheritance, copied: list[tuple[int, int, bytes]], gate: int, note: int
) -> int:
    block_signals()
    try:
        pid = os.fork()
        if pid == 0:
            _be_copier(launch, inheritance, copied, gate, note)
        return pid
    finally:
        unblock_signals()


def _be_copier(
    launch: Launch, inheritance: Inheritance, copied: list[tuple[int, int, bytes]], gate: int, note: int
) -> None:
    """Never returns. Signals stay blocked: the run's end must not be lost with a shell's kill of all it started."""
    code = 1
    try:
        os.setsid()
        if (
            launch.namespace >= 0 and not launch.is_sealed
        ):  # files of the user's choice lie on the node, not in a container
            enter_namespace(launch.namespace)
        keep_only({gate, note, *(fd for pair in copied for fd in pair[:2])})
        inheritance.restore()
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        os.umask(launch.umask)
        if os.geteuid() == 0:
            os.setgroups(launch.groups)
            os.setresgid(launch.gid, launch.gid, launch.gid)
            os.setresuid(launch.uid, launch.uid, launch.uid)
        targets = _opened(launch, copied, gate)
        if targets:
            _copy_all(targets, note)
            code = 0
    finally:
        os._exit(code)


def _opened(launch: Launch, copied: list[tuple[int, int, bytes]], gate: int) -> dict[int, tuple[int, int]]:
    """By source: the file and the shim's pipe. Nothing when a file cannot be opened; the workload learns it either way."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (0 if launch.append else os.O_TRUNC)
    targets = {}
    path = launch.cwd
    try:
        os.chdir(path)
        for source, log, path in copied:
            targets[source] = (_open_patiently(path, flags, gate), log)
    except OSError as error:
        os.write(gate, f"{error.errno or 0} ".encode() + path)
        return {}
    os.write(gate, READY)
    os.close(gate)
    return targets


def _open_patiently(path: bytes, flags: int, gate: int) -> int:
    """The file; a named pipe as soon as somebody reads it. OSError as from open, and when the workload is gone before."""
    while True:
        try:
            fd = os.open(path, flags | os.O_NONBLOCK, 0o666)
        except OSError as error:
            if error.errno != errno.ENXIO or not _is_pipe(path):
                raise
        else:
            os.set_blocking(fd, True)
            return fd
        waits = select.poll()
        waits.register(gate, 0)
        if waits.poll(PIPE_PAUSE_MS):
            raise OSError(errno.EPIPE, "the workload is gone")


def _is_pipe(path: bytes) -> bool:
    return stat.S_ISFIFO(os.stat(path).st_mode)


def _copy_all(targets: dict[int, tuple[int, int]], note: int) -> None:
    """Until every source has ended, then the note. stderr is the last of the targets, or part of the only one."""
    poll = select.poll()
    for source in targets:
        poll.register(source, select.POLLIN)
    last = [*targets][-1]
    ends, is_midline = targets[last], False
    open_sources = set(targets)
    while open_sources:
        for source, _ in poll.poll():
            data = os.read(source, CHUNK_BYTES)
            if data:
                for target in targets[source]:
                    _put(target, data)
                is_midline = is_midline if source != last else not data.endswith(NEWLINE)
            else:
                poll.unregister(source)
                open_sources.remove(source)
                if source != last:
                    os.close(targets[source][1])
    said = b""
    while piece := os.read(note, CHUNK_BYTES):
        said += piece
    for target in ends if said else ():
        _put(target, (NEWLINE if is_midline else b"") + said)


def _put(target: int, data: bytes) -> None:
    """A full disk, a quota or a shim that is gone costs this copy, never the run."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(target, view) :]
    except OSError:
        return


def tell_copier(copier: int, line: bytes) -> None:
    """Tell a copier how the run ended, and that this was all; it may have gone, without its files or given up."""
    try:
        os.write(copier, line)
    except BrokenPipeError:
        return
    finally:
        os.close(copier)
