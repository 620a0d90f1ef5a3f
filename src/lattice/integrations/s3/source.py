"""Objects of a bucket as a source of data. Needs the extra `lattice-hpc[s3]`."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import obstore
from obstore.exceptions import BaseError, NotFoundError

from lattice.integrations.s3.archive import Archive
from lattice.integrations.s3.bucket import Bucket
from lattice.integrations.s3.store import open_bucket
from lattice.ports.data.sources import Entry, Listing, SourceChanged, SourceError, SourceGone

PIECE = 8 << 20
TOGETHER = 4  # pieces of one object that are under way
MAX_OBJECTS = 5_000_000


class BucketSource:
    """All objects below a prefix, or one object. Who may use the bucket is said by its tenants, not by accounts."""

    def __init__(self, bucket: Bucket, prefix: str, archive: Archive | None = None) -> None:
        self._bucket, self._prefix, self._archive = bucket, prefix, archive
        self._where = f"s3://{bucket.name}/{prefix}"
        self._store = open_bucket(bucket)
        self._pool = ThreadPoolExecutor(TOGETHER, thread_name_prefix="s3")

    def readable_by(self, accounts: Sequence[str]) -> dict[str, str]:
        return dict.fromkeys(accounts, "")

    def listing(self) -> Listing:
        with self._failures():
            found = [
                (each["path"], each["size"], each["e_tag"] or "", each["last_modified"])
                for chunk in obstore.list(self._store, self._prefix or None, chunk_size=1000)
                for each in chunk
            ]
        if len(found) > MAX_OBJECTS:
            raise SourceError(f"{self._where} has more than {MAX_OBJECTS:,} objects")
        if not found and self._prefix:
            return self._single()
        if not found:
            raise SourceGone(f"{self._where} has no objects")
        entries = [Entry(path="", kind="folder", mode=0o555)]
        folders: set[str] = set()
        start = len(self._prefix) + 1 if self._prefix else 0
        for path, size, tag, modified in sorted(found):
            name = path[start:]
            parts = name.split("/")
            if not name or any(part in ("", ".", "..") for part in parts) or "\0" in name:
                if name.endswith("/") and not size:
                    continue  # a marker of a folder
                raise SourceError(f"{self._where} has an object whose name cannot be a path: {path[:120]!r}")
            for depth in range(1, len(parts)):
                folder = "/".join(parts[:depth])
                if folder not in folders:
                    folders.add(folder)
                    entries.append(Entry(path=folder, kind="folder", mode=0o555))
            entries.append(Entry(path=name, size=size, mtime_ns=_nanoseconds(modified), tag=tag))
        files = {entry.path for entry in entries if entry.kind == "file"}
        if folders & files:
            both = sorted(folders & files)[0]
            raise SourceError(f"{self._where} has both an object {both} and objects below it")
        return Listing(entries=entries, version=_version(entries))

    def _single(self) -> Listing:
        with self._failures():
            head = obstore.head(self._store, self._prefix)
        entry = Entry(path="", size=head["size"], mtime_ns=_nanoseconds(head["last_modified"]), tag=head["e_tag"] or "")
        return Listing(entries=[entry], version=_version([entry]))

    def restoring(self, listing: Listing) -> str:
        if self._archive is None:
            return ""
        return self._archive.restoring(self._name(entry) for entry in listing.entries if entry.kind == "file")

    def _name(self, entry: Entry) -> str:
        return "/".join(part for part in (self._prefix, entry.path) if part)

    def copy(self, entry: Entry, fd: int, on_bytes: Callable[[int], None]) -> None:
        name = self._name(entry)
        with self._failures():
            if entry.size <= PIECE:
                answer = obstore.get(self._store, name)
                self._check(answer.meta["e_tag"] or "", answer.meta["size"], entry)
                data = memoryview(answer.bytes())
                self._write(fd, 0, data)
                on_bytes(len(data))
                return
            head = obstore.head(self._store, name)
            self._check(head["e_tag"] or "", head["size"], entry)
            os.ftruncate(fd, entry.size)
            starts = range(0, entry.size, PIECE)
            for count in self._pool.map(lambda start: self._piece(name, fd, start, entry.size), starts):
                on_bytes(count)
            after = obstore.head(self._store, name)
            self._check(after["e_tag"] or "", after["size"], entry)

    def _piece(self, name: str, fd: int, start: int, size: int) -> int:
        wanted = min(PIECE, size - start)
        data = memoryview(obstore.get_range(self._store, name, start=start, end=start + wanted))
        if len(data) != wanted:
            raise SourceChanged(f"{self._where}: {name} was cut short while it was copied")
        self._write(fd, start, data)
        return wanted

    def _check(self, tag: str, size: int, entry: Entry) -> None:
        if (tag, size) != (entry.tag, entry.size):
            raise SourceChanged(f"{self._where}: {entry.path or 'the object'} changed while it was copied")

    @staticmethod
    def _write(fd: int, offset: int, data: memoryview) -> None:
        while data:
            count = os.pwrite(fd, data, offset)
            data, offset = data[count:], offset + count

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except (NotFoundError, FileNotFoundError):
            raise SourceGone(f"{self._where} does not exist") from None
        except (BaseError, ValueError) as error:
            line = (str(error).strip().splitlines() or [type(error).__name__])[0][:400]
            if "NoSuchBucket" in str(error):
                raise SourceGone(f"there is no bucket {self._bucket.name}") from None
            raise SourceError(f"cannot read {self._where}: {line}") from None


def _nanoseconds(moment: object) -> int:
    return int(moment.timestamp()) * 1_000_000_000  # type: ignore[attr-defined]


def _version(entries: list[Entry]) -> str:
    digest = hashlib.sha256()
    for each in entries:
        digest.update(
            f"{each.path}\0{each.kind}\0{each.size}\0{each.tag}\0{each.mtime_ns}\n".encode("utf-8", "replace")
        )
    return digest.hexdigest()[:32]
