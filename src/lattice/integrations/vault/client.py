"""Reads secrets from Vault: its HTTP interface to the key-value engine, version 2. Asked when a server starts, never on the event loop.

A reference is vault://PATH#FIELD. Without a field the secret's only one is meant, or the one called `value`. Redirects are not followed
and proxies not used: the token goes to the configured address and nowhere else. No error says anything of the token or of a secret.
"""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from typing import IO
from urllib.parse import quote

MAX_ANSWER_BYTES = 1 << 20


class VaultError(Exception):
    """Vault could not be asked, or has no such secret."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Message,
        newurl: str,
    ) -> None:
        return None


class VaultClient:
    """`read` has the shape that `config.secrets.resolve` asks for."""

    def __init__(
        self,
        address: str,
        token: str,
        *,
        mount: str = "secret",
        namespace: str = "",
        trust: ssl.SSLContext | None = None,
        timeout_s: float = 5.0,
    ) -> None:
        self._address = address.rstrip("/")
        self._mount = mount.strip("/")
        self._headers = {"X-Vault-Token": token, "X-Vault-Request": "true", "Accept": "application/json"}
        if namespace:
            self._headers["X-Vault-Namespace"] = namespace
        self._timeout_s = timeout_s
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust), _NoRedirects()
        )

    def read(self, reference: str) -> bytes:
        """The secret at `PATH#FIELD`; raises VaultError."""
        path, _, field = reference.partition("#")
        path = path.strip("/")
        if not path:
            raise VaultError("the reference names no path")
        return _field(self._fetch(path), path, field)

    def _fetch(self, path: str) -> Mapping[str, object]:
        url = f"{self._address}/v1/{quote(self._mount)}/data/{quote(path)}"
        request = urllib.request.Request(url, headers=self._headers)  # noqa: S310 - the configuration allows http(s) alone
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                body = answer.read(MAX_ANSWER_BYTES + 1)
        except urllib.error.HTTPError as error:
            error.close()
            raise VaultError(_refusal(error.code, path)) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise VaultError(f"{self._address} cannot be reached: {reason}") from None
        try:
            found = json.loads(body)["data"]["data"]
        except (ValueError, KeyError, TypeError):
            found = None
        if not isinstance(found, dict):
            raise VaultError(f"{self._address} did not answer as a key-value engine of version 2 does")
        return found


def _refusal(status: int, path: str) -> str:
    match status:
        case 403:
            return f"the token may not read {path}"
        case 404:
            return f"there is no secret at {path}"
        case 301 | 302 | 303 | 307 | 308:
            return "it answered with a redirect, which is not followed; name the address of the active server"
        case _:
            return f"it answered with status {status}"


def _field(found: Mapping[str, object], path: str, field: str) -> bytes:
    if not field:
        field = next(iter(found)) if len(found) == 1 else "value"
    value = found.get(field)
    if not isinstance(value, str) or not value:
        raise VaultError(f"the secret at {path} has no text called {field}")
    return value.encode()
