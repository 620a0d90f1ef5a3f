"""Where data comes from that is copied to the hot tier: a directory of the site, or a bucket.

Errors of this boundary::

    SourceError
    +- SourceGone     there is nothing of that name
    +- SourceChanged  it is not what it was when it was listed
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

ACL = "system.posix_acl_access"  # the extended attribute that holds an access list


class SourceError(Exception):
    """The source cannot be read; the text says why."""


class SourceGone(SourceError):
    """There is nothing of that name."""


class SourceChanged(SourceError):
    """It is not what it was when it was listed."""


class Entry(Struct, frozen=True, kw_only=True, gc=False):
    """One thing in a source. `path` is relative to the source, without `.` and `..`; empty = the source itself is a file."""

    path: str
    size: int = 0
    mtime_ns: int = 0
    kind: str = "file"  # file, folder or link
    mode: int = 0o444
    uid: int = 0
    gid: int = 0
    link: str = ""  # where a link points
    acl: bytes = b""  # access list, as the kernel stores it
    tag: str = ""  # changes with the content, where the source knows one


class Listing(Struct, frozen=True, kw_only=True):
    """All that a source has; folders before what is in them."""

    entries: list[Entry]
    version: str  # differs when anything in it differs

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.entries if entry.kind == "file")

    @property
    def files(self) -> int:
        return sum(entry.kind != "folder" for entry in self.entries)


class Source(Protocol):
    def readable_by(self, accounts: Sequence[str]) -> dict[str, str]:
        """Why each of the accounts may not read the source; empty for one that may. Raises SourceError."""
        ...

    def listing(self) -> Listing:
        """Raises SourceGone and SourceError."""
        ...

    def restoring(self, listing: Listing) -> str:
        """What still has to come out of an archive before it can be copied, asked for by this call; empty when nothing has.

        Raises SourceGone and SourceError.
        """
        ...

    def copy(self, entry: Entry, fd: int, on_bytes: Callable[[int], None]) -> None:
        """Writes the content of a file to an empty one; `on_bytes` hears of every piece and may raise to stop.

        Raises SourceChanged when there are more or fewer bytes than were listed, SourceGone and SourceError.
        """
        ...

    def close(self) -> None: ...
