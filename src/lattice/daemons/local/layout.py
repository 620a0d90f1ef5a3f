"""The folder of a local cluster: names of its files, who may read them, and how they are written."""

import fcntl
import os
import stat
from pathlib import Path

from lattice.cli.local_cluster import AGENT_TOKEN_FILE, CLUSTER_FILE, TOKEN_FILE

LOG_BYTES = 16 << 20


class Layout:
    """Paths below DIR; all absolute, without symbolic links, so that a process is known by its arguments."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.cluster_file = self.root / CLUSTER_FILE
        self.lock = self.root / "supervisor.lock"
        self.secret = self.root / "secret"
        self.token = self.root / TOKEN_FILE
        self.agent_token = self.root / AGENT_TOKEN_FILE
        self.server_config = self.root / "server.yaml"
        self.data = self.root / "data"
        self.endpoints = self.data / "endpoints.json"
        self.servers = self.root / "servers"  # where there are several
        self.authority = self.servers / "authority"
        self.objects = self.root / "objects"
        self.agents = self.root / "agents"

    def log_of(self, role: str, name: str) -> Path:
        if role == "agent":
            return self.agents / f"{name}.log"
        return self.root / f"{role}.log" if name == role else self.servers / f"{name}.log"

    def config_of(self, server: str) -> Path:
        return self.server_config if server == "server" else self.servers / server / "server.yaml"

    def data_of(self, server: str) -> Path:
        return self.data if server == "server" else self.servers / server / "data"

    def endpoints_of(self, server: str) -> Path:
        return self.data_of(server) / "endpoints.json"

    def server_names(self) -> list[str]:
        """Servers that have a folder of their own, of this start or of earlier ones; the one that is alone."""
        return ["server", *sorted(path.parent.name for path in self.servers.glob("*/server.yaml"))]

    def state_of(self, node: str) -> Path:
        return self.agents / node

    def nodes(self) -> list[str]:
        """Nodes that have a state directory, of this start or of earlier ones."""
        try:
            return sorted(entry.name for entry in os.scandir(self.agents) if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return []

    def prepare(self) -> None:
        """Make the folders. One that exists keeps its mode; what we make is ours alone. Raises UntrustedFolder."""
        self.root.parent.mkdir(parents=True, exist_ok=True)
        check_trusted(self.root)
        for folder in (self.root, self.data, self.objects, self.agents):
            folder.mkdir(mode=0o700, exist_ok=True)


class UntrustedFolder(OSError):
    """Somebody else could put a secret of their own there, and be the cluster's administrator with it."""


def check_trusted(folder: Path) -> None:
    """Raises UntrustedFolder unless only this user (and root) decides what lies at this path."""
    own = os.geteuid()
    for place in (folder, *folder.parents):
        try:
            about = place.lstat()
        except FileNotFoundError:
            continue
        is_own = about.st_uid == own or (place != folder and about.st_uid == 0)
        if not is_own:
            raise UntrustedFolder(f"{place} belongs to another user (uid {about.st_uid}); choose another --dir")
        may_write = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if may_write and (place == folder or not about.st_mode & stat.S_ISVTX):
            mode = stat.S_IMODE(about.st_mode)
            raise UntrustedFolder(
                f"others may write in {place} (mode {mode:04o}); chmod go-w it, or choose another --dir"
            )


def write_private(path: Path, data: bytes) -> None:
    """Replace the file in one step; only its owner may read it, at any time."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(data)
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def open_log(path: Path) -> int:
    """A descriptor that appends; what was written before is put aside when it has grown large."""
    if path.exists() and path.stat().st_size > LOG_BYTES:
        path.replace(path.with_name(f"{path.name}.1"))
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def take_lock(path: Path) -> int | None:
    """A descriptor that holds the cluster for as long as it is open; None while another process holds it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd
