"""An operation is written once and serves both clients.

It is a generator: it yields requests, is sent the bodies of their answers, and returns a value. `Client` runs it on a blocking
connection, `LatticeClient` on the event loop; the descriptor below gives each of them the method it expects.
"""

import os
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import msgspec

from lattice_sdk.errors import BadAnswer, Invalid
from lattice_sdk.models.records import Page
from lattice_sdk.session import PREFIX, Query, Request
from lattice_sdk.transport import quote

P = ParamSpec("P")
T = TypeVar("T")
Steps = Generator[Request, bytes, T]


class Blocking:
    """Runs operations one request after the other, waiting for each."""

    def _run(self, steps: Steps[T]) -> T:
        raise RuntimeError("a client is needed to run an operation")


class Awaiting:
    """Runs operations on the event loop."""

    async def _run(self, steps: Steps[T]) -> T:
        raise RuntimeError("a client is needed to run an operation")


B = TypeVar("B", bound=Blocking)
A = TypeVar("A", bound=Awaiting)


class operation(Generic[P, T]):
    """Marks a method that describes an operation. `covers` names it in the API where the method is called otherwise."""

    def __init__(self, plan: Callable[Concatenate[Any, P], Steps[T]], covers: str = "") -> None:
        self.covers = covers or plan.__name__
        self.__doc__ = plan.__doc__
        # `help` shows what a caller gets, not the generator that describes it.
        if (steps := plan.__annotations__.get("return")) is not None:
            plan.__annotations__["return"] = steps.__args__[-1]

        @wraps(plan)
        def blocking(client: Blocking, *args: P.args, **kwargs: P.kwargs) -> T:
            return client._run(plan(client, *args, **kwargs))

        @wraps(plan)
        async def awaiting(client: Awaiting, *args: P.args, **kwargs: P.kwargs) -> T:
            return await client._run(plan(client, *args, **kwargs))

        self._blocking, self._awaiting = blocking, awaiting

    @overload
    def __get__(self, instance: None, owner: type[B]) -> Callable[Concatenate[B, P], T]: ...
    @overload
    def __get__(self, instance: None, owner: type[A]) -> Callable[Concatenate[A, P], Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, instance: B, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, instance: A, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        function = self._blocking if issubclass(owner, Blocking) else self._awaiting
        return function if instance is None else MethodType(function, instance)


def operation_named(
    name: str,
) -> Callable[[Callable[Concatenate[Any, P], Steps[T]]], operation[P, T]]:
    """Marks a method whose operation has another name in the API."""
    return lambda plan: operation(plan, name)


def read(path: str, kind: type[T], query: Query = (), *, timeout_s: float | None = None) -> Steps[T]:
    """GET, decoded; `timeout_s` for what may take long."""
    return decoded((yield Request(method="GET", path=PREFIX + path, query=query, timeout_s=timeout_s)), kind)


def write(
    method: str,
    path: str,
    kind: type[T],
    fields: object = None,
    request_id: str = "",
    query: Query = (),
    *,
    timeout_s: float | None = None,
) -> Steps[T]:
    """A change: its request id is the same for each repeat. `fields` are the body, None = no body."""
    body = None if fields is None else msgspec.json.encode(fields)
    headers = (("X-Request-Id", request_id or new_request_id()),)
    request = Request(method=method, path=PREFIX + path, query=query, body=body, headers=headers, timeout_s=timeout_s)
    return decoded((yield request), kind)


def everything(path: str, kind: type[Page[T]], query: Query = ()) -> Steps[list[T]]:
    """All items of a list, page by page."""
    items: list[T] = []
    cursor = ""
    while True:
        page = yield from read(path, kind, [*query, *given(cursor=cursor)])
        items += page.items
        if not page.next_cursor:
            return items
        cursor = page.next_cursor


def items_of(steps: Steps[Page[T]]) -> Steps[list[T]]:
    """The items of an answer that is one page."""
    return (yield from steps).items


def new_request_id() -> str:
    """A name for one write, the same for each repeat of it."""
    return os.urandom(16).hex()


def decoded(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise BadAnswer(f"cannot read the server's answer: {error}") from None


def at(*segments: str) -> str:
    """A path of these words. Raises Invalid for one that could not be a name."""
    for segment in segments:
        if not segment.strip() or segment in {".", ".."}:
            raise Invalid(f'"{segment}" is not a name', code="invalid")
    return "".join(f"/{quote(segment)}" for segment in segments)


def given(**parameters: str | int | None) -> list[tuple[str, str]]:
    """Parameters without those that say nothing."""
    return [(key, str(value)) for key, value in parameters.items() if value not in ("", None)]
