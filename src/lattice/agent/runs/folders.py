"""Run folders: the record that a start was accepted, and what is left of a run when everybody else forgot it."""

import contextlib
import fcntl
import os
import shutil
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec

from lattice.agent.runs.devices import NOTHING, Devices
from lattice.agent.shim_client import ShimRecord, read_status
from lattice.ports.nodes.agents import EarlySignal, RunKey, StartOrder

SPEC = "spec.json"
STATUS_DRAFT = "status.json.new"  # of the shim
TOKEN = "token"  # noqa: S105 - a file name
SCRIPT = "script"
ACKNOWLEDGED = "acknowledged"
STATUS = "status.json"  # the shim's
HOSTS = "hosts."  # files for `mpiexec`
STREAMS = ("stdout", "stderr")

# FS_IOC_GETFLAGS, FS_IOC_SETFLAGS and FS_TOPDIR_FL of linux/fs.h.
_GET_FLAGS, _SET_FLAGS, _FLAGS = 0x80086601, 0x40086602, struct.Struct("@l")
TOP_OF_HIERARCHY = 0x00020000

_encoder = msgspec.json.Encoder()


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """spec.json: what was asked, without its secrets, and which shim was to start it."""

    shim_id: str
    order: StartOrder
    devices: Devices = NOTHING


class _FormerOrder(msgspec.Struct, frozen=True):
    early: EarlySignal | None = None


class _FormerSpec(msgspec.Struct, frozen=True):
    """What release 0.1.0 called otherwise."""

    order: _FormerOrder


_decoder = msgspec.json.Decoder(RunSpec)
_former_decoder = msgspec.json.Decoder(_FormerSpec)


def read_spec(data: bytes) -> RunSpec:
    """The record, also one that an agent of release 0.1.0 left behind; raises msgspec.DecodeError."""
    spec = _decoder.decode(data)
    former = _former_decoder.decode(data).order
    if former.early is None or spec.order.early_signal is not None:
        return spec
    order = msgspec.structs.replace(spec.order, early_signal=former.early)
    return msgspec.structs.replace(spec, order=order)


class FoundRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run as its folder tells it."""

    key: RunKey
    order: StartOrder | None
    status: ShimRecord | None
    shim_id: str  # empty when the record is damaged: it was never completed then
    acknowledged_wall_s: float | None
    kept_bytes: int


class RunFolders:
    """The folders of one node's runs. `reachable` lets other accounts pass through to their own files."""

    def __init__(self, state_dir: Path, *, reachable: bool) -> None:
        self.state_dir = state_dir
        self._root = state_dir / "runs"
        self._runs = str(self._root)
        self._mode = 0o711 if reachable else 0o700
        make_apart(self._root)
        for folder in (state_dir, self._root):
            folder.chmod(self._mode)

    def path(self, key: RunKey) -> Path:
        return self._root / f"{key.number}.{key.run}"

    def create(self, order: StartOrder, owner: tuple[int, int], shim_id: str, devices: Devices = NOTHING) -> Path:
        """The run's folder with all that belongs into it before the start; OSError leaves nothing behind."""
        folder = f"{self._runs}/{order.key.number}.{order.key.run}"
        if order.attempt > 1 or order.instance:
            return self._reuse(folder, order, owner, shim_id, devices)
        os.mkdir(folder, self._mode)
        try:
            if stat.S_IMODE(os.stat(folder).st_mode) != self._mode:
                os.chmod(folder, self._mode)
            asked = msgspec.structs.replace(order, token="", script=b"")
            spec = RunSpec(shim_id=shim_id, order=asked, devices=devices)
            write_new(f"{folder}/{SPEC}", _encoder.encode(spec), 0o600, None)
            if order.token:
                write_new(f"{folder}/{TOKEN}", order.token.encode(), 0o600, owner)
            if order.script:
                write_new(f"{folder}/{SCRIPT}", order.script, 0o500, owner)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return Path(folder)

    def _reuse(self, folder: str, order: StartOrder, owner: tuple[int, int], shim_id: str, devices: Devices) -> Path:
        """The folder of an earlier attempt, or of an earlier instance, for the next one: its output continues, its token stays.

        The record of the new attempt comes before that of the old one's end goes: whenever the agent dies, one of them tells.
        """
        os.makedirs(folder, self._mode, exist_ok=True)
        os.chmod(folder, self._mode)
        is_next = order.attempt > 1
        for name, data, mode in ((TOKEN, order.token.encode(), 0o600), (SCRIPT, order.script, 0o500)):
            if data and not (is_next and os.path.exists(f"{folder}/{name}")):
                _replace(f"{folder}/{name}", data, mode, owner)
        spec = RunSpec(shim_id=shim_id, order=msgspec.structs.replace(order, token="", script=b""), devices=devices)
        _replace(f"{folder}/{SPEC}", _encoder.encode(spec), 0o600, None)
        made_again = [name for name in os.listdir(folder) if name.startswith(HOSTS)]
        for name in (*made_again, ACKNOWLEDGED, STATUS):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{folder}/{name}")
        return Path(folder)

    def whole_order(self, key: RunKey) -> StartOrder | None:
        """What was asked, with what only the run's own files hold; None when the folder does not say."""
        order = self.order(key)
        if order is None:
            return None
        secrets = {"token": "", "script": b""}
        with contextlib.suppress(OSError):
            secrets["token"] = (self.path(key) / TOKEN).read_text()
        with contextlib.suppress(OSError):
            secrets["script"] = (self.path(key) / SCRIPT).read_bytes()
        return msgspec.structs.replace(order, **secrets)

    def devices(self, key: RunKey) -> Devices:
        """Which devices the run was given; none when the record is damaged."""
        spec = self._spec(key)
        return spec.devices if spec else NOTHING

    def renew_token(self, key: RunKey, token: str) -> None:
        """Put a new token in the place of the old one, for the same owner; a run without one gets none.

        Readers see the old one or the new one.
        """
        path = self.path(key) / TOKEN
        try:
            old = path.stat()
        except FileNotFoundError:
            return
        draft = path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        write_new(draft, token.encode(), 0o600, (old.st_uid, old.st_gid))
        draft.replace(path)

    def acknowledge(self, key: RunKey) -> None:
        """Mark that the end needs no more reports; the marker's age decides on the removal.

        The token becomes the marker, once it is empty and ours. To remove the one and make the other is dear: ext4 gives
        no process an inode that was freed lately, and every new file has to step over all of those.
        """
        folder = f"{self._runs}/{key.number}.{key.run}"
        marker = f"{folder}/{ACKNOWLEDGED}"
        with contextlib.suppress(OSError):
            os.unlink(f"{folder}/{STATUS_DRAFT}")  # of a shim that was killed; a living one has written it by now
        try:
            fd = os.open(f"{folder}/{TOKEN}", os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            _make_marker(marker)
            return
        try:
            if os.fstat(fd).st_uid != os.geteuid():
                os.fchown(fd, os.geteuid(), os.getegid())
        finally:
            os.close(fd)
        os.rename(f"{folder}/{TOKEN}", marker)

    def clear_drafts(self, key: RunKey, *, shim_lives: bool) -> None:
        """Remove files that were half written when their writer was killed; what a living shim writes now is its own."""
        for draft in self.path(key).glob("*.new"):
            if not (shim_lives and draft.name == STATUS_DRAFT):
                with contextlib.suppress(OSError):
                    draft.unlink()

    def remove(self, key: RunKey) -> None:
        shutil.rmtree(self.path(key), ignore_errors=True)

    def discard(self, key: RunKey) -> Path:
        """Move the directory out of its place in one step; what it is called now, for `shutil.rmtree`."""
        aside = self._root / f".former-{key}-{os.urandom(4).hex()}"
        with contextlib.suppress(FileNotFoundError):
            self.path(key).rename(aside)
        return aside

    def size(self, key: RunKey) -> int:
        """Bytes on disk."""
        try:
            with os.scandir(f"{self._runs}/{key.number}.{key.run}") as entries:
                return sum(entry.stat(follow_symlinks=False).st_blocks * 512 for entry in entries)
        except FileNotFoundError:
            return 0

    def found(self) -> Iterator[FoundRun]:
        for name in sorted(os.listdir(self._root)):
            number, dot, run = name.partition(".")
            if dot and number.isdigit() and run.isdigit():
                yield self._found(RunKey(int(number), int(run)))

    def order(self, key: RunKey) -> StartOrder | None:
        """What was asked, without its secrets; None when the folder does not say."""
        spec = self._spec(key)
        return None if spec is None else spec.order

    def _spec(self, key: RunKey) -> RunSpec | None:
        try:
            return read_spec((self.path(key) / SPEC).read_bytes())
        except (OSError, msgspec.DecodeError):
            return None

    def _found(self, key: RunKey) -> FoundRun:
        folder = self.path(key)
        acknowledged_wall_s = None
        with contextlib.suppress(OSError):
            acknowledged_wall_s = (folder / ACKNOWLEDGED).stat().st_mtime
        spec = self._spec(key)
        return FoundRun(
            key=key,
            order=spec.order if spec else None,
            shim_id=spec.shim_id if spec else "",
            status=read_status(folder),
            acknowledged_wall_s=acknowledged_wall_s,
            kept_bytes=self.size(key),
        )


def make_apart(folder: Path) -> None:
    """Makes the folder, unless it is there, where ext4 keeps little else; others know no such wish.

    Without a journal ext4 gives no process an inode that was freed in the last minutes. A new file passes over all of those in its
    part of the disk: thousands in a folder of temporary files, and those of the runs of an agent that was removed. What lies in a folder
    with the attribute T (`chattr +T`) gets a part of its own, chosen by the name that it is made with.
    """
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):
        fd = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            (flags,) = _FLAGS.unpack(fcntl.ioctl(fd, _GET_FLAGS, bytes(_FLAGS.size)))
            fcntl.ioctl(fd, _SET_FLAGS, _FLAGS.pack(flags | TOP_OF_HIERARCHY))
        finally:
            os.close(fd)
    draft = folder.with_name(f".{folder.name}-{os.urandom(4).hex()}")
    draft.mkdir()
    draft.rename(folder)


def _make_marker(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _replace(path: str, data: bytes, mode: int, owner: tuple[int, int] | None) -> None:
    """The new file in the place of the old one, in one step."""
    draft = f"{path}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft)
    write_new(draft, data, mode, owner)
    os.rename(draft, path)


def write_new(path: str | Path, data: bytes, mode: int, owner: tuple[int, int] | None) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if owner is not None and owner != (os.geteuid(), os.getegid()):
            os.fchown(fd, *owner)
        if stat.S_IMODE(os.fstat(fd).st_mode) != mode:  # each change of an inode is a transaction of the file system
            os.fchmod(fd, mode)
    finally:
        os.close(fd)
