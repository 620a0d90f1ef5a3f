"""An incremental digest of the whole state: a sum of record hashes, so that order of arrival cannot matter.

Before and after each fold: value = sum over all records of hash(kind, record) mod 2^128. Replicas that applied
the same log have the same value; a snapshot is checked by recomputing the sum. See docs/architecture/core.md.
"""

from hashlib import blake2b

import msgspec

_MODULUS = 1 << 128
_encode = msgspec.msgpack.Encoder().encode


def record_hash(kind: bytes, record: object) -> int:
    """The summand of one record."""
    return int.from_bytes(blake2b(_encode(record), digest_size=16, person=kind).digest(), "big")


class Digest:
    """The running sum."""

    __slots__ = ("value",)

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def add(self, kind: bytes, record: object) -> None:
        self.value = (self.value + record_hash(kind, record)) % _MODULUS

    def remove(self, kind: bytes, record: object) -> None:
        self.value = (self.value - record_hash(kind, record)) % _MODULUS

    def shift(self, by: int) -> None:
        """Add (or subtract) the sum of several records in one step."""
        self.value = (self.value + by) % _MODULUS

    def hexdigest(self) -> str:
        return f"{self.value:032x}"
