"""What the storage system promises: rates that it guarantees, and that it does not exceed.

Errors of this boundary::

    QosUnavailable   it cannot be asked now; the text says why
"""

from typing import Protocol

from msgspec import Struct


class QosUnavailable(Exception):
    """The storage system cannot be asked now."""


class StorageRate(Struct, frozen=True, kw_only=True):
    """Of one place; bytes per second, and None where nothing is promised or limited."""

    place: str
    read_least: float | None = None
    write_least: float | None = None
    read_most: float | None = None
    write_most: float | None = None


class StorageQos(Protocol):
    async def rates(self) -> tuple[StorageRate, ...]:
        """Of the places that the site shows to its users. Raises QosUnavailable."""
        ...
