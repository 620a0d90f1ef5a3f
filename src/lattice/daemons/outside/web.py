"""The web page of a server, from its configuration: what is in front of the REST application."""

import time
from collections.abc import Mapping

from starlette.types import ASGIApp

from lattice.api.auth.issuer import Issuer, IssuerUnusable
from lattice.config.schema import ServerConfig
from lattice.web.app import WebPage
from lattice.web.files import is_installed, page_files
from lattice.web.links import LinkTable
from lattice.web.login import Settings
from lattice.web.provider import Client, ProviderLogin
from lattice.web.sealing import Sealer


class WebFront:
    """`links` is None, and `around` does nothing, where the page is switched off."""

    def __init__(self, config: ServerConfig, secret: bytes, issuer: Issuer | None) -> None:
        self._config = config
        self._sealer = Sealer(secret)
        self._issuer = issuer
        self.links = LinkTable(self._sealer, time.time) if config.web.enabled else None

    def around(self, app: ASGIApp) -> ASGIApp:
        """Reads the files of the page. Blocks."""
        web = self._config.web
        if not web.enabled:
            return app
        files = page_files() if is_installed() else {}
        return WebPage(app, files, self._sealer, Settings(web.url, web.session_lifetime), self._login(), time.time)

    def _login(self) -> ProviderLogin | None:
        if self._issuer is None:
            return None
        api = self._config.api
        client = Client(api.oidc_client_id, tuple(api.oidc.scopes), api.oidc.login_token, api.oidc.public_client_secret)
        return ProviderLogin(IssuerEndpoints(self._issuer), client, self._sealer)


class IssuerEndpoints:
    """Implements `Endpoints` of the page's login."""

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer

    def address(self, name: str) -> str:
        try:
            return self._issuer.endpoint(self._issuer.description, name)
        except IssuerUnusable as error:
            raise OSError(str(error)) from None

    async def ask(self, name: str, form: Mapping[str, str]) -> tuple[int, bytes]:
        try:
            reply = await self._issuer.ask(name, form)
        except IssuerUnusable as error:
            raise OSError(str(error)) from None
        if reply is None:
            raise OSError(f"it has no {name}")
        return reply.status, reply.body
