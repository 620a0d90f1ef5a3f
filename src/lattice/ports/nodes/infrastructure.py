"""The system that manages the nodes' configuration. It receives the nodes that differ; what it does about them is up to it.

Errors of this boundary::

    InfrastructureUnavailable    unreachable, or refused; worth a retry
      UnknownComponent           it does not know the node
"""

from enum import StrEnum
from typing import Protocol


class InfrastructureUnavailable(Exception):
    """Not told this time; the text says why and holds no secrets."""


class UnknownComponent(InfrastructureUnavailable):
    """A retry fails until an operator adds the node there."""


class Flag(StrEnum):
    OK = "OK"
    WARNING = "Warning"
    ALERT = "Alert"


class Infrastructure(Protocol):
    async def flag(self, node: str, flag: Flag, message: str) -> None:
        """Sets the flag of the node and why; the last one counts. Raises InfrastructureUnavailable."""
        ...
