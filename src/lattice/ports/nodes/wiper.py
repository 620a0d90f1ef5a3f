"""What wipes a node when sensitive work has left it: memory, disks, accelerators, and a start from a clean image.

Errors of this boundary::

    WipeFailed           it could not be started, took too long, or says that the node is not clean
"""

from typing import Protocol

from msgspec import Struct


class WipeFailed(Exception):
    """The text is for operators and becomes the reason of the quarantine."""


class WipeOrder(Struct, frozen=True, kw_only=True):
    """Which node, and why. The same order may come again when another server leads: a wipe that is done must not be harmed by it."""

    node: str
    address: str
    why: str
    since: int  # ms since 1970, the same for each repetition
    tries: int = 1  # how often it was asked for, by operators after a failure


class Wiper(Protocol):
    async def wipe(self, order: WipeOrder, timeout_s: float) -> str:
        """Returns when the node is clean, with what the wiper says of it; raises WipeFailed.

        When the call is cancelled, whatever it has started ends with it.
        """
        ...
