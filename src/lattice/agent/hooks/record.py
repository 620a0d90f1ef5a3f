"""What the hooks of a run left behind: a file in its folder, replaced as a whole, so that a reader sees the old or the new one."""

import contextlib
import os
from pathlib import Path

import msgspec

from lattice.agent.hooks.protocol import Left

RECORD = "hooks.json"

_decoder = msgspec.json.Decoder(dict[str, dict[str, str]])


def read_record(folder: Path) -> dict[str, Left] | None:
    """By hook, in the order in which they prepared; empty when all is undone, None when there is none or it cannot be read."""
    try:
        return dict(_decoder.decode((folder / RECORD).read_bytes()))
    except (OSError, msgspec.DecodeError):
        return None


def write_record(folder: Path, record: dict[str, Left]) -> None:
    """Durable when it returns: what is made after it may need a power cut to be undone. Raises OSError."""
    draft = folder / f"{RECORD}.new"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, msgspec.json.encode(record))
        os.fsync(fd)
    finally:
        os.close(fd)
    draft.replace(folder / RECORD)


def close_record(folder: Path) -> None:
    """All is undone: an agent that comes after this one does not do it again. The folder may be gone already."""
    with contextlib.suppress(OSError):
        write_record(folder, {})
