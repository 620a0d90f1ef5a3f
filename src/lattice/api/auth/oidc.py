"""Tokens of the site's OpenID provider: signature, issuer, audience and times, by keys that are known already.

A token is refused unless its algorithm is one of those configured *and* the one its key is for: `none`, and a public key used as a
shared secret, are no algorithms of any key here.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import jwt
import msgspec

from lattice.api.auth.claims import INVALID, ClaimNames, foreign_identity, is_moment
from lattice.api.auth.issuer import Issuer, IssuerUnusable, SigningKey
from lattice.api.auth.tokens import MAX_TOKEN_CHARACTERS
from lattice.ports.clock import Clock
from lattice.ports.site.identity import Identity, Unauthenticated, UnknownKey
from lattice.wire.text.times import rfc3339

_log = logging.getLogger(__name__)

Recheck = Literal["none", "userinfo", "introspection"]
_REQUIRED = ["exp", "iss", "aud"]
_OPTIONS: Any = {
    "require": _REQUIRED,
    # Times are checked below, against the clock that was handed in.
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_sub": False,
    "verify_jti": False,
}


@dataclass(frozen=True, kw_only=True)
class OidcPolicy:
    """What a token has to be like. `client_secret` only for `recheck: introspection`."""

    client_id: str
    audiences: tuple[str, ...] = ()  # empty = the client's own
    skew_s: float = 30.0
    names: ClaimNames = field(default_factory=ClaimNames)
    recheck: Recheck = "none"
    client_secret: str = ""


class OidcVerifier:
    """Implements `Verifier`. What is remembered ends with the token, and is forgotten when the issuer's keys change."""

    def __init__(self, issuer: Issuer, policy: OidcPolicy, clock: Clock, *, remembered: int = 4096) -> None:
        self._issuer = issuer
        self._policy = policy
        self._clock = clock
        self._remembered = remembered
        self._known: dict[str, Identity] = {}
        self._generation = issuer.generation

    def verify(self, token: str) -> Identity:
        if self._generation != self._issuer.generation:
            self._known.clear()
            self._generation = self._issuer.generation
        known = self._known.get(token)
        if known is None:
            known = self._check(token)
            if len(self._known) >= self._remembered:
                self._make_room()
            self._known[token] = known
        if known.expires_at + self._policy.skew_s <= self._clock.now_ms() / 1000:
            self._known.pop(token, None)
            raise Unauthenticated(f"the token expired at {rfc3339(known.expires_at * 1000)}")
        return known

    async def learn(self) -> None:
        await self._issuer.learn()

    async def recheck(self, token: str) -> Identity:
        identity = self.verify(token)
        try:
            stands = await self._ask_issuer(token)
        except IssuerUnusable as error:
            # A provider that is away must not end everybody's streams.
            _log.warning("the identity provider could not be asked about a token: %s", error)
            return identity
        if not stands:
            self._known.pop(token, None)
            raise Unauthenticated("the token was revoked")
        return identity

    async def _ask_issuer(self, token: str) -> bool:
        policy = self._policy
        if policy.recheck == "userinfo":
            reply = await self._issuer.ask("userinfo_endpoint", None, token)
            return reply is None or reply.status not in (401, 403)
        if policy.recheck == "introspection":
            form = {"token": token, "client_id": policy.client_id, "client_secret": policy.client_secret}
            reply = await self._issuer.ask("introspection_endpoint", form)
            return reply is None or reply.status != 200 or _is_active(reply.body)
        return True

    def _check(self, token: str) -> Identity:
        if len(token) > MAX_TOKEN_CHARACTERS:
            raise Unauthenticated(INVALID)
        key = self._key_for(token)
        policy = self._policy
        try:
            claims = jwt.decode(
                token,
                key.key,
                algorithms=[key.algorithm],
                audience=policy.audiences or (policy.client_id,),
                issuer=self._issuer.url,
                options=_OPTIONS,
            )
        except jwt.InvalidAudienceError:
            raise Unauthenticated("the token was issued for another audience than this cluster") from None
        except jwt.InvalidIssuerError:
            raise Unauthenticated("the token is from another issuer than this cluster's") from None
        except (jwt.InvalidTokenError, ValueError, TypeError):
            raise Unauthenticated(INVALID) from None
        self._check_times(claims)
        return foreign_identity(claims, policy.names)

    def _key_for(self, token: str) -> SigningKey:
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.InvalidTokenError, ValueError):
            raise Unauthenticated(INVALID) from None
        keys, kid = self._issuer.keys, header.get("kid")
        if kid is None:
            fitting = [key for key in keys.values() if key.algorithm == header.get("alg")]
            key = fitting[0] if len(fitting) == 1 else None
        else:
            key = keys.get(str(kid))
        if key is None:
            raise UnknownKey("the token is signed with a key that its issuer does not have")
        if header.get("alg") != key.algorithm:
            raise Unauthenticated(INVALID)
        return key

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        latest = self._clock.now_ms() / 1000 + self._policy.skew_s
        for name in ("nbf", "iat"):
            moment = claims.get(name, 0)
            if not is_moment(moment) or moment > latest:
                raise Unauthenticated("the token is not valid yet")

    def _make_room(self) -> None:
        now_s = self._clock.now_ms() / 1000
        for old in [key for key, value in self._known.items() if value.expires_at <= now_s]:
            del self._known[old]
        while len(self._known) >= self._remembered:
            del self._known[next(iter(self._known))]


def _is_active(body: bytes) -> bool:
    try:
        return msgspec.json.decode(body, type=dict[str, Any]).get("active") is True
    except msgspec.MsgspecError:
        return False
