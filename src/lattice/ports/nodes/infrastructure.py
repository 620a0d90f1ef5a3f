"""The system that manages the nodes' configuration. It is told which nodes differ; what to do about them is its own business.

Errors of this boundary::

    InfrastructureUnavailable    it could not be told, or did not take it; worth another try
      UnknownComponent           it does not know the node
"""

from enum import StrEnum
from typing import Protocol


class InfrastructureUnavailable(Exception):
    """Not told this time; the text says why and holds no secrets."""


class UnknownComponent(InfrastructureUnavailable):
    """Another try would end the same way until somebody adds the node there."""


class Flag(StrEnum):
    OK = "OK"
    WARNING = "Warning"
    ALERT = "Alert"


class Infrastructure(Protocol):
    async def flag(self, node: str, flag: Flag, message: str) -> None:
        """Sets the flag of the node and why; the last one counts. Raises InfrastructureUnavailable."""
        ...
