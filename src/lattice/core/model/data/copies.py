"""Copies of data on the hot tier, shared by all work that needs them. See docs/architecture/data.md."""

from enum import StrEnum
from hashlib import sha256

from msgspec import Struct

MAX_COPIES = 10_000
MAX_SOURCES = 16  # of one allocation
MAX_READERS = 1_000  # accounts that one check tells about
MAX_TRIES = 3  # then work that waits may start without the copy
USABLE_PERCENT = 80  # from here on work may start; its nodes wait for the rest


class CopyState(StrEnum):
    WANTED = "wanted"  # to be made, or to be compared with its source
    MOVING = "moving"  # a mover works on it
    USABLE = "usable"  # a mover works on it, and most of it is there
    READY = "ready"
    FAILED = "failed"  # tried too often; tried again at the next request
    LEAVING = "leaving"  # being removed


class CopyPhase(StrEnum):
    """What a mover says of a copy that it claimed."""

    SIZED = "sized"  # the source was read: how much there is, and who may read it
    USABLE = "usable"
    READY = "ready"
    UNCHANGED = "unchanged"  # what is there already is what the source has
    FAILED = "failed"
    FULL = "full"  # the tier has no room, or the source is being restored; not counted as a failure
    RELEASED = "released"  # the mover stopped, or is not heard any more; not counted as a failure
    REMOVED = "removed"  # a generation is not on the tier any more


class Copy(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One source and its copy on the hot tier. A changed source is copied again, as the next generation."""

    key: str
    source: str
    tenant: str  # whose bytes they are counted as: of the first who asked
    user: str  # the first who asked
    state: CopyState = CopyState.WANTED
    generation: int = 0  # the newest that is whole; 0 = none
    next_generation: int = 1
    version: str = ""  # of the source, as the newest generation has it
    size: int = 0  # bytes of the newest generation, or of the one that is being made once that is known
    files: int = 0
    mover: str = ""  # who works on it
    claimed_at: int = 0
    checked_at: int = 0  # when the newest comparison with the source began
    wanted_at: int = 0  # the newest request
    used_at: int = 0  # the newest start of work with it; the copies used longest ago leave first
    tries: int = 0
    retry_at: int = 0
    reason: str = ""  # of the last failure, or why it waits
    asked_by: str = ""  # the account that asked for it without submitting work
    readers: tuple[str, ...] = ()  # accounts that may read the source, as of the newest comparison
    denied: tuple[tuple[str, str], ...] = ()  # accounts that may not, and why
    old: tuple[int, ...] = ()  # earlier generations that are still on the tier

    @property
    def is_claimed(self) -> bool:
        return bool(self.mover)


class DataUse(Struct, frozen=True, gc=False, omit_defaults=True):
    """That an allocation needs a copy, and which generation it got."""

    key: str
    generation: int = 0  # 0 = none yet, or none could be made


def key_of(source: str) -> str:
    """The name of the copy of a source."""
    return sha256(source.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def folder_of(key: str, generation: int) -> str:
    """The folder of one generation, relative to the hot tier."""
    return f"{key}.{generation}"
