"""A program of the site that sees every submission before it counts.

Errors of this boundary::

    FilterFailed         it could not be asked, took too long, or answered nonsense
"""

from typing import Protocol


class FilterFailed(Exception):
    """The text is for administrators: it goes to the server's log, not to the user."""


class SubmitFilter(Protocol):
    async def ask(self, question: bytes) -> bytes:
        """The answer to a question, both one JSON object; raises FilterFailed."""
        ...

    @property
    def accepts_on_failure(self) -> bool:
        """Whether a submission counts that could not be judged."""
        ...
