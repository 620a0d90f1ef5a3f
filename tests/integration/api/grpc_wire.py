"""The gRPC side of a world, and plain values to and from messages: written by hand, so that it can disagree with the product."""

import dataclasses
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from lattice.api.grpc.contract import Rpc, rpcs
from lattice.api.grpc.operations import OperationServices
from lattice.api.services import Services
from lattice.wire.pb import admin_pb2, allocations_pb2, errors_pb2, nodes_pb2

FILES = (allocations_pb2, nodes_pb2, admin_pb2)
RPCS = {rpc.operation.name: rpc for rpc in rpcs()}


@dataclass
class Answer:
    """What came back: a value, or the values of a stream, or an error with its status."""

    value: Any = None
    values: list[Any] = dataclasses.field(default_factory=list)
    error: dict[str, str] | None = None
    status: grpc.StatusCode = grpc.StatusCode.OK
    trailers: dict[str, Any] = dataclasses.field(default_factory=dict)


@asynccontextmanager
async def grpc_of(services: Services) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to a server of these services."""
    operations = OperationServices()
    operations.serve(services)
    server = grpc.aio.server()
    operations.add_to(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
    try:
        yield channel
    finally:
        await channel.close(None)
        await server.stop(0)


async def ask(
    channel: grpc.aio.Channel,
    operation: str,
    request: Mapping[str, Any] | bytes,
    *,
    token: str,
    headers: Mapping[str, str] | None = None,
    most: int = 1000,
    timeout: float = 20,
) -> Answer:
    """One call; of a stream at most so many messages are read."""
    rpc = RPCS[operation]
    data = request if isinstance(request, bytes) else message_of(rpc.request_message, request).SerializeToString()
    metadata = [(name.lower(), value) for name, value in (headers or {}).items()]
    metadata += [("authorization", f"Bearer {token}")] if token else []
    answer = Answer()
    try:
        if rpc.response.is_stream:
            answer.values = await _streamed(channel, rpc, data, metadata, most, timeout)
        else:
            method = channel.unary_unary(rpc.path)  # type: ignore[call-arg] # bytes both ways
            answer.value = plain(_parsed(rpc, await method(data, metadata=metadata, timeout=timeout)))
    except grpc.aio.AioRpcError as error:
        answer.status = error.code()
        answer.trailers = dict(error.trailing_metadata() or ())  # type: ignore[arg-type] # pairs, whatever the stubs say
        if "lattice-error-bin" in answer.trailers:
            answer.error = plain(_class("ErrorView").FromString(answer.trailers["lattice-error-bin"]))
    return answer


async def _streamed(
    channel: grpc.aio.Channel, rpc: Rpc, data: bytes, metadata: list[tuple[str, str]], most: int, timeout: float
) -> list[Any]:
    method = channel.unary_stream(rpc.path)  # type: ignore[call-arg] # bytes both ways
    call = method(data, metadata=metadata, timeout=timeout)
    values: list[Any] = []
    async for piece in call:
        values.append(plain(_parsed(rpc, piece)))
        if len(values) == most:
            call.cancel()
            break
    return values


def _parsed(rpc: Rpc, data: bytes) -> Message:
    message: Message = _class(rpc.response.message).FromString(data)
    return message


def _class(name: str) -> Any:  # noqa: ANN401 - made at run time
    return message_factory.GetMessageClass(descriptor_pool.Default().FindMessageTypeByName(f"lattice.v1.{name}"))


def message_of(name: str, fields: Mapping[str, Any]) -> Message:
    """The message that says the same as this JSON object."""
    message: Message = _class(name)()
    _fill(message, fields)
    return message


def _fill(message: Message, fields: Mapping[str, Any]) -> None:
    known = message.DESCRIPTOR.fields_by_name
    for name, value in fields.items():
        if value is None or (value in ([], {}) and "cleared" in known):
            message.cleared.append(name)  # type: ignore[attr-defined]
            continue
        field = _field_for(known, name, value)
        if field is None:
            raise KeyError(f"{message.DESCRIPTOR.name} cannot say {name}={value!r}")
        _set(message, field, value)


def _field_for(known: Mapping[str, Any], name: str, value: object) -> Any:  # noqa: ANN401 - a field's description
    if isinstance(value, str) and f"{name}_text" in known:
        return known[f"{name}_text"]
    if isinstance(value, dict) and f"{name}_object" in known:
        return known[f"{name}_object"]
    return known.get(name)


def _set(message: Message, field: FieldDescriptor, value: Any) -> None:  # noqa: ANN401 - any JSON
    target = getattr(message, field.name)
    if _is_map(field):
        for key, entry in value.items():
            if entry is None:
                message.cleared.append(f"{field.name}.{key}")  # type: ignore[attr-defined]
            else:
                target[key] = entry
    elif field.is_repeated:
        for entry in value:
            if field.message_type is None:
                target.append(entry)
            else:
                _fill(target.add(), entry)
    elif field.message_type is not None:
        target.SetInParent()
        _fill(target, value)
    else:
        is_text = field.type == FieldDescriptor.TYPE_STRING
        shown = str(value).lower() if isinstance(value, bool) and is_text else str(value) if is_text else value
        setattr(message, field.name, shown)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def plain(message: Message) -> dict[str, Any]:
    """The JSON object that says the same as this message, without what is not there."""
    found: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.name == "cleared":
            continue
        if _is_map(field):
            found[field.name] = dict(value)
        elif field.is_repeated:
            found[field.name] = [_plain_value(field, each) for each in value]
        else:
            found[field.name] = _plain_value(field, value)
    return found


def _plain_value(field: FieldDescriptor, value: Any) -> Any:  # noqa: ANN401 - any JSON
    return plain(value) if field.message_type is not None else value


def said(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Without what says nothing: null, and lists and objects that are empty."""
    if isinstance(value, dict):
        kept = {key: said(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each is not None and each != [] and each != {}}
    return [said(each) for each in value] if isinstance(value, list) else value


def rich_status(answer: Answer) -> errors_pb2.RichStatus:
    return errors_pb2.RichStatus.FromString(answer.trailers["grpc-status-details-bin"])
