"""The layers of an OCI image made into one squashfs file, without a single file of them on the node's disk.

The layers are read twice: first their names, to learn what is seen in the end, then their contents, which go as one tar stream to
`mksquashfs`. Nothing is unpacked, so no name, link or device of a hostile layer can touch the node.
"""

import contextlib
import gzip
import io
import os
import subprocess
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import zstandard

from lattice.images.layers import (
    DIRECTORY,
    FILE,
    HARDLINK,
    MAX_MEMBERS,
    MAX_NAMES,
    SYMLINK,
    Member,
    Tree,
    checked_link,
    plain_path,
)
from lattice.images.oci import GZIP, ZSTD
from lattice.images.squashfs import BadImage

MKSQUASHFS = "mksquashfs"
MAX_HEADER = 1 << 20  # of one entry: long names and attributes
MAX_UNPACKED = 1 << 40
CHUNK = 1 << 20
MAX_SAID = 400
# How much larger than its stored form a layer may be: real software stays below 20.
MAX_RATIO = 200
SPARE = 1 << 30
# Small files that a container needs to know of before it is mounted.
KEPT = frozenset({"etc/passwd", "etc/group"})
MAX_KEPT = 1 << 20
_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_SHELL = "/bin/sh"
# ulimit counts blocks of 512 bytes.
_BOUNDED = 'ulimit -f "$1" && shift && exec "$@"'


class UnpackingFailed(Exception):
    """The node could not make the file; the text is for the user."""


class Layer(NamedTuple):
    path: Path
    packing: str


class _Header(tarfile.TarInfo):
    """Refuses headers that would fill the memory before anybody has looked at them."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _HEADERS and self.size > MAX_HEADER:
            raise BadImage("a layer has a header that is too large")
        return cast("tarfile.TarInfo", super()._proc_member(archive))  # type: ignore[misc]


class _Counted(io.RawIOBase):
    """The unpacked bytes of a layer, as far as they may be."""

    def __init__(self, source: IO[bytes], most: int, is_stopped: Callable[[], bool]) -> None:
        self._source = source
        self._left = most
        self._is_stopped = is_stopped

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._is_stopped():
            raise UnpackingFailed("the fetch was stopped")
        data = self._source.read(min(size, CHUNK) if size >= 0 else CHUNK)
        self._left -= len(data)
        if self._left < 0:
            raise BadImage("a layer unpacks to far more than its size: it may have been made to fill the disk")
        return data


@contextlib.contextmanager
def _entries(layer: Layer, is_stopped: Callable[[], bool]) -> Iterator[tarfile.TarFile]:
    most = min(MAX_UNPACKED, layer.path.stat().st_size * MAX_RATIO + SPARE)
    try:
        with open(layer.path, "rb") as file:
            source: IO[bytes] = file
            if layer.packing == GZIP:
                source = cast("IO[bytes]", gzip.GzipFile(fileobj=file))
            elif layer.packing == ZSTD:
                source = cast("IO[bytes]", zstandard.ZstdDecompressor().stream_reader(file))
            counted = cast("IO[bytes]", _Counted(source, most, is_stopped))
            with tarfile.open(fileobj=counted, mode="r|", tarinfo=_Header, errors="surrogateescape") as archive:
                yield archive
    except (tarfile.TarError, zlib.error, EOFError, zstandard.ZstdError, ValueError, OverflowError) as error:
        raise BadImage(f"a layer is damaged: {error}") from error
    except OSError as error:
        # Without a number it is of the format, not of the disk: gzip and tarfile raise it for bytes that they do not understand.
        if error.errno is None:
            raise BadImage(f"a layer is damaged: {error}") from error
        raise


def _forget(archive: tarfile.TarFile) -> None:
    """An archive keeps every entry that it has seen."""
    archive.members = []  # type: ignore[attr-defined]


class _Bounded(io.RawIOBase):
    """What goes to `mksquashfs`, as far as it may be: the holes of a sparse file are no bytes of its layer."""

    def __init__(self, target: IO[bytes], most: int, is_stopped: Callable[[], bool]) -> None:
        self._target = target
        self._left = most
        self._is_stopped = is_stopped

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        if self._is_stopped():
            raise UnpackingFailed("the fetch was stopped")
        self._left -= len(data)
        if self._left < 0:
            raise BadImage("it unpacks to far more than its size: it may have been made to fill the disk")
        return self._target.write(data)


class _Names:
    """How many entries there may still be, and how long their names, over all layers: they are kept in memory."""

    def __init__(self) -> None:
        self._members, self._characters = MAX_MEMBERS, MAX_NAMES

    def take(self, info: tarfile.TarInfo) -> None:
        self._members -= 1
        self._characters -= len(info.name) + len(info.linkname)
        if self._members < 0:
            raise BadImage(f"it has more than {MAX_MEMBERS:,} files")
        if self._characters < 0:
            raise BadImage(f"the names of its files have more than {MAX_NAMES:,} characters")


def _members(number: int, archive: tarfile.TarFile, names: _Names) -> Iterator[Member]:
    for place, info in enumerate(archive):
        names.take(info)
        _forget(archive)
        path = plain_path(info.name)
        if info.isdir():
            yield Member(path, DIRECTORY, number, place)
        elif info.issym():
            yield Member(path, SYMLINK, number, place, checked_link(path, info.linkname))
        elif info.islnk():
            yield Member(path, HARDLINK, number, place, plain_path(info.linkname))
        elif info.isreg():
            yield Member(path, FILE, number, place)
        elif info.ischr() or info.isblk():
            # Some builders wrote removed files like this; as a device it would be of no use, since images are mounted without them.
            if (info.devmajor, info.devminor) != (0, 0):
                raise BadImage(f"it holds the device {path[:80]}: an image may hold none")
        elif not info.isfifo():
            raise BadImage(f"{path[:80]} is of a kind that an image may not hold")


def merge(layers: Sequence[Layer], is_stopped: Callable[[], bool]) -> dict[int, dict[int, list[tuple[str, Member]]]]:
    """What is seen in the end: by layer and place in it, the paths that have this entry's content. Raises BadImage."""
    tree, names = Tree(), _Names()
    originals: dict[int, dict[str, int]] = {}
    for number, layer in enumerate(layers):
        with _entries(layer, is_stopped) as archive:
            members = list(_members(number, archive, names))
        originals[number] = {each.path: each.place for each in members if each.kind == FILE}
        # A link to a link is a link to the file.
        for each in members:
            if each.kind == HARDLINK and each.target in originals[number]:
                originals[number].setdefault(each.path, originals[number][each.target])
        tree.add_layer(members)
    chosen: dict[int, dict[int, list[tuple[str, Member]]]] = {}
    for path, member in tree.shown():
        place = member.place
        if member.kind == HARDLINK:
            if member.target not in originals[member.layer]:
                raise BadImage(f"{path[:80]} is a link to a file that its layer does not hold")
            place = originals[member.layer][member.target]
        chosen.setdefault(member.layer, {}).setdefault(place, []).append((path, member))
    return chosen


def _write_all(layers: Sequence[Layer], target: IO[bytes], is_stopped: Callable[[], bool]) -> dict[str, bytes]:
    chosen = merge(layers, is_stopped)
    kept: dict[str, bytes] = {}
    most = min(MAX_UNPACKED, sum(layer.path.stat().st_size for layer in layers) * MAX_RATIO + SPARE)
    bounded = cast("IO[bytes]", _Bounded(target, most, is_stopped))
    with tarfile.open(fileobj=bounded, mode="w|", format=tarfile.PAX_FORMAT, errors="surrogateescape") as out:
        for number, layer in enumerate(layers):
            wanted = chosen.get(number, {})
            if not wanted:
                continue
            with _entries(layer, is_stopped) as archive:
                for place, info in enumerate(archive):
                    _forget(archive)
                    _forget(out)
                    for path in _copies(wanted.get(place, ())):
                        _write_one(out, archive, info, path, kept)
    return kept


def _copies(found: Sequence[tuple[str, Member]]) -> Iterator[tuple[str, str]]:
    """The path that gets the content, then links to it."""
    first = ""
    for path, _ in found:
        yield path, first
        first = first or path


def _write_one(
    out: tarfile.TarFile,
    archive: tarfile.TarFile,
    info: tarfile.TarInfo,
    copy: tuple[str, str],
    kept: dict[str, bytes],
) -> None:
    path, link = copy
    entry = tarfile.TarInfo(path)
    # Owners and set-id bits mean nothing here: the image is mounted without them, and belongs to root.
    entry.mode = info.mode & (0o1777 if info.isdir() else 0o777)
    entry.mtime = max(0, int(info.mtime))
    entry.type = info.type
    if link:
        entry.type, entry.linkname = tarfile.LNKTYPE, link
        out.addfile(entry)
    elif info.issym():
        entry.linkname = info.linkname
        out.addfile(entry)
    elif info.isdir():
        out.addfile(entry)
    else:
        entry.type, entry.size = tarfile.REGTYPE, info.size
        content = cast("IO[bytes]", archive.extractfile(info))
        if path in KEPT and info.size <= MAX_KEPT:
            kept[path] = content.read()
            content = io.BytesIO(kept[path])
        out.addfile(entry, content)


def make_squashfs(
    layers: Sequence[Layer],
    target: Path,
    room: int,
    is_stopped: Callable[[], bool],
    moved: Callable[[], None] = lambda: None,
) -> dict[str, bytes]:
    """Writes the file, at most `room` bytes of it; the contents of KEPT. `moved` is called while it gets on.

    Raises BadImage and UnpackingFailed.
    """

    def watched() -> bool:
        moved()
        return is_stopped()

    target.unlink(missing_ok=True)
    command = [MKSQUASHFS, "-", str(target), "-tar", "-noappend", "-quiet", "-no-progress", "-no-xattrs", "-all-root"]
    command += ["-comp", "zstd", "-Xcompression-level", "3", "-mem", "256M", "-root-mode", "755"]
    process: subprocess.Popen[bytes] = subprocess.Popen(
        [_SHELL, "-c", _BOUNDED, _SHELL, str(max(1, room // 512)), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ.get("PATH") or os.defpath, "LC_ALL": "C"},
        cwd="/",
    )
    pipe = cast("IO[bytes]", process.stdin)
    done, kept = False, dict[str, bytes]()
    try:
        kept = _write_all(layers, pipe, watched)
        pipe.close()
        done = process.wait() == 0
    except BrokenPipeError:
        done = False
    finally:
        with contextlib.suppress(OSError):
            pipe.close()
        if not done:
            process.kill()
        said = cast("IO[Any]", process.stderr).read(MAX_SAID)
        process.wait()
        cast("IO[Any]", process.stderr).close()
        if not done:
            target.unlink(missing_ok=True)
    if not done:
        why = said.decode("utf-8", "replace").strip().splitlines()
        raise UnpackingFailed(
            f"cannot unpack the image on this node: {why[-1] if why else 'it does not fit into the cache'}"
        )
    return kept
