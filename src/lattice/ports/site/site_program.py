"""A program of the site that receives one JSON document on its standard input and reports success or failure.

Errors of this boundary::

    ProgramFailed        it could not be started, took too long, or ended with another exit code than 0
"""

from typing import Protocol


class ProgramFailed(Exception):
    """The text is for administrators: it goes to the server's log."""


class SiteProgram(Protocol):
    async def tell(self, document: bytes) -> None:
        """Returns when the program has ended well; nothing that it started is left. Raises ProgramFailed."""
        ...
