"""Which images a node's cache lets go when it is full: those that were not used for longest, and never one that is in use or sticky."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

HIGH = 0.90  # of the capacity: beyond it images are removed
LOW = 0.70  # until no more than this is used
SAME_AGE_S = 60.0  # images used within the same minute are equally old


class Cached(NamedTuple):
    size: int
    used_s: float
    is_sticky: bool = False


class Room(NamedTuple):
    """Bytes: what all images together may have, and what the disk has free for them."""

    capacity: int
    free: int


def to_evict(images: Mapping[str, Cached], held: Collection[str], incoming: int, room: Room) -> list[str]:
    """The digests to remove so that `incoming` bytes have room, the first first; all that can be removed where that is not enough."""
    used = sum(each.size for each in images.values())
    excess = used + incoming - int(room.capacity * LOW) if used + incoming > room.capacity * HIGH else 0
    wanted = max(excess, incoming - room.free)
    if wanted <= 0:
        return []
    free = [digest for digest, each in images.items() if not each.is_sticky and digest not in held]
    free.sort(key=lambda digest: (images[digest].used_s // SAME_AGE_S, -images[digest].size, digest))
    chosen: list[str] = []
    for digest in free:
        if wanted <= 0:
            break
        chosen.append(digest)
        wanted -= images[digest].size
    return chosen


def fits(images: Mapping[str, Cached], incoming: int, room: Room) -> bool:
    """Whether there is room now."""
    return incoming <= room.free and sum(each.size for each in images.values()) + incoming <= room.capacity
