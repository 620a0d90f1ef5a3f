"""The images of a node, each under its digest: fetched once, however many runs wait for it, and never mounted unverified.

    CACHE/uenv/DIGEST.squashfs   the image
    CACHE/uenv/DIGEST.json       what it is called, when it was used last, in which boot of the node its bytes were verified
    CACHE/uenv/DIGEST.json.PID.* the same, on its way
    CACHE/uenv/DIGEST.part       an image on its way, locked by its fetcher
    CACHE/uenv/DIGEST.blob       what has come of an image of a registry so far; the next fetch continues from there
    CACHE/uenv/DIGEST.unpack/    the layers of an OCI image on its way; its digest is that of the manifest

An image is in use while a loop device lies over it, or while the process that serves it holds a lock on it; the kernel tells, so that no
crash leaves a pin behind. Functions here wait for disks and locks and are called in threads.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import shutil
import string
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from lattice.agent.images.eviction import Cached, Room, fits, to_evict
from lattice.agent.images.layouts import BlobStore, LayoutBlobs, RegistryBlobs, Unpacked, blob_order, unpack
from lattice.agent.images.pulling import Pull
from lattice.agent.images.sources import FetchStopped, Reader, SourceFailed, identify, read_pieces
from lattice.agent.images.unpacking import UnpackingFailed
from lattice.images.containers import OCI
from lattice.images.squashfs import BadImage
from lattice.ports.nodes.blobs import BlobRefused, BlobSource, BlobUnavailable
from lattice.ports.nodes.images import ImageOrder

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
LOOPS = Path("/sys/block")
MAX_KNOWN_FILES = 10_000
DEFAULT_MIN_FREE = 1 << 30
SHARE_OF_DISK = 0.8
EVICT_TRIES, EVICT_PAUSE_S = 25, 0.02  # half a second
HELD_S = 300.0  # between the fetch and the mount of an image nothing else shows that it is needed
_DIGEST = re.compile(r"[0-9a-f]{64}")
MIN_DIGITS = 8  # of a digest that names an image
UNPACKING = ".unpack"
COMING = ".blob"
KEEP_COMING_S = 86400.0  # what came of an image that no run waits for any more
NO_REGISTRIES = "this node takes no images from registries"

Progress = Callable[[int, int], None]  # bytes so far, and all that there will be; 0 = not known


class WrongDigest(Exception):
    """The bytes are not those that were asked for; the text is for the user."""


class CacheFull(Exception):
    """There is no room for the image on this node; the text is for the user."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """DIGEST.json."""

    reference: str
    size: int
    used_s: float
    boot_id: str = ""
    file: str = ""  # which file was verified: one that was written since then is not it any more
    sticky: bool = False
    unpacked: Unpacked | None = None  # of an OCI image


_decoder = msgspec.json.Decoder(Entry)
_encoder = msgspec.json.Encoder()


class ImageCache:
    """`min_free` bytes of the disk are left to others; all images together have at most `capacity` bytes, 0 = a share of the disk."""

    def __init__(
        self,
        root: Path,
        min_free: int = DEFAULT_MIN_FREE,
        now_s: Callable[[], float] = time.time,
        remote: BlobSource | None = None,
        capacity: int = 0,
    ) -> None:
        self._folder = root / "uenv"
        self._remote = remote
        self._capacity = capacity
        self._min_free = min_free
        self._now_s = now_s
        self._boot_id = BOOT_ID.read_text().strip()
        self._known_files: dict[tuple[str, int], str] = {}  # who opened which file, and the digest of its bytes

    def prepare(self) -> None:
        """Make the folder, closed to others, and remove what fetches that died left in it. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        for part in self._folder.glob("*.part"):
            with contextlib.suppress(OSError, BlockingIOError), open(part, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()
        for draft in self._folder.glob("*.json.*"):
            if not Path("/proc", draft.name.split(".")[2]).exists():  # who wrote it
                draft.unlink(missing_ok=True)
        for left in (*self._folder.glob(f"*{UNPACKING}"), *self._folder.glob(f"*{COMING}")):
            with contextlib.suppress(OSError):  # another agent of this machine may clear up at the same time
                if not left.with_suffix(".part").exists() and self._now_s() - left.stat().st_mtime > KEEP_COMING_S:
                    _remove(left)

    def path(self, digest: str) -> Path:
        return self._folder / f"{digest}.squashfs"

    def obtain(
        self,
        image: ImageOrder,
        reader: Reader,
        is_stopped: Callable[[], bool] = lambda: False,
        progress: Progress = lambda done, total: None,
    ) -> Path:
        """The image's file, verified in this boot, with bytes that the reader may read.

        Raises SourceFailed, WrongDigest, BadImage, CacheFull, BlobUnavailable, FetchStopped and OSError.
        """
        path = self.path(image.digest)
        with self._alone(image.digest, is_stopped) as part:
            unpacked = None
            if not self._is_good(image, path):
                made, unpacked = self._bring(image, reader, part, is_stopped, progress)
                made.chmod(0o400)
                made.replace(path)
                shutil.rmtree(part.with_suffix(UNPACKING), ignore_errors=True)
            elif image.by_user:
                for each in self._files_of(image):
                    self._check_reader(each, reader, is_stopped)
            self._note(image, path, unpacked)
        return path

    def unpacked(self, digest: str) -> Unpacked:
        """What an OCI image says of itself; nothing for other images."""
        entry = self._entry(digest)
        return Unpacked() if entry is None or entry.unpacked is None else entry.unpacked

    def _bring(
        self, image: ImageOrder, reader: Reader, part: Path, is_stopped: Callable[[], bool], progress: Progress
    ) -> tuple[Path, Unpacked | None]:
        # Layers and the file that is made of them are there at the same time.
        self._make_room(image, image.size * 2 if image.kind == OCI else image.size)
        if image.kind != OCI and _is_remote(image):
            return self._pull(image, part.with_suffix(COMING), is_stopped, progress), None
        if image.kind != OCI:
            self._fetch(image, reader, part, is_stopped, progress)
            return part, None
        folder = part.with_suffix(UNPACKING)
        try:
            return unpack(image, self._blobs(image, reader, is_stopped), folder, self._room(), is_stopped, progress)
        except (BlobUnavailable, FetchStopped) as error:
            if not _is_remote(image) or isinstance(error, BlobRefused):
                shutil.rmtree(folder, ignore_errors=True)
            raise  # what has come is kept for the next fetch
        except UnpackingFailed as error:
            shutil.rmtree(folder, ignore_errors=True)
            if is_stopped():
                raise FetchStopped from error
            raise CacheFull(f"{image.reference}: {error}") from error
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, BadImage):
                raise BadImage(f"{image.reference}: {error}") from error
            raise

    def _blobs(self, image: ImageOrder, reader: Reader, is_stopped: Callable[[], bool]) -> BlobStore:
        if not _is_remote(image):
            return LayoutBlobs(image, reader, is_stopped)
        if self._remote is None:
            raise BlobUnavailable(NO_REGISTRIES)
        return RegistryBlobs(image, Pull(self._remote, is_stopped))

    def _pull(self, image: ImageOrder, path: Path, is_stopped: Callable[[], bool], progress: Progress) -> Path:
        """A squashfs file behind a URL."""
        if self._remote is None:
            raise BlobUnavailable(NO_REGISTRIES)
        done = 0

        def count(size: int) -> None:
            nonlocal done
            done += size
            progress(done, image.size)

        try:
            Pull(self._remote, is_stopped).fetch(image.source, image.digest, image.size or self._room(), path, count)
        except BlobRefused:
            path.unlink(missing_ok=True)
            raise
        except BadImage as error:
            raise WrongDigest(f"{image.reference}: {error}") from error
        with open(path, "rb") as file:
            os.fsync(file.fileno())
        return path

    def _files_of(self, image: ImageOrder) -> list[ImageOrder]:
        """What somebody must be able to read who wants to have the image."""
        return (
            [blob_order(image, digest) for digest in self.unpacked(image.digest).blobs]
            if image.kind == OCI
            else [image]
        )

    def entries(self) -> dict[str, Entry]:
        """What is there, by digest."""
        found = {}
        for path in sorted(self._folder.glob("*.squashfs")):
            with contextlib.suppress(OSError):
                entry = self._entry(path.stem)
                found[path.stem] = entry or Entry(reference="", size=path.stat().st_size, used_s=path.stat().st_mtime)
        return found

    def changed_ns(self) -> int:
        """When something came or went last, as the file system dates it. Raises OSError."""
        return self._folder.stat().st_mtime_ns

    def newest(self, most: int) -> list[str]:
        """Digests of images that are there, at most this many: those that were used last. Raises OSError."""
        found = [path.stem for path in self._folder.glob("*.squashfs") if _DIGEST.fullmatch(path.stem)]
        return found if len(found) <= most else sorted(found, key=self._used_ns, reverse=True)[:most]

    def _used_ns(self, digest: str) -> int:
        """It is written whenever the image is used."""
        try:
            return (self._folder / f"{digest}.json").stat().st_mtime_ns
        except OSError:
            return 0

    def in_use(self) -> set[str]:
        """Digests of images that are mounted on this machine now."""
        digests = {path.stem for path in self._folder.glob("*.squashfs") if _is_locked(path)}
        for file in LOOPS.glob("loop*/loop/backing_file"):
            with contextlib.suppress(OSError):
                backing = Path(file.read_text().strip())
                if backing.parent == self._folder:
                    digests.add(backing.stem)
        return digests

    @contextlib.contextmanager
    def _alone(self, digest: str, is_stopped: Callable[[], bool]) -> Iterator[Path]:
        """The place of an image on its way, held by one fetcher at a time, in this process or another."""
        part = self._folder / f"{digest}.part"
        while True:
            fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                _lock(fd, is_stopped)
                # The one who held it may have finished or removed it while we waited.
                if _is_same(fd, part):
                    try:
                        yield part
                    finally:
                        part.unlink(missing_ok=True)
                    return
            finally:
                os.close(fd)

    def _is_good(self, image: ImageOrder, path: Path) -> bool:
        if not path.exists():
            return False
        entry = self._entry(image.digest)
        is_whole = entry is not None and (image.kind != OCI or entry.unpacked is not None)
        if is_whole and entry is not None and (entry.boot_id, entry.file) == (self._boot_id, _mark(path)):
            return True
        wanted = image.digest if image.kind != OCI else (entry.unpacked.content if entry and entry.unpacked else "")
        with open(path, "rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() == wanted:
                return True
        path.unlink()
        return False

    def _fetch(
        self, image: ImageOrder, reader: Reader, part: Path, is_stopped: Callable[[], bool], progress: Progress
    ) -> None:
        digest, size = hashlib.sha256(), 0
        before = identify(image.source, reader) if image.by_user else ""
        with open(part, "r+b") as target:
            target.truncate()
            for chunk in read_pieces(image, reader, is_stopped):
                digest.update(chunk)
                size += len(chunk)
                if size > self._room():
                    raise CacheFull(f"no room for {image.reference} on this node")
                target.write(chunk)
                progress(size, image.size)
            target.flush()
            os.fsync(target.fileno())
        self._compare(image, digest.hexdigest())
        self._know_file(before, reader, image.digest)

    def _check_reader(self, image: ImageOrder, reader: Reader, is_stopped: Callable[[], bool]) -> None:
        """The bytes are here, but only who may read them elsewhere may have them: knowing their digest is not enough."""
        file = identify(image.source, reader)
        if self._known_files.get((file, reader.uid)) == image.digest:
            return
        digest = hashlib.sha256()
        for chunk in read_pieces(image, reader, is_stopped):
            digest.update(chunk)
        self._compare(image, digest.hexdigest())
        self._know_file(file, reader, image.digest)

    def _know_file(self, file: str, reader: Reader, digest: str) -> None:
        if file:
            if len(self._known_files) >= MAX_KNOWN_FILES:
                self._known_files.clear()
            self._known_files[file, reader.uid] = digest

    @staticmethod
    def _compare(image: ImageOrder, found: str) -> None:
        if found == image.digest:
            return
        why = "it was changed since the work was submitted" if image.by_user else "the registry has other bytes now"
        raise WrongDigest(
            f"{image.source} does not have the digest sha256:{image.digest} but sha256:{found}: {why}; submit again"
        )

    def space(self) -> tuple[int, int]:
        """Bytes that all images together may have, and those that are free on the disk."""
        usage = shutil.disk_usage(self._folder)
        return self._capacity or int(usage.total * SHARE_OF_DISK), usage.free

    def idle_s(self, entry: Entry) -> float:
        return max(0.0, self._now_s() - entry.used_s)

    def find(self, name: str) -> list[str]:
        """Digests of images that are called so: by reference, with or without digest, or by the first digits of their digest."""
        start = name.removeprefix("@").removeprefix("sha256:")
        is_digest = len(start) >= MIN_DIGITS and set(start) <= set(string.hexdigits.lower())
        return [
            digest
            for digest, entry in self.entries().items()
            if name in (entry.reference, entry.reference.partition("@sha256:")[0])
            or (is_digest and digest.startswith(start))
        ]

    def pin(self, digest: str, *, pinned: bool) -> None:
        """An image that is pinned is never evicted. Raises OSError."""
        entry = self._entry(digest)
        path = self.path(digest)
        if entry is None:
            entry = Entry(reference="", size=path.stat().st_size, used_s=path.stat().st_mtime)
        self._write(digest, msgspec.structs.replace(entry, sticky=pinned))

    def evict(self, digest: str) -> str:
        """Why it stays; empty where it is gone."""
        entry = self._entry(digest)
        if entry is not None and entry.sticky:
            return "it is pinned"
        if digest in self.in_use():
            return "work uses it"
        was_there = self.path(digest).exists()
        for _ in range(EVICT_TRIES):
            # Agents that share a cache may all get the order: the first of them removes it.
            if self._evict(digest) or (was_there and not self.path(digest).exists()):
                return ""
            time.sleep(EVICT_PAUSE_S)
        return "it is being fetched"

    def _make_room(self, image: ImageOrder, size: int) -> None:
        """Removes images that were not used for long, where it has to be. Raises CacheFull."""
        capacity, _ = self.space()
        if size > capacity:
            raise CacheFull(f"{image.reference} is larger than the whole cache of this node: {size:,} bytes")
        entries = self.entries()
        images = {name: Cached(each.size, each.used_s, each.sticky) for name, each in entries.items()}
        now_s = self._now_s()
        held = self.in_use() | {name for name, each in entries.items() if now_s - each.used_s < HELD_S} | {image.digest}
        for digest in to_evict(images, held, size, Room(capacity, self._room())):
            if self._evict(digest):
                del images[digest]
        if not fits(images, size, Room(capacity, self._room())):
            stay = sum(name in held or each.is_sticky for name, each in images.items())
            raise CacheFull(
                f"no room for {image.reference} on this node: {size:,} bytes, {max(0, self._room()):,} are free, "
                f"and {stay} of its images are in use or were just fetched, or are to stay"
            )

    def _evict(self, digest: str) -> bool:
        """False when a fetch of it is under way."""
        part = self._folder / f"{digest}.part"
        fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_same(fd, part):
                return False
            self.path(digest).unlink(missing_ok=True)
            (self._folder / f"{digest}.json").unlink(missing_ok=True)
            part.unlink(missing_ok=True)
        except BlockingIOError:
            return False
        finally:
            os.close(fd)
        return True

    def _room(self) -> int:
        return shutil.disk_usage(self._folder).free - self._min_free

    def _entry(self, digest: str) -> Entry | None:
        try:
            return _decoder.decode((self._folder / f"{digest}.json").read_bytes())
        except (OSError, msgspec.DecodeError):
            return None

    def _note(self, image: ImageOrder, path: Path, unpacked: Unpacked | None = None) -> None:
        old = self._entry(image.digest)
        entry = Entry(
            reference=image.reference,
            size=path.stat().st_size,
            used_s=self._now_s(),
            boot_id=self._boot_id,
            file=_mark(path),
            sticky=old is not None and old.sticky,
            unpacked=unpacked or (None if old is None else old.unpacked),
        )
        self._write(image.digest, entry)

    def _write(self, digest: str, entry: Entry) -> None:
        draft = self._folder / f"{digest}.json.{os.getpid()}.{threading.get_ident()}"
        draft.write_bytes(_encoder.encode(entry))
        draft.replace(self._folder / f"{digest}.json")


def _mark(path: Path) -> str:
    found = path.stat()
    return f"{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"


def _is_remote(image: ImageOrder) -> bool:
    return not image.by_user and image.source.startswith(("http://", "https://"))


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_locked(path: Path) -> bool:
    """Whether a process serves it. One that begins just now waits for this look to be over."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno != errno.ENOLCK
    finally:
        os.close(fd)
    return False


def _lock(fd: int, is_stopped: Callable[[], bool]) -> None:
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if is_stopped():
                raise FetchStopped from None
            time.sleep(0.02)
        else:
            return


def _is_same(fd: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    here = os.fstat(fd)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


__all__ = ["CacheFull", "FetchStopped", "ImageCache", "SourceFailed", "WrongDigest"]
