"""What a node mounts for one run: NFS exports that it does not have, and buckets, by FUSE.

Each lies below a folder of the run, from where the shim binds it into the run's own view of the file system; no process of another
run sees it there. The folder is recorded before anything is mounted, so that the agent, or the one after it, unmounts exactly that.
A bucket is mounted read-only: with a write cache, what was written shortly before the end never reaches the bucket.
"""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from lattice.agent.hooks.protocol import HookFailed, RunImpossible
from lattice.ports.nodes.agents import RunKey

NFS, S3 = "nfs://", "s3://"
SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
FILESYSTEMS = Path("/proc/filesystems")
FUSE = Path("/dev/fuse")
MOUNT_WITHIN_S = 60.0
LOOK_EVERY_S = 0.02
MAX_SAID = 300
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Export(Struct, frozen=True, kw_only=True):
    """`directory`: where this node has it; `address`: from where it is mounted otherwise."""

    directory: str = ""
    address: str = ""
    options: str = ""


class NodeBucket(Struct, frozen=True, kw_only=True):
    """A bucket and the key that opens it; never logged."""

    endpoint: str
    region: str
    key_id: str
    key_secret: str
    ca_file: str = ""

    def __repr__(self) -> str:
        return f"NodeBucket({self.endpoint!r})"


def can_mount_buckets() -> bool:
    return os.geteuid() == 0 and FUSE.exists() and shutil.which("rclone", path=SEARCHED) is not None


def has_nfs(filesystems: Path = FILESYSTEMS) -> bool:
    """Whether the kernel mounts NFS, or a module may be loaded for it."""
    try:
        if {"nfs", "nfs4"} & set(filesystems.read_text().split()):
            return True
    except OSError:
        return False
    return any(Path(f"/lib/modules/{os.uname().release}/kernel/fs/nfs").glob("nfs.ko*"))


class NodeMounts:
    """`folder` belongs to the agent."""

    def __init__(self, folder: Path, exports: Mapping[str, Export], buckets: Mapping[str, NodeBucket]) -> None:
        self._folder, self._exports, self._buckets = folder, exports, buckets

    def place(self, key: RunKey) -> Path:
        return self._folder / f"{key.number}.{key.run}"

    def is_mounted_for_run(self, source: str) -> bool:
        """Whether the node has to mount it: it leaves something that must be undone."""
        if source.startswith(S3):
            return True
        export = self._exports.get(_export_name(source))
        return export is not None and not (export.directory and os.path.isdir(export.directory))

    async def export(self, key: RunKey, source: str) -> str:
        """The path of nfs://NAME/path on this node. Raises HookFailed."""
        name = _export_name(source)
        below = source.removeprefix(f"{NFS}{name}")
        export = self._exports.get(name)
        if export is None:
            raise HookFailed(f"data: this node knows no export {name}")
        if not self.is_mounted_for_run(source):
            return f"{export.directory}{below}"
        if not export.address:
            raise HookFailed(f"data: this node does not have {export.directory}, where export {name} would be")
        if not has_nfs():
            raise HookFailed(f"data: the kernel of this node has no NFS, and {NFS}{name} is not mounted on it")
        target = await asyncio.to_thread(self._make, key, f"nfs-{name}")
        if not await asyncio.to_thread(_is_mounted, str(target)):
            options = ",".join(("nosuid", "nodev", *filter(None, (export.options,))))
            await _run(["mount", "-t", "nfs", "-o", options, export.address, str(target)], f"{NFS}{name}")
        return f"{target}{below}"

    async def bucket(self, key: RunKey, source: str, owner: tuple[int, int]) -> str:
        """Where the objects below s3://BUCKET/PREFIX are files of that owner. Raises HookFailed and RunImpossible."""
        name, _, prefix = source.removeprefix(S3).partition("/")
        bucket = self._buckets.get(name)
        program = shutil.which("rclone", path=SEARCHED)
        if bucket is None or program is None:
            what = "knows no key of it" if bucket is None else "has no rclone"
            raise HookFailed(f"data: this node cannot mount {source}: it {what}")
        target = await asyncio.to_thread(self._make, key, f"s3-{os.urandom(6).hex()}")
        words = [program, "mount", f":s3:{name}/{prefix}".rstrip("/"), str(target), "--config", "/dev/null"]
        words += ["--read-only", "--allow-other", "--default-permissions", "--umask", "0277", "--log-level", "ERROR"]
        words += ["--uid", str(owner[0]), "--gid", str(owner[1]), "--vfs-cache-mode", "off", "--dir-cache-time", "30s"]
        words += ["--ca-cert", bucket.ca_file] if bucket.ca_file else []
        await asyncio.to_thread(_serve, words, bucket, source, target)
        if not await asyncio.to_thread(os.listdir, target):
            raise RunImpossible(f"{source} has no objects")
        return str(target)

    def _make(self, key: RunKey, name: str) -> Path:
        """A folder to mount at. All may pass, so that the source is opened with the rights of the user; only root may list."""
        try:
            for folder in (self._folder, self.place(key), self.place(key) / name):
                folder.mkdir(mode=0o711, exist_ok=True)
        except OSError as error:
            raise HookFailed(f"data: cannot make a folder to mount at: {error.strerror}") from error
        return self.place(key) / name

    async def undo(self, key: RunKey) -> None:
        """Unmounts what was mounted for the run. Raises HookFailed when something stays."""
        place = self.place(key)
        if await asyncio.to_thread(os.path.isdir, place):
            await asyncio.to_thread(_clear, place)


def _serve(words: Sequence[str], bucket: NodeBucket, source: str, target: Path) -> None:
    """Starts the program that serves the mount, which outlives this agent as the run does. Raises HookFailed."""
    said = target.with_name(f"{target.name}.log")
    environment = {
        "PATH": SEARCHED,
        "HOME": "/nonexistent",
        "RCLONE_S3_PROVIDER": "Other" if bucket.endpoint else "AWS",
        "RCLONE_S3_ENDPOINT": bucket.endpoint,
        "RCLONE_S3_REGION": bucket.region,
        "RCLONE_S3_ACCESS_KEY_ID": bucket.key_id,
        "RCLONE_S3_SECRET_ACCESS_KEY": bucket.key_secret,
        "RCLONE_S3_NO_CHECK_BUCKET": "true",
    }
    with open(said, "wb") as errors:
        os.fchmod(errors.fileno(), 0o600)
        program = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
    until = time.monotonic() + MOUNT_WITHIN_S
    while not _is_mounted(str(target)):
        if program.poll() is not None or time.monotonic() > until:
            program.kill()
            program.wait()
            text = " ".join(said.read_text(errors="replace").split())[-MAX_SAID:]
            raise HookFailed(f"data: cannot mount {source}: {text or 'rclone did not answer'}")
        time.sleep(LOOK_EVERY_S)


def _export_name(source: str) -> str:
    return source.removeprefix(NFS).partition("/")[0]


async def _run(words: Sequence[str], what: str) -> None:
    program = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": SEARCHED, "LC_ALL": "C"},
    )
    try:
        _, said = await asyncio.wait_for(program.communicate(), MOUNT_WITHIN_S)
    except TimeoutError:
        program.kill()
        raise HookFailed(f"data: cannot mount {what} within {MOUNT_WITHIN_S:g} s") from None
    if program.returncode:
        text = " ".join(said.decode(errors="replace").split())[-MAX_SAID:]
        raise HookFailed(f"data: cannot mount {what}: {text}")


def _clear(place: Path) -> None:
    """No mount is ever emptied: what is not unmounted stays, and so does its folder. Raises HookFailed."""
    for entry in sorted(place.iterdir()):
        if entry.is_symlink() or not _NAME.fullmatch(entry.name):
            continue
        if entry.name.endswith(".log"):
            entry.unlink(missing_ok=True)
            continue
        for words in (["umount", str(entry)], ["umount", "-l", str(entry)]):
            if _is_mounted(str(entry)):
                subprocess.run(words, capture_output=True, check=False, env={"PATH": SEARCHED}, timeout=MOUNT_WITHIN_S)
        _end_server(str(entry))
        try:
            entry.rmdir()
        except OSError as error:
            raise HookFailed(f"data: cannot unmount {entry}: {error.strerror}") from error
    try:
        place.rmdir()
    except OSError as error:
        raise HookFailed(f"data: cannot remove {place}: {error.strerror}") from error


def _is_mounted(path: str) -> bool:
    """From the kernel's table: a server that is gone answers no question about its mount."""
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as table:
        return any(line.split(" ")[1] == path.replace(" ", "\\040") for line in table)


def _end_server(path: str) -> None:
    """The program that served the mount ends with it; one that hangs is ended here."""
    wanted = os.fsencode(path)
    until = time.monotonic() + 5.0
    number = signal.SIGTERM
    while pids := [pid for pid in _rclones() if wanted in _words(pid)]:
        if time.monotonic() > until:
            number = signal.SIGKILL
        for pid in pids:
            try:
                os.kill(pid, number)
                os.waitpid(pid, os.WNOHANG)
            except (ProcessLookupError, ChildProcessError):
                continue
        time.sleep(LOOK_EVERY_S)


def _rclones() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _words(int(name))[1:2] == [b"mount"]]


def _words(pid: int) -> list[bytes]:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []
    return words if words[0].endswith(b"/rclone") else []
