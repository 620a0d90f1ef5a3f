"""Tokens of a cluster with a shared secret: signed with HS256, verified on every request, remembered until they expire."""

from collections.abc import Iterable
from typing import Any

import jwt

from lattice.api.auth.claims import INVALID, is_moment, own_identity
from lattice.ports.clock import Clock
from lattice.ports.site.identity import Identity, Kind, Unauthenticated
from lattice.wire.text.signed_claims import ALGORITHM, signed_claims
from lattice.wire.text.times import rfc3339

MIN_SECRET_BYTES = 32
MAX_TOKEN_CHARACTERS = 8192

_OPTIONS: Any = {
    "require": ["sub", "exp"],
    # Times are checked below, against the clock that was handed in.
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
}


def sign_token(
    secret: bytes,
    *,
    user: str,
    issued_at_s: int,
    lifetime_s: int,
    account: str = "",
    tenants: Iterable[str] = (),
    scope: str = "",
    kind: Kind = "user",
    allocation: int | None = None,
    run: int | None = None,
    node: str | None = None,
) -> str:
    """A token for `user`; `scope` holds the words of docs/architecture/api.md, separated by spaces."""
    claims: dict[str, object] = {
        "sub": user,
        "account": account or user,
        "tenants": list(tenants),
        "scope": scope,
        "kind": kind,
        "iat": issued_at_s,
        "exp": issued_at_s + lifetime_s,
    }
    if allocation is not None:
        claims["allocation"] = allocation
    if run is not None:
        claims["run"] = run
    if node is not None:
        claims["node"] = node
    # Not by the library: every run gets a token of its own, and the library looks at the key for long each time.
    return signed_claims(claims, _checked(secret))


class TokenVerifier:
    """Tells who a token stands for. The cache is bounded; nothing in it outlives the token's own end."""

    def __init__(self, secret: bytes, clock: Clock, *, remembered: int = 4096) -> None:
        self._secret = _checked(secret)
        self._clock = clock
        self._remembered = remembered
        self._known: dict[str, Identity] = {}

    def verify(self, token: str) -> Identity:
        """The identity behind the token; raises Unauthenticated with a text that gives nothing away."""
        known = self._known.get(token)
        if known is None:
            known = self._check(token)
            self._remember(token, known)
        if known.expires_at * 1000 <= self._clock.now_ms():
            self._known.pop(token, None)
            raise Unauthenticated(f"the token expired at {rfc3339(known.expires_at * 1000)}")
        return known

    async def learn(self) -> None:
        """Nothing to learn: the secret is all there is."""

    async def recheck(self, token: str) -> Identity:
        return self.verify(token)

    def _check(self, token: str) -> Identity:
        if len(token) > MAX_TOKEN_CHARACTERS:
            raise Unauthenticated(INVALID)
        try:
            claims = jwt.decode(token, self._secret, algorithms=[ALGORITHM], options=_OPTIONS)
        except (jwt.InvalidTokenError, ValueError):
            raise Unauthenticated(INVALID) from None
        not_before = claims.get("nbf", 0)
        if not is_moment(not_before) or not_before * 1000 > self._clock.now_ms():
            raise Unauthenticated(INVALID)
        return own_identity(claims)

    def _remember(self, token: str, identity: Identity) -> None:
        if len(self._known) >= self._remembered:
            now_s = self._clock.now_ms() / 1000
            for old in [key for key, value in self._known.items() if value.expires_at <= now_s]:
                del self._known[old]
        while len(self._known) >= self._remembered:
            del self._known[next(iter(self._known))]
        self._known[token] = identity


def _checked(secret: bytes) -> bytes:
    if len(secret) < MIN_SECRET_BYTES:
        raise ValueError(f"a token secret needs at least {MIN_SECRET_BYTES} bytes")
    return secret
