"""Links that log a browser in once: made for a caller who has a token, used up by the first browser that opens one."""

from typing import Protocol


class WebLinks(Protocol):
    """Kept by the leading server. Another leader knows none of its links, so that none is ever used twice."""

    def make(self, user: str, token: str) -> tuple[str, float]:
        """The ticket of a link that logs in as `user` the first browser that opens it, and for how many seconds it is good.

        It holds the caller's token, readable for servers of this cluster alone.
        """
        ...

    def use_up(self, user: str, code: str) -> bool:
        """Whether the code inside a ticket was still good; it is not from now on."""
        ...
