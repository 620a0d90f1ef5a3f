"""Who leads: one server appends and runs the loops, the others forward to it.

Leadership is an optimisation. Two servers that both believe to lead harm nothing: the log takes an entry from one of them and
answers the other with Conflict.
"""

from collections.abc import Callable
from typing import Protocol


class Leadership(Protocol):
    """The election among the servers of a cluster, as one of them sees it."""

    @property
    def is_leader(self) -> bool:
        """Whether this server leads; False as soon as it cannot be sure of it any more."""
        ...

    @property
    def leader_name(self) -> str:
        """The leader, as far as this server knows; empty while there is none."""
        ...

    @property
    def epoch(self) -> int:
        """A number that rises with every change of leader, and with every restore; 0 before the first leader."""
        ...

    async def open(self) -> None:
        """Begins to follow who leads."""
        ...

    async def close(self) -> None:
        """Gives leadership up, if held, and ends; harmless when repeated."""
        ...

    async def campaign(self) -> int:
        """Returns when this server leads: its epoch. A server that loses leadership has to campaign again."""
        ...

    async def resign(self, successor: str = "") -> None:
        """Gives leadership up; for a few seconds only `successor`, where one is named, may take it."""
        ...

    def on_loss(self, callback: Callable[[], None]) -> None:
        """Calls back once for each loss of leadership, whatever the cause. The callback must be short and must not raise."""
        ...

    def on_change(self, callback: Callable[[], None]) -> None:
        """Calls back when `leader_name` or `epoch` changed. The callback must be short and must not raise."""
        ...
