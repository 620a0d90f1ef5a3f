"""Files that survive a power cut and are readable only by their owner. Used by the log, the archive and the snapshots."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Makes created, renamed or removed names in the directory durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def create_private(path: Path) -> None:
    """Ensures that the file exists; a new one is empty and readable only by its owner."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    sync_folder(path.parent)


def write_private(path: Path, data: bytes) -> None:
    """Writes a new file durably; its name becomes durable with `sync_folder`."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)
