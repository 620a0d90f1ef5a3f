"""Named, immutable byte strings that outlive the node which made them: stored output, later images and checkpoints.

Errors of this boundary::

    ObjectStoreError
    +- ObjectMissing      there is no object of that name
    +- BadObjectName      the name cannot be used
"""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable


class ObjectStoreError(Exception):
    """The store could not do what was asked; the text says why."""


class ObjectMissing(ObjectStoreError):
    """There is no object of that name."""


class BadObjectName(ObjectStoreError):
    """Names are relative paths with `/` between their parts, without empty parts, `.` and `..`."""


class ObjectStore(Protocol):
    """Objects appear whole or not at all; storing under a used name replaces the object."""

    async def put(self, name: str, data: bytes) -> None:
        """Stores the bytes."""
        ...

    async def put_file(self, name: str, path: Path) -> None:
        """Stores the content of a file that will not change any more."""
        ...

    async def get(self, name: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes from `offset` on, `length` at most, none beyond the end; raises ObjectMissing."""
        ...

    async def size(self, name: str) -> int:
        """The length in bytes; raises ObjectMissing."""
        ...

    async def delete(self, name: str) -> None:
        """Removes the object; a name that is not there is no error."""
        ...

    def names(self, prefix: str) -> AsyncIterator[str]:
        """Names that begin with `prefix`, in order."""
        ...


class SignedPut(NamedTuple):
    """A request that stores one object without a key, for a while: PUT to `url` with these headers."""

    url: str
    headers: dict[str, str]
    authorities: str = ""  # PEM of those that the store's certificate may come from, besides the system's


@runtime_checkable
class SigningStore(Protocol):
    """A store that others may write to and read from by requests that it signs."""

    async def sign(self, name: str, method: str, query: Mapping[str, str]) -> SignedPut:
        """This one request about an object of this name, as S3 has them. Raises ObjectStoreError."""
        ...

    async def sign_put(self, name: str) -> SignedPut:
        """A request that stores an object of this name. Raises ObjectStoreError."""
        ...


def check_name(name: str) -> str:
    """The name itself; raises BadObjectName when no store would take it."""
    if not name or "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise BadObjectName(f"not a name for an object: {name!r}")
    return name
