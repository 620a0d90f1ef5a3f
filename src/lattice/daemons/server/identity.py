"""Token verifiers of a server, from its configuration, and the refresh of the provider's keys."""

import asyncio
import contextlib
import logging
import ssl

from lattice.api.auth.chain import VerifierChain
from lattice.api.auth.claims import ClaimNames
from lattice.api.auth.issuer import Issuer, fetcher
from lattice.api.auth.oidc import OidcPolicy, OidcVerifier
from lattice.api.auth.tokens import TokenVerifier
from lattice.api.login_discovery import Discovery
from lattice.config.load import ConfigError
from lattice.config.schema import ServerConfig
from lattice.config.secrets import resolve
from lattice.config.sections.front import ApiSection
from lattice.daemons.outside.vaults import vault_of
from lattice.ports.clock import Clock

_log = logging.getLogger(__name__)


class VerifierSet:
    """`verifier` immediately accepts what the server signs itself; `start` fetches the provider's keys."""

    def __init__(self, config: ServerConfig, secret: bytes, clock: Clock) -> None:
        api = config.api
        self._every_s = api.oidc.keys_every
        self.issuer = _issuer(api, clock) if api.oidc_issuer else None
        provider = None
        if self.issuer is not None:
            provider = OidcVerifier(self.issuer, _policy(config), clock)
        self.verifier = VerifierChain(TokenVerifier(secret, clock), provider, own_users=api.oidc.own_user_tokens)
        self.discovery = discovery_of(api)
        self._keeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Never raises: an unreachable provider must not keep a cluster from starting."""
        if self.issuer is not None:
            await self.issuer.learn()
            self._keeping = asyncio.create_task(self._keep_fresh(self.issuer), name="provider keys")

    async def _keep_fresh(self, issuer: Issuer) -> None:
        while True:
            await asyncio.sleep(self._every_s if issuer.keys else min(self._every_s, 5.0))
            await issuer.learn()

    async def stop(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeping


def check_identity(config: ServerConfig) -> None:
    """Checks of the identity settings before anything starts. Raises ConfigError."""
    api = config.api
    if not api.oidc_issuer:
        return
    if not api.oidc_client_id and not api.oidc.audiences:
        raise ConfigError("api.oidc_client_id: empty; tokens for other services of the same provider would be accepted")
    if api.oidc_issuer.startswith("http://"):
        if config.mode == "production":
            raise ConfigError(f"api.oidc_issuer: {api.oidc_issuer} is not https; an attacker in between could log in")
        _log.warning("api.oidc_issuer is plain http: an attacker in between could log in as any user")
    if api.oidc.recheck == "introspection":
        resolve(api.oidc.client_secret, key="api.oidc.client_secret", mode=config.mode, vault=vault_of(config))


def discovery_of(api: ApiSection) -> Discovery:
    if not api.oidc_issuer:
        return Discovery()
    return Discovery(
        kind="oidc",
        issuer=api.oidc_issuer,
        idp_url=api.oidc_issuer,
        client_id=api.oidc_client_id,
        scopes=tuple(api.oidc.scopes),
        token=api.oidc.login_token,
        client_secret=api.oidc.public_client_secret or None,
    )


def _issuer(api: ApiSection, clock: Clock) -> Issuer:
    try:
        fetch = fetcher(api.oidc.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ValueError(f"api.oidc.ca_file: cannot use {api.oidc.ca_file}: {error}") from error
    return Issuer(api.oidc_issuer, fetch, clock, algorithms=tuple(api.oidc.algorithms))


def _policy(config: ServerConfig) -> OidcPolicy:
    api, oidc = config.api, config.api.oidc
    secret = ""
    if oidc.recheck == "introspection":
        secret = resolve(
            oidc.client_secret, key="api.oidc.client_secret", mode=config.mode, vault=vault_of(config)
        ).decode()
    return OidcPolicy(
        client_id=api.oidc_client_id,
        audiences=tuple(oidc.audiences),
        skew_s=oidc.clock_skew,
        names=ClaimNames(
            user=oidc.user_claim,
            account=oidc.account_claim,
            tenants=oidc.tenants_claim,
            default_tenants=tuple(oidc.default_tenants),
            takes_scopes=oidc.roles_from_scopes,
        ),
        recheck=oidc.recheck,
        client_secret=secret,
    )
