"""The directory of a local cluster: names of its files, their permissions, and how they are written."""

import fcntl
import os
import stat
from pathlib import Path

from lattice_sdk.site.local_cluster import AGENT_TOKEN_FILE, CLUSTER_FILE, TOKEN_FILE, USERS_DIRECTORY

LOG_BYTES = 16 << 20
HINT = "choose another directory with --dir"
HINTS: dict[type[OSError], str] = {
    FileExistsError: "it is not a directory; choose one with --dir",
    NotADirectoryError: "it is not a directory; choose one with --dir",
    PermissionError: "it belongs to another user; choose a directory you own with --dir",
}


class Layout:
    """Paths below DIR; all absolute, without symbolic links, so that a process can be identified by its arguments."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.cluster_file = self.root / CLUSTER_FILE
        self.lock = self.root / "supervisor.lock"
        self.secret = self.root / "secret"
        self.token = self.root / TOKEN_FILE
        self.users = self.root / USERS_DIRECTORY  # tokens of further users, by name
        self.agent_token = self.root / AGENT_TOKEN_FILE
        self.server_config = self.root / "server.yaml"
        self.data = self.root / "data"
        self.endpoints = self.data / "endpoints.json"
        self.servers = self.root / "servers"  # of several servers
        self.authority = self.servers / "authority"
        self.objects = self.root / "objects"
        self.agents = self.root / "agents"
        self.images = self.root / "images"  # the registry; the user fills it
        self.mover_token = self.root / "mover.token"
        self.node_data = self.root / "node-data.yaml"
        self.tiers = self.root / "tiers"  # of data: hot for copies, warm for the user to fill
        self.cache = self.root / "cache"  # of images, shared by all nodes
        self.checkpoints = self.root / "checkpoints"  # of all work

    def log_of(self, role: str, name: str) -> Path:
        if role == "agent":
            return self.agents / f"{name}.log"
        return self.root / f"{role}.log" if name == role or role == "mover" else self.servers / f"{name}.log"

    def config_of(self, server: str) -> Path:
        return self.server_config if server == "server" else self.servers / server / "server.yaml"

    def data_of(self, server: str) -> Path:
        return self.data if server == "server" else self.servers / server / "data"

    def endpoints_of(self, server: str) -> Path:
        return self.data_of(server) / "endpoints.json"

    def server_names(self) -> list[str]:
        """Servers that have a directory, from this start or earlier ones; or the single server."""
        return ["server", *sorted(path.parent.name for path in self.servers.glob("*/server.yaml"))]

    def state_of(self, node: str) -> Path:
        return self.agents / node

    def topology_of(self, node: str) -> Path:
        """Beside its state directory: which GPUs of the machine the node offers."""
        return self.agents / f"{node}.topology.json"

    def nodes(self) -> list[str]:
        """Nodes that have a state directory, from this start or earlier ones."""
        try:
            return sorted(entry.name for entry in os.scandir(self.agents) if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return []

    def prepare(self) -> None:
        """Creates the directories, readable only by their owner; an existing one keeps its mode. Raises UntrustedFolder.

        Work of other accounts passes through that of the agents to what is its own there; no other user can list it.
        """
        self.root.parent.mkdir(parents=True, exist_ok=True)
        check_trusted(self.root)
        for folder in (self.root, self.data, self.objects):
            folder.mkdir(mode=0o700, exist_ok=True)
        self.agents.mkdir(mode=0o711, exist_ok=True)


class UntrustedFolder(OSError):
    """Another user could plant a secret there and become administrator of the cluster."""


def check_trusted(folder: Path) -> None:
    """Raises UntrustedFolder unless only this user (and root) controls what is at this path."""
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
                f"other users can write to {place} (mode {mode:04o}); run chmod go-w on it, or choose another --dir"
            )


def write_private(path: Path, data: bytes) -> None:
    """Replaces the file atomically; only its owner can ever read it."""
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
    """A descriptor that appends; a log that has grown large is rotated first."""
    if path.exists() and path.stat().st_size > LOG_BYTES:
        path.replace(path.with_name(f"{path.name}.1"))
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def take_lock(path: Path) -> int | None:
    """A descriptor that locks the cluster while it is open; None while another process holds the lock."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def told(error: OSError) -> str:
    text = error.strerror or str(error)
    return f"{text}: {error.filename}" if error.filename else text
