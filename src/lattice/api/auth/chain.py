"""All tokens that a server accepts: those of the site's provider, those that it signed itself, and no others.

The algorithm of a token decides which of the two verifies it, so that none is ever tried with the keys of the other.
"""

import jwt

from lattice.api.auth.claims import INVALID
from lattice.api.auth.oidc import OidcVerifier
from lattice.api.auth.tokens import MAX_TOKEN_CHARACTERS, TokenVerifier
from lattice.ports.site.identity import Identity, Unauthenticated
from lattice.wire.text.signed_claims import ALGORITHM


class VerifierChain:
    """Implements `Verifier`. With `own_users` off, what a server signed itself is good for agents and allocations alone."""

    def __init__(self, own: TokenVerifier, provider: OidcVerifier | None = None, *, own_users: bool = True) -> None:
        self._own = own
        self._provider = provider
        self._own_users = own_users

    def verify(self, token: str) -> Identity:
        if self._provider is None:
            return self._own.verify(token)
        if not _is_own(token):
            return self._provider.verify(token)
        identity = self._own.verify(token)
        if identity.kind == "user" and not self._own_users:
            raise Unauthenticated("people are identified by the site's identity provider alone: run `lattice login`")
        return identity

    async def learn(self) -> None:
        if self._provider is not None:
            await self._provider.learn()

    async def recheck(self, token: str) -> Identity:
        if self._provider is None or _is_own(token):
            return self.verify(token)
        return await self._provider.recheck(token)


def _is_own(token: str) -> bool:
    if len(token) > MAX_TOKEN_CHARACTERS:
        raise Unauthenticated(INVALID)
    try:
        return jwt.get_unverified_header(token).get("alg") == ALGORITHM
    except (jwt.InvalidTokenError, ValueError):
        raise Unauthenticated(INVALID) from None
