"""Snapshots of the state as directories: `INDEX/manifest.json`, which lists the chunk files with their hashes.

A directory is written under a temporary name, made durable, then renamed: one with a number for a name is complete. The hashes
reveal later damage, and an older snapshot is used instead.
"""

import hashlib
import logging
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lattice.core.machine.codec import LevelTooHigh, UnreadableBatch, decode_state_chunks, encode_state_chunks
from lattice.core.machine.levels import OLDEST
from lattice.core.machine.state import FrozenView, State
from lattice.quorum.durable import sync_folder, write_private

FORMAT_VERSION = 1
_MANIFEST = "manifest.json"
_BREATH_S = 0.0005

_log = logging.getLogger(__name__)


class SnapshotDamaged(Exception):
    """A snapshot is unusable; another one may be intact."""


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a snapshot."""

    name: str
    sha256: str
    size: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a snapshot consists of."""

    format: int
    index: int
    digest: str
    chunks: tuple[Chunk, ...]
    level: int = OLDEST  # that a server must support to read it


@dataclass(frozen=True, slots=True)
class Written:
    """A finished snapshot, as the log records it; `sha256` is that of the manifest, which names all other hashes."""

    index: int
    digest: str
    sha256: str
    size: int
    level: int


class SnapshotFolder:
    """The snapshots of one server. Methods block: call them in a thread."""

    def __init__(self, path: Path, keep: int = 5) -> None:
        self._path = path
        self._keep = keep

    def path(self, index: int) -> Path:
        return self._path / str(index)

    def indexes(self) -> list[int]:
        """The indexes of all complete snapshots, oldest first."""
        if not self._path.is_dir():
            return []
        names = (entry.name for entry in self._path.iterdir())
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    def write(self, index: int, view: FrozenView) -> Written:
        """Writes a snapshot durably and removes those beyond the newest few."""
        self._path.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self._path / f".{index}.{os.getpid()}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        try:
            written = _write_folder(draft, index, view)
            final = self._path / str(index)
            shutil.rmtree(final, ignore_errors=True)
            draft.rename(final)
            sync_folder(self._path)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        self._remove_old()
        return written

    def load(self, index: int) -> State:
        """The state of that snapshot; SnapshotDamaged when it does not match its hashes, LevelTooHigh when it is too new."""
        folder = self._path / str(index)
        try:
            manifest = msgspec.json.decode((folder / _MANIFEST).read_bytes(), type=Manifest)
            if manifest.format > FORMAT_VERSION:
                raise SnapshotDamaged(f"{folder}: format {manifest.format} is newer than {FORMAT_VERSION}")
            if manifest.index != index:
                raise SnapshotDamaged(f"{folder}: its manifest is that of snapshot {manifest.index}")
            state = decode_state_chunks(_checked_chunks(folder, manifest))
        except LevelTooHigh:
            raise  # not damaged: an older snapshot would be followed by entries that cannot be read either
        except (OSError, msgspec.MsgspecError, UnreadableBatch) as error:
            raise SnapshotDamaged(f"{folder}: {error}") from error
        if state.digest() != manifest.digest:
            raise SnapshotDamaged(f"{folder}: the digest of the state does not match its manifest")
        return state

    def is_whole(self, index: int) -> bool:
        """Whether every file of that snapshot matches its hash; the state is not loaded."""
        folder = self._path / str(index)
        try:
            manifest = msgspec.json.decode((folder / _MANIFEST).read_bytes(), type=Manifest)
            return manifest.index == index and all(True for _ in _checked_chunks(folder, manifest))
        except (OSError, msgspec.MsgspecError, SnapshotDamaged) as error:
            _log.error("cannot use snapshot %d: %s", index, error)
            return False

    def put_aside(self, last: int) -> None:
        """Moves snapshots after an entry aside; they stay beside the others under another name."""
        for index in self.indexes():
            if index > last:
                aside = self._path / f"{index}.lost"
                shutil.rmtree(aside, ignore_errors=True)
                (self._path / str(index)).rename(aside)

    def newest(self, at_least: int, at_most: int | None = None) -> tuple[int, State] | None:
        """The newest intact snapshot between `at_least` and `at_most`; None if there is none."""
        for index in reversed(self.indexes()):
            if index < at_least:
                break
            if at_most is not None and index > at_most:
                continue
            try:
                return index, self.load(index)
            except SnapshotDamaged as error:
                _log.error("cannot use a snapshot, trying the previous one: %s", error)
        return None

    def remove_drafts(self) -> None:
        """Removes what an interrupted write left behind."""
        if self._path.is_dir():
            for entry in self._path.iterdir():
                if entry.name.startswith("."):
                    shutil.rmtree(entry, ignore_errors=True)

    def _remove_old(self) -> None:
        for index in self.indexes()[: -self._keep]:
            shutil.rmtree(self._path / str(index), ignore_errors=True)


def _write_folder(folder: Path, index: int, view: FrozenView) -> Written:
    chunks = []
    for name, data in encode_state_chunks(view):
        write_private(folder / name, data)
        chunks.append(Chunk(name=name, sha256=hashlib.sha256(data).hexdigest(), size=len(data)))
        # The event loop's thread waits for the interpreter lock while a chunk is encoded: yield to it.
        time.sleep(_BREATH_S)
    manifest = Manifest(format=FORMAT_VERSION, index=index, digest=view.digest, chunks=tuple(chunks), level=view.level)
    data = msgspec.json.format(msgspec.json.encode(manifest))
    write_private(folder / _MANIFEST, data)
    sync_folder(folder)
    size = sum(chunk.size for chunk in chunks)
    return Written(index, view.digest, hashlib.sha256(data).hexdigest(), size, view.level)


def _checked_chunks(folder: Path, manifest: Manifest) -> Iterator[tuple[str, bytes]]:
    for chunk in manifest.chunks:
        if "/" in chunk.name or not chunk.name.isprintable():
            raise SnapshotDamaged(f"{folder}: {chunk.name!r} is not the name of a chunk")
        data = (folder / chunk.name).read_bytes()
        if hashlib.sha256(data).hexdigest() != chunk.sha256:
            raise SnapshotDamaged(f"{folder / chunk.name} does not match its hash")
        yield chunk.name, data
