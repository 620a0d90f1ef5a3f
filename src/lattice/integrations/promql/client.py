"""A store that answers PromQL over HTTP: VictoriaMetrics, Prometheus, Mimir, Thanos.

Requests go out from threads of their own: a store that hangs occupies them and nothing else. After a failure it is left alone for a
while, so that the next question is answered by the nodes without delay; not so after a metric of a user that it does not understand. Redirects are not followed and proxies not used: the token goes to
the configured address and nowhere else.
"""

import asyncio
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from http.client import HTTPException
from typing import IO
from urllib.parse import urlencode

import msgspec

from lattice.integrations.promql.selectors import (
    OF_NODE,
    OF_RUN,
    Sampled,
    latest_query,
    newest_value,
    raw_query,
    series_of,
    step_ends,
    stepped_query,
)
from lattice.ports.site.metric_store import Selector, StoreAsk, StoredSeries, StoreUnavailable

MAX_BYTES = 64 << 20
THREADS = 4
ALONE_S = 10.0
_NOT_UNDERSTOOD = (400, 422)


class _QueryRefused(StoreUnavailable):
    """The store is there, and does not take this query."""


class _Data(msgspec.Struct, frozen=True):
    result: list[Sampled] = []


class _Answer(msgspec.Struct, frozen=True):
    status: str
    data: _Data = _Data()
    error: str = ""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


_decoder = msgspec.json.Decoder(_Answer)


class PromqlStore:
    """Implements `MetricStore`. `token` is asked for at each request, so that one that was replaced is taken up."""

    def __init__(
        self,
        url: str,
        *,
        token: Callable[[], str] = lambda: "",
        trust: ssl.SSLContext | None = None,
        timeout_s: float = 3.0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s
        self._now_s = now_s
        self._pool = ThreadPoolExecutor(THREADS, "metric-store")
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust), _NoRedirects()
        )
        self._alone_until_s = 0.0
        self._failure = ""

    async def read(self, ask: StoreAsk) -> tuple[StoredSeries, ...]:
        if self._now_s() < self._alone_until_s:
            raise StoreUnavailable(self._failure)
        try:
            async with asyncio.timeout(2 * self._timeout_s):
                answers = await (self._stepped(ask) if ask.step_ms else self._raw(ask))
        except TimeoutError:
            raise self._failed(f"no answer within {2 * self._timeout_s:g} s") from None
        except StoreUnavailable as error:
            raise self._failed(str(error)) from None
        return series_of(ask, answers)

    async def latest(self, selector: Selector, nodes: tuple[str, ...], allocation: str) -> float | None:
        if self._now_s() < self._alone_until_s:
            raise StoreUnavailable(self._failure)
        fields = {"query": latest_query(selector, nodes, allocation), "time": f"{time.time():.3f}"}
        try:
            async with asyncio.timeout(2 * self._timeout_s):
                found = await self._ask("query", fields)
        except TimeoutError:
            raise self._failed(f"no answer within {2 * self._timeout_s:g} s") from None
        except _QueryRefused:
            raise  # the metric of one user, which must not keep the store from the others
        except StoreUnavailable as error:
            raise self._failed(str(error)) from None
        return newest_value(found)

    def _failed(self, why: str) -> StoreUnavailable:
        self._alone_until_s, self._failure = self._now_s() + ALONE_S, why
        return StoreUnavailable(why)

    async def _raw(self, ask: StoreAsk) -> list[tuple[str, Sampled]]:
        fields = {"query": raw_query(ask), "time": f"{ask.end_ms / 1000:.3f}"}
        found = await self._ask("query", fields)
        prefix = OF_RUN if ask.runs else OF_NODE
        return [(each.metric.get("__name__", "").removeprefix(prefix), each) for each in found]

    async def _stepped(self, ask: StoreAsk) -> list[tuple[str, Sampled]]:
        first_ms, last_ms = step_ends(ask)
        times = {"start": f"{first_ms / 1000:.3f}", "end": f"{last_ms / 1000:.3f}", "step": f"{ask.step_ms // 1000}s"}
        several = await asyncio.gather(
            *(self._ask("query_range", {"query": stepped_query(ask, metric), **times}) for metric in ask.metrics)
        )
        return [(metric, each) for metric, found in zip(ask.metrics, several, strict=True) for each in found]

    async def _ask(self, path: str, fields: dict[str, str]) -> list[Sampled]:
        # Without it VictoriaMetrics hides the newest figures and answers from its cache.
        form = {**fields, "nocache": "1"}
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._post, path, form)

    def _post(self, path: str, form: dict[str, str]) -> list[Sampled]:
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        try:
            token = self._token()
            if token:
                headers["Authorization"] = f"Bearer {token}"
            request = urllib.request.Request(  # noqa: S310 - the configuration allows http(s) alone
                f"{self._url}/api/v1/{path}", urlencode(form).encode(), headers, method="POST"
            )
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                body = answer.read(MAX_BYTES + 1)
        except urllib.error.HTTPError as error:
            error.close()
            kind = _QueryRefused if error.code in _NOT_UNDERSTOOD else StoreUnavailable
            raise kind(f"the store answered with status {error.code}") from None
        except (OSError, HTTPException, ValueError) as error:
            raise StoreUnavailable(f"the store cannot be reached: {getattr(error, 'reason', error)}") from None
        if len(body) > MAX_BYTES:
            raise StoreUnavailable("the store's answer is too large")
        try:
            decoded = _decoder.decode(body)
        except msgspec.MsgspecError:
            raise StoreUnavailable("the store's answer makes no sense") from None
        if decoded.status != "success":
            raise _QueryRefused(f"the store refused: {decoded.error[:200]}")
        return decoded.data.result
