"""From an HTTP request to the request record of an operation: path, query and body, each strictly."""

import re
from asyncio import timeout
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol
from urllib.parse import parse_qsl

import msgspec
import msgspec.inspect
from starlette.types import Receive, Scope

from lattice.api.access.admission import TWICE
from lattice.api.errors import ApiError
from lattice.api.limits import DISCARD_S, MAX_BODY_BYTES, MAX_DISCARDED_BYTES, MAX_REQUEST_ID
from lattice.api.operations.operation import Operation
from lattice.api.rest.elements import check_elements
from lattice.api.rest.explain import explain_field, explain_json
from lattice.api.rest.forms import plain_form
from lattice.wire.bounds import MAX_TEXT, check_bounds

MAX_PARAMETERS = 2000
_PATH_NAME = re.compile(r"\{(\w+)\}")


class Headers:
    """The few headers that matter, read in one pass."""

    __slots__ = ("authorization", "content_length", "last_event_id", "protocol", "request_id", "tenant", "traceparent")

    def __init__(self, scope: Scope) -> None:
        self.authorization = self.request_id = self.tenant = self.last_event_id = ""
        self.content_length = self.protocol = self.traceparent = ""
        for name, value in scope["headers"]:
            if name == b"authorization":
                # Of two, a proxy may have judged the other one.
                self.authorization = TWICE if self.authorization else value.decode("latin-1")
            elif name == b"x-request-id":
                self.request_id = value.decode("latin-1")
            elif name == b"x-lattice-tenant":
                self.tenant = value.decode("latin-1")
            elif name == b"last-event-id":
                self.last_event_id = value.decode("latin-1")
            elif name == b"x-lattice-protocol":
                self.protocol = value.decode("latin-1")
            elif name == b"traceparent":
                self.traceparent = value.decode("latin-1")
            elif name == b"content-length":
                self.content_length = value.decode("latin-1")


def source_of(scope: Scope) -> str:
    """The address that the request came from; empty on the Unix socket."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def header_value(text: str) -> bytes:
    """A request id as the value of a header: what is not plain ASCII is replaced."""
    if text.isascii() and text.isprintable() and len(text) <= MAX_REQUEST_ID:
        return text.encode()
    return "".join(c if " " < c < "\x7f" else "?" for c in text[:MAX_REQUEST_ID]).encode()


async def read_body(receive: Receive, headers: Headers) -> bytes:
    """The whole body. Raises ApiError when it is too large, without keeping it."""
    declared = headers.content_length
    size = int(declared) if declared.isdigit() and len(declared) < 20 else 0
    if size > MAX_BODY_BYTES:
        if size <= MAX_DISCARDED_BYTES:
            await _discard(receive)
        raise _too_large(f"{size:,} bytes")
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        if message["type"] == "http.disconnect":
            raise ClientGone
        if len(body) > MAX_BODY_BYTES:
            raise _too_large(f"{len(body):,} bytes")
        return body
    pieces, size = [body], len(body)
    while message.get("more_body"):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > MAX_BODY_BYTES:
            if message.get("more_body"):
                await _discard(receive)
            raise _too_large(f"more than {MAX_BODY_BYTES:,} bytes")
    return b"".join(pieces)


async def _discard(receive: Receive) -> None:
    """Read on, within bounds: a client that is still sending would meet a closed connection instead of the answer."""
    size = 0
    with suppress(TimeoutError):
        async with timeout(DISCARD_S):
            while size <= MAX_DISCARDED_BYTES:
                message = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body"):
                    return


class ClientGone(Exception):
    """The caller hung up before the request was complete."""


def _too_large(current: str) -> ApiError:
    return ApiError(
        "too_large",
        "the request is too large",
        current=current,
        limit=f"{MAX_BODY_BYTES:,} bytes",
        hint="put large data into files that the script reads",
    )


class Decode(Protocol):
    def __call__(self, scope: Scope, headers: Headers, body: bytes) -> msgspec.Struct: ...


def decoder_for(operation: Operation) -> Decode:
    """The decoder of an operation: from the query for GET, from the body otherwise; the path belongs to both."""
    in_path = frozenset(_PATH_NAME.findall(operation.path))
    if operation.method == "GET":
        return _query_decoder(operation.request)
    if not in_path and operation.method != "DELETE":
        return _body_decoder(operation.request, operation.in_query)
    return _merging_decoder(operation, in_path)


def _query_decoder(request: type[msgspec.Struct]) -> Decode:
    to_record = _parameters_to(request)
    takes_event_id = "last_event_id" in request.__struct_fields__

    def decode(scope: Scope, headers: Headers, body: bytes) -> msgspec.Struct:
        given: dict[str, Any] = dict(scope["path_params"])
        if takes_event_id and headers.last_event_id:
            given["last_event_id"] = headers.last_event_id
        return to_record(scope, given, len(headers.last_event_id))

    return decode


def _body_decoder(request: type[msgspec.Struct], in_query: frozenset[str]) -> Decode:
    decode_json = msgspec.json.Decoder(request).decode
    types = {field.encode_name: field.type for field in msgspec.structs.fields(request)}

    def _other_form(error: Exception, body: bytes) -> msgspec.Struct:
        plain = plain_form(request, body) if isinstance(error, msgspec.ValidationError) else None
        if plain is None:
            raise explain_json(error, body, request) from None
        try:
            return decode_json(plain)
        except msgspec.MsgspecError as problem:
            raise explain_json(problem, plain, request) from None

    def decode(scope: Scope, headers: Headers, body: bytes) -> msgspec.Struct:
        query = _pairs(scope["query_string"])
        if any(name not in in_query for name, _ in query):
            raise _no_parameters(scope["query_string"])
        check_elements(body)
        try:
            record = decode_json(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            record = _other_form(error, body)
        check_bounds(record, len(body))
        try:
            given = {name: msgspec.convert(value, types[name], strict=False) for name, value in query}
        except msgspec.ValidationError as error:
            raise explain_field(error, request) from None
        return msgspec.structs.replace(record, **given) if given else record

    return decode


def _merging_decoder(operation: Operation, in_path: frozenset[str]) -> Decode:
    request = operation.request
    to_record = _parameters_to(request)
    types = {field.encode_name: field.type for field in msgspec.structs.fields(request)}
    decode_json = msgspec.json.Decoder(dict[str, Any]).decode

    def decode(scope: Scope, headers: Headers, body: bytes) -> msgspec.Struct:
        if scope["query_string"]:
            if operation.method != "DELETE":
                raise _no_parameters(scope["query_string"])
            return to_record(scope, dict(scope["path_params"]), 0)
        check_elements(body)
        try:
            given = decode_json(body) if body else {}
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise explain_json(error, body, request) from None
        path = scope["path_params"]
        for name in in_path & given.keys():
            if str(given[name])[:MAX_TEXT] != path[name]:
                raise ApiError("invalid", f'{name}: is "{path[name][:60]}" in the path already')
        try:
            in_address = {name: msgspec.convert(path[name], types[name], strict=False) for name in in_path}
            record = msgspec.convert({**given, **in_address}, request)
        except msgspec.ValidationError as error:
            raise explain_field(error, request) from None
        check_bounds(record, len(body) + len(scope["path"]))
        return record

    return decode


def _parameters_to(
    request: type[msgspec.Struct],
) -> Callable[[Scope, Mapping[str, Any], int], msgspec.Struct]:
    described = msgspec.inspect.type_info(request)
    lists = frozenset(
        field.encode_name
        for field in getattr(described, "fields", ())
        if isinstance(field.type, msgspec.inspect.ListType)
    )

    def to_record(scope: Scope, given: Mapping[str, Any], size: int) -> msgspec.Struct:
        """`size` is that of what was given besides path and query."""
        query: bytes = scope["query_string"]
        values: dict[str, Any] = {}
        for name, value in _pairs(query):
            if name in lists:
                values.setdefault(name, []).append(value)
            elif name in values or name in given:
                raise ApiError("invalid", f'parameter "{name[:60]}" is given twice')
            else:
                values[name] = value
        values.update(given)
        try:
            record = msgspec.convert(values, request, strict=False)
        except msgspec.ValidationError as error:
            raise explain_field(error, request) from None
        check_bounds(record, size + len(query) + len(scope["path"]))
        return record

    return to_record


def _pairs(query: bytes) -> list[tuple[str, str]]:
    if not query:
        return []
    try:
        return parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_PARAMETERS,
        )
    except ValueError:
        raise ApiError("invalid", "the parameters of the address cannot be read") from None


def _no_parameters(query: bytes) -> ApiError:
    name = query.decode("latin-1").partition("=")[0][:60]
    return ApiError("invalid", f'unknown parameter "{name}"', hint="put it into the body")
