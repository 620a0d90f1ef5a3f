"""An object store in a local directory: one file per object, put in place by rename."""

import asyncio
import itertools
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from lattice.ports.quorum.object_store import ObjectMissing, ObjectStoreError, check_name

_UNFINISHED = ".unfinished-"


class DirectoryStore:
    """Implements `ObjectStore`. A file that is to be stored is linked where possible, else copied."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._serial = itertools.count()

    async def put(self, name: str, data: bytes) -> None:
        def write(path: Path) -> None:
            path.write_bytes(data)

        await asyncio.to_thread(self._place, name, write)

    async def put_file(self, name: str, path: Path) -> None:
        if not await asyncio.to_thread(self._put_file, name, path):
            raise ObjectMissing(f"no file {path} to store as {name}")

    def _put_file(self, name: str, source: Path) -> bool:
        def link(path: Path) -> None:
            try:
                os.link(source, path)
            except FileNotFoundError:
                raise
            except OSError:
                shutil.copyfile(source, path)

        if not source.is_file():
            return False
        self._place(name, link)
        return True

    def _place(self, name: str, write: Callable[[Path], object]) -> None:
        target = self._path(name)
        new = target.parent / f"{_UNFINISHED}{os.getpid()}-{next(self._serial)}"
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                write(new)
                new.replace(target)
            finally:
                # Also after a rename that did nothing because both names meant the same file.
                new.unlink(missing_ok=True)
        except OSError as error:
            raise ObjectStoreError(f"cannot store {name}: {error}") from error

    async def get(self, name: str, *, offset: int = 0, length: int | None = None) -> bytes:
        return await asyncio.to_thread(self._get, name, offset, length)

    def _get(self, name: str, offset: int, length: int | None) -> bytes:
        try:
            with self._path(name).open("rb") as file:
                file.seek(offset)
                return file.read() if length is None else file.read(length)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise ObjectMissing(f"no object {name}") from None
        except OSError as error:
            raise ObjectStoreError(f"cannot read {name}: {error}") from error

    async def size(self, name: str) -> int:
        path = self._path(name)
        try:
            found = await asyncio.to_thread(path.stat)
        except (FileNotFoundError, NotADirectoryError):
            raise ObjectMissing(f"no object {name}") from None
        if not path.is_file():
            raise ObjectMissing(f"no object {name}")
        return found.st_size

    async def delete(self, name: str) -> None:
        path = self._path(name)
        try:
            await asyncio.to_thread(path.unlink, missing_ok=True)
        except (NotADirectoryError, IsADirectoryError):
            return
        except OSError as error:
            raise ObjectStoreError(f"cannot delete {name}: {error}") from error

    async def names(self, prefix: str) -> AsyncIterator[str]:
        for name in await asyncio.to_thread(lambda: sorted(self._names(prefix))):
            yield name

    def _names(self, prefix: str) -> Iterator[str]:
        # Only the folder that the prefix points into can hold matches.
        start = self._root.joinpath(*prefix.split("/")[:-1])
        for folder, _, files in os.walk(start):
            for file in files:
                name = Path(folder, file).relative_to(self._root).as_posix()
                if name.startswith(prefix) and not file.startswith(_UNFINISHED):
                    yield name

    def _path(self, name: str) -> Path:
        return self._root.joinpath(*check_name(name).split("/"))
