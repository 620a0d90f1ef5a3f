"""Where a node gets images that are no files: the bytes behind a URL of a registry.

Errors of this boundary::

    BlobUnavailable  the registry does not answer, or not with these bytes; it may later
      BlobRefused    it has no such bytes, or does not give them to this node
"""

from collections.abc import Iterator
from typing import Protocol


class BlobUnavailable(Exception):
    """The text is a sentence for the user."""


class BlobRefused(BlobUnavailable):
    """Trying again does not help."""


class BlobSource(Protocol):
    """Its calls wait and are made in threads."""

    def read(self, url: str, offset: int = 0) -> Iterator[bytes]:
        """The bytes from `offset` on, as they come; the caller bounds their number and verifies them.

        Raises BlobUnavailable, also in the middle.
        """
        ...
