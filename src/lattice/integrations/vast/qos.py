"""Rates that VAST guarantees: the views of the configured paths and their QoS policies, from the management interface.

What was read holds for a minute. Only the configured paths are asked for: other views may be those of other tenants.
"""

import asyncio
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from http.client import HTTPException
from typing import TypeVar
from urllib.parse import urlencode

import msgspec

from lattice.ports.site.storage_qos import QosUnavailable, StorageRate

T = TypeVar("T")
TIMEOUT_S = 10.0
MAX_BYTES = 4 << 20
FRESH_S = 60.0
_MB = 1e6


class _View(msgspec.Struct):
    path: str = ""
    qos_policy_id: int | None = None


class _Limits(msgspec.Struct):
    min_reads_bw_mbps: float | None = None
    min_writes_bw_mbps: float | None = None
    max_reads_bw_mbps: float | None = None
    max_writes_bw_mbps: float | None = None


class _Policy(msgspec.Struct):
    static_limits: _Limits | None = None


class VastQos:
    """Implements `StorageQos`. `token` is asked for at each request."""

    def __init__(
        self,
        url: str,
        paths: Sequence[str],
        *,
        token: Callable[[], str] = lambda: "",
        trust: ssl.SSLContext | None = None,
        timeout_s: float = TIMEOUT_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url, self._paths = url.rstrip("/"), tuple(paths)
        self._token, self._trust, self._timeout_s, self._now_s = token, trust, timeout_s, now_s
        self._known: tuple[float, tuple[StorageRate, ...]] | None = None
        self._lock = asyncio.Lock()

    async def rates(self) -> tuple[StorageRate, ...]:
        async with self._lock:  # several who ask at once cost one request
            if self._known is None or self._now_s() - self._known[0] > FRESH_S:
                found = await asyncio.to_thread(self._read)
                self._known = (self._now_s(), found)
            return self._known[1]

    def _read(self) -> tuple[StorageRate, ...]:
        return tuple(self._of(path) for path in self._paths)

    def _of(self, path: str) -> StorageRate:
        views = self._get(f"views/?{urlencode({'path': path})}", list[_View])
        view = next((each for each in views if each.path.rstrip("/") == path.rstrip("/")), None)
        if view is None:
            raise QosUnavailable(f"there is no view {path}")
        if view.qos_policy_id is None:
            return StorageRate(place=path)
        limits = self._get(f"qospolicies/{view.qos_policy_id}/", _Policy).static_limits or _Limits()
        return StorageRate(
            place=path,
            read_least=_rate(limits.min_reads_bw_mbps),
            write_least=_rate(limits.min_writes_bw_mbps),
            read_most=_rate(limits.max_reads_bw_mbps),
            write_most=_rate(limits.max_writes_bw_mbps),
        )

    def _get(self, path: str, kind: type[T]) -> T:
        # Not repeated to where the answer redirects to: the token is for this address.
        request = urllib.request.Request(f"{self._url}/api/{path}", headers={"Accept": "application/json"})  # noqa: S310 - the configuration allows http(s) alone
        try:
            if token := self._token():
                request.add_unredirected_header("Authorization", f"Api-Token {token}")
            with urllib.request.urlopen(request, timeout=self._timeout_s, context=self._trust) as answer:  # noqa: S310 - as above
                body: bytes = answer.read(MAX_BYTES + 1)
        except urllib.error.HTTPError as error:
            error.close()
            raise QosUnavailable(f"the storage system answered with status {error.code}") from None
        except (OSError, HTTPException, ValueError) as error:
            raise QosUnavailable(f"the storage system cannot be reached: {getattr(error, 'reason', error)}") from None
        if len(body) > MAX_BYTES:
            raise QosUnavailable("the answer of the storage system is too large")
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise QosUnavailable("the answer of the storage system makes no sense") from None


def _rate(mbps: float | None) -> float | None:
    """The interface says 0 where there is no limit."""
    return mbps * _MB if mbps is not None and mbps > 0 else None
