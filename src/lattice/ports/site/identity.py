"""Who is asking: what a verified token says, and nothing else.

Errors of this boundary::

    Unauthenticated      the token is missing, damaged, expired or of no known issuer
    +- UnknownKey        it names a key that is not known yet; `learn` may find it
"""

from typing import Literal, Protocol

from msgspec import Struct

Kind = Literal["user", "agent", "allocation"]


class Unauthenticated(Exception):
    """The caller could not be identified; the text may be shown to the caller."""


class UnknownKey(Unauthenticated):
    """The key that signed the token is not known; its issuer may have made it since it was asked last."""


class Identity(Struct, frozen=True, kw_only=True):
    """One caller. `allocation` is set inside an allocation, `node` where a token is bound to one node."""

    user: str
    account: str
    tenants: tuple[str, ...] = ()  # the first is the default
    roles: tuple[str, ...] = ()
    expires_at: int = 0  # seconds since 1970, 0 = never
    issued_at: int = 0  # seconds since 1970, 0 = not said
    kind: Kind = "user"
    allocation: int | None = None
    run: int | None = None  # of the allocation; None in tokens of 0.1.0
    node: str | None = None
    admin_of: tuple[str, ...] = ()  # tenants that the cluster's state lets them administer
    joined: tuple[str, ...] = ()  # those of `tenants` that the state alone gives: roles by token do not count there


class Verifier(Protocol):
    """Tells who a bearer token stands for."""

    def verify(self, token: str) -> Identity:
        """The identity behind the token, from what is known already; raises Unauthenticated when there is none."""
        ...

    async def learn(self) -> None:
        """Asks for keys that may be new, unless that was done a moment ago; never raises."""
        ...

    async def recheck(self, token: str) -> Identity:
        """As `verify`, and asks the issuer whether it still stands by the token, where it can be asked."""
        ...
