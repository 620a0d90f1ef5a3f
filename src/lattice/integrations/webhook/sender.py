"""Webhooks: one signed POST over HTTPS, or HTTP where the site allows it.

The address comes from a user, so it is resolved here and checked before anything is sent to it: only public addresses, unless
the site allows private ones. What was checked is what is connected to; redirects are not followed.
"""

import asyncio
import ipaddress
import ssl
from socket import SOCK_STREAM
from urllib.parse import SplitResult, urlsplit

import msgspec

from lattice.core.model.work.notifications import Notification
from lattice.ports.clock import Clock
from lattice.ports.site.notifications import DeliveryFailed, Undeliverable
from lattice.wire.work.notifications import address_of, notice_view, webhook_key, webhook_signature

TIMEOUT_S = 10.0
_LONGEST_LINE = 4096
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# Addresses of a site, or another site's word for them: IPv4 inside IPv6 of old, site-local ones, local NAT64.
_LOCAL = tuple(map(ipaddress.IPv6Network, ("::/96", "fec0::/10", "64:ff9b:1::/48")))
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# Refusals that may pass: time-outs, a conflict of locks, too early, too many requests.
_PASSING = frozenset({408, 409, 423, 425, 429})


class WebhookSender:
    """Implements `Sender`. `secret` is the site's; every user's webhooks are signed with a key derived from it."""

    def __init__(
        self,
        secret: bytes,
        clock: Clock,
        *,
        allow_http: bool = False,
        allow_private: bool = False,
        timeout_s: float = TIMEOUT_S,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._secret = secret
        self._clock = clock
        self._allow_http = allow_http
        self._allow_private = allow_private
        self._timeout_s = timeout_s
        self._trust = trust

    async def send(self, notification: Notification) -> None:
        url = urlsplit(address_of(notification.to))
        if url.scheme != "https" and not (self._allow_http and url.scheme == "http"):
            raise Undeliverable("only https:// is allowed here")
        try:
            async with asyncio.timeout(self._timeout_s):
                status = await self._post(url, notification)
        except TimeoutError:
            raise DeliveryFailed(f"no answer within {self._timeout_s:g} s") from None
        except (OSError, asyncio.LimitOverrunError, asyncio.IncompleteReadError, ValueError) as error:
            raise DeliveryFailed(f"{type(error).__name__}: {error}") from error
        _judge(status)

    async def _post(self, url: SplitResult, notification: Notification) -> int:
        host = url.hostname or ""
        port = url.port or (443 if url.scheme == "https" else 80)
        reader, writer = await self._connected(url.scheme, host, port)
        try:
            writer.write(self._request(url, notification))
            await writer.drain()
            return _status(await reader.readuntil(b"\r\n"))
        finally:
            writer.transport.abort()

    async def _connected(self, scheme: str, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the first of the host's addresses that takes one."""
        trust = (self._trust or ssl.create_default_context()) if scheme == "https" else None
        name = host if trust else None
        problem: OSError | None = None
        for address in await self._checked_addresses(host, port):
            try:
                return await asyncio.open_connection(
                    address, port, ssl=trust, server_hostname=name, limit=_LONGEST_LINE
                )
            except OSError as error:
                problem = error
        raise problem or OSError(f"{host} has no address")

    async def _checked_addresses(self, host: str, port: int) -> list[str]:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=SOCK_STREAM)
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        if not self._allow_private and any(not is_public(address) for address in addresses):
            raise Undeliverable(f"{host} is not a public address, and only those are allowed here")
        return addresses

    def _request(self, url: SplitResult, notification: Notification) -> bytes:
        body = msgspec.json.encode(notice_view(notification))
        timestamp = str(self._clock.now_ms() // 1000)
        signature = webhook_signature(webhook_key(self._secret, notification.user), timestamp, body)
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        lines = (
            f"POST {target} HTTP/1.1",
            f"Host: {url.netloc}",
            "User-Agent: lattice-webhook",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "Connection: close",
            f"X-Lattice-Event: {notification.occasion}",
            f"X-Lattice-Delivery: {notification.id}",
            f"X-Lattice-Timestamp: {timestamp}",
            f"X-Lattice-Signature: sha256={signature}",
        )
        return "\r\n".join((*lines, "", "")).encode("ascii") + body


def is_public(address: str) -> bool:
    """Whether it is an address of the internet at large; one that holds another is judged by both."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if parsed.version == 6 and any(parsed in network for network in _LOCAL):
        return False
    return all(each.is_global and not each.is_multicast for each in (parsed, *_inner(parsed)) if each is not None)


def _inner(address: Address) -> tuple[ipaddress.IPv4Address | None, ...]:
    """The IPv4 addresses that an IPv6 address stands for."""
    if address.version == 4:
        return ()
    behind_nat64 = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None
    return address.ipv4_mapped, address.sixtofour, *(address.teredo or ()), behind_nat64


def _status(line: bytes) -> int:
    words = line.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise ValueError("the answer is not HTTP")
    return int(words[1])


def _judge(status: int) -> None:
    if 200 <= status < 300:
        return
    if status >= 500 or status in _PASSING:
        raise DeliveryFailed(f"answered {status}")
    raise Undeliverable(f"answered {status}")
