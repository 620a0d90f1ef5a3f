"""Scratch directories that outlive their run for a day, because their results could not be copied.

ROOT/kept/NUMBER.RUN        the directory, still its user's; ROOT/kept/NUMBER.RUN.img for one with a size of its own
ROOT/kept/NUMBER.RUN.json   why, and until when

What lies in memory is copied: memory that a run has left is for the next one.
"""

import asyncio
import contextlib
import errno
import logging
import os
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from lattice.agent.removal import SEARCHED, remove_tree
from lattice.agent.shim.output import replace_file

KEPT = "kept"
PART = ".part"  # of a copy that is not whole yet
KEEP_S = 24 * 3600.0
LOOK_EVERY_S = 600.0

_log = logging.getLogger(__name__)


class Note(msgspec.Struct, frozen=True, kw_only=True):
    until_s: float
    message: str


class KeptScratch:
    def __init__(self, root: Path, node: str, keep_s: float = KEEP_S) -> None:
        self._folder, self._node, self._keep_s = root / KEPT, node, keep_s

    def message_of(self, name: str) -> str | None:
        """What was said when it was kept; None when it was not."""
        note = _read(self._folder / f"{name}.json")
        return note.message if note is not None else None

    def keep(self, folder: Path, image: Path, owner: tuple[int, int], why: str) -> str:
        """`image` is its file system, where there is such a file. Moves it out of the way of the next run; returns what its user has to know. Raises OSError."""
        self._folder.mkdir(mode=0o711, exist_ok=True)
        os.chmod(self._folder, 0o711)  # noqa: S103 - users reach what is theirs, and list nothing
        has_image = image.exists()
        kept = self._folder / (image.name if has_image else folder.name)
        until_s = time.time() + self._keep_s
        when = datetime.fromtimestamp(until_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
        what = " (an ext4 file system)" if has_image else ""
        message = f"{why}; all of it is kept on node {self._node} in {kept}{what} until {when}"
        # The note first: a directory that is kept without one would never go.
        note = self._folder / f"{folder.name}.json"
        replace_file(str(note), msgspec.json.encode(Note(until_s=until_s, message=message)))
        self.move(folder, image, owner)
        return message

    def move(self, folder: Path, image: Path, owner: tuple[int, int]) -> None:
        """To where its note says that it is, unless it is there. Raises OSError."""
        if image.exists():
            os.chown(image, *owner)
            os.rename(image, self._folder / image.name)
        elif folder.exists() and not (self._folder / image.name).exists():
            if os.path.ismount(folder):
                _copy(folder, self._folder / folder.name)
            else:
                os.rename(folder, self._folder / folder.name)

    def sweep(self, now_s: float) -> int:
        """Removes what was kept long enough; returns how many."""
        count = 0
        for path in self._folder.glob("*.json"):
            note = _read(path)
            if note is not None and note.until_s > now_s:
                continue
            try:
                for kept in (path.with_suffix(""), path.with_suffix(".img"), path.with_suffix(PART)):
                    if kept.is_dir() and not kept.is_symlink():
                        remove_tree(kept)
                    else:
                        kept.unlink(missing_ok=True)
                path.unlink(missing_ok=True)
            except OSError as error:
                # Its note stays, so the next look tries again.
                _log.warning("%s cannot be removed: %s", path.with_suffix(""), error.strerror or error)
                continue
            count += 1
        return count


def _copy(folder: Path, kept: Path) -> None:
    """It has its name when it is whole. Raises OSError."""
    part = kept.with_name(f"{kept.name}{PART}")
    if part.exists():
        remove_tree(part)
    done = subprocess.run(
        ["cp", "-aT", "--", str(folder), str(part)], capture_output=True, check=False, env={"PATH": SEARCHED}
    )
    if done.returncode:
        remove_tree(part)
        raise OSError(errno.EIO, done.stderr.decode(errors="replace").strip()[-200:])
    os.rename(part, kept)


def _read(path: Path) -> Note | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Note)
    except (OSError, msgspec.MsgspecError):
        return None


async def sweep_kept(root: Path | None, node: str) -> None:
    """For as long as the agent runs."""
    while root is not None:
        with contextlib.suppress(OSError):
            if count := await asyncio.to_thread(KeptScratch(root, node).sweep, time.time()):
                _log.info("%d scratch directories were kept long enough: removed", count)
        await asyncio.sleep(LOOK_EVERY_S)
