"""OpenCHAMI's State Management Daemon: its HTTP interface to the flags of components.

PATCH /hsm/v2/State/Components/XNAME with {"Flag": ..., "FlagMsg": ...}. A component is known by its xname, which is the node's own name unless
the configuration maps it. Redirects are not followed and proxies not used: the token goes to the configured address and nowhere else.
"""

import asyncio
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from email.message import Message
from http.client import HTTPException
from typing import IO
from urllib.parse import quote

from lattice.ports.nodes.infrastructure import Flag, InfrastructureUnavailable, UnknownComponent

MAX_MESSAGE = 512


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


class OpenChami:
    """Implements `Infrastructure`. `token` is asked for at each call, so that one that was replaced is taken up."""

    def __init__(
        self,
        url: str,
        *,
        token: Callable[[], str] = lambda: "",
        xnames: Mapping[str, str] | None = None,
        trust: ssl.SSLContext | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._xnames = dict(xnames or {})
        self._timeout_s = timeout_s
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust), _NoRedirects()
        )

    async def flag(self, node: str, flag: Flag, message: str) -> None:
        await asyncio.to_thread(self._patch, self._xnames.get(node, node), flag, message)

    def _patch(self, xname: str, flag: Flag, message: str) -> None:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        token = self._token()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(  # noqa: S310 - the configuration allows http(s) alone
            f"{self._url}/hsm/v2/State/Components/{quote(xname, safe='')}",
            data=json.dumps({"Flag": str(flag), "FlagMsg": message[:MAX_MESSAGE]}).encode(),
            headers=headers,
            method="PATCH",
        )
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                answer.read(1)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 404:
                raise UnknownComponent(f"{self._url} knows no component {xname}") from None
            raise InfrastructureUnavailable(f"{self._url} answered with status {error.code}") from None
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise InfrastructureUnavailable(f"{self._url} cannot be reached: {reason}") from None
