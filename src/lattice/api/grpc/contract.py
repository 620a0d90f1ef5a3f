"""The operation table as gRPC: which service carries an operation, under which name, with which messages."""

import inspect
import logging
import types
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.message import Message
from msgspec import Struct

from lattice.api.answers import Drawn, EventAnswer, OtherStatus, TextAnswer
from lattice.api.operations.table import OPERATIONS, Operation
from lattice.wire.pb import admin_pb2, allocations_pb2, nodes_pb2
from lattice.wire.shapes import NoShape, Shape, message_name, shape_of

_log = logging.getLogger(__name__)

PACKAGE = "lattice.v1"
# Importing these makes their messages known to the pool.
FILES = (allocations_pb2, nodes_pb2, admin_pb2)
Service = Literal["AllocationService", "NodeService", "AdminService"]
SERVICES: tuple[Service, ...] = ("AllocationService", "NodeService", "AdminService")
# What lies under these addresses belongs to the service; everything else is administration.
_ADDRESSES: dict[str, Service] = {
    "allocations": "AllocationService",
    "dags": "AllocationService",
    "events": "AllocationService",
    "sessions": "AllocationService",
    "nodes": "NodeService",
}
# A service does not repeat its own noun: AllocationService.Get, NodeService.Drain.
_NOUNS = {"AllocationService": ("allocation", "allocations"), "NodeService": ("node", "nodes"), "AdminService": ()}

TEXT_PIECE = "TextPiece"


@dataclass(frozen=True, slots=True)
class Response:
    """`records` are what an answer or an event may be; more than one means a choice. `item` is that of a page."""

    kind: Literal["record", "choice", "events", "text"]
    message: str
    records: tuple[type[Struct], ...] = ()

    @property
    def is_stream(self) -> bool:
        return self.kind in ("events", "text")


@dataclass(frozen=True, slots=True)
class Rpc:
    operation: Operation
    service: Service
    name: str
    request: Shape
    response: Response

    @property
    def request_message(self) -> str:
        return f"{request_stem(self)}Request"

    @property
    def path(self) -> str:
        return f"/{PACKAGE}.{self.service}/{self.name}"


def request_stem(rpc: "Rpc") -> str:
    """What its own messages are called after: unique in the package."""
    return _camel(rpc.operation.name)


@cache
def rpcs() -> tuple[Rpc, ...]:
    """All of them, in the order of the table. Raises NoShape for a row that cannot be said in protobuf."""
    return tuple(_rpc(operation) for operation in OPERATIONS)


def served_rpcs() -> tuple[Rpc, ...]:
    """Those that can be served: rows that were not generated yet are left out, loudly."""
    served = []
    for operation in OPERATIONS:
        try:
            rpc = _rpc(operation)
            message_class(rpc.request_message)
            message_class(rpc.response.message)
            served.append(rpc)
        except (NoShape, KeyError) as error:
            _log.error("%s is not served on gRPC: %s; run `make proto`", operation.name, error)
    return tuple(served)


def message_class(name: str) -> type[Message]:
    """The class of a message of ours. Raises KeyError for one that was not generated."""
    return message_factory.GetMessageClass(descriptor_pool.Default().FindMessageTypeByName(f"{PACKAGE}.{name}"))


def _rpc(operation: Operation) -> Rpc:
    service = service_of(operation)
    words = [word for word in operation.name.split("_") if word not in _NOUNS[service]]
    return Rpc(
        operation=operation,
        service=service,
        name=_camel("_".join(words)),
        request=shape_of(operation.request),
        response=response_of(operation),
    )


def service_of(operation: Operation) -> Service:
    first = operation.path.removeprefix("/").partition("/")[0]
    return _ADDRESSES.get(first, "AdminService")


def response_of(operation: Operation) -> Response:
    """What the operation's annotation says that it answers with. Raises NoShape."""
    said = answer_type(operation)
    own = f"{_camel(operation.name)}Response"
    if said is TextAnswer:
        return Response("text", TEXT_PIECE)
    if get_origin(said) is EventAnswer:
        return Response("events", own, _records(operation, get_args(said)[0]))
    records = _records(operation, said)
    if len(records) > 1:
        return Response("choice", own, records)
    is_generic = get_origin(records[0]) is not None
    return Response("record", own if is_generic else message_name(records[0]), records)


def answer_type(operation: Operation) -> Any:  # noqa: ANN401 - an annotation can be anything
    handle = inspect.unwrap(operation.handle)
    said = get_type_hints(handle).get("return")
    if said is None:
        raise NoShape(f"{operation.name} does not say what it answers with")
    return said


def _records(operation: Operation, said: Any) -> tuple[type[Struct], ...]:  # noqa: ANN401 - an annotation can be anything
    members = get_args(said) if get_origin(said) in (Union, types.UnionType) else (said,)
    plain = (get_args(each)[0] if get_origin(each) in (OtherStatus, Drawn) else each for each in members)
    found = tuple(dict.fromkeys(plain))
    for each in found:
        kind = get_origin(each) or each
        if not (isinstance(kind, type) and issubclass(kind, Struct)):
            raise NoShape(f"{operation.name} answers with {each}, which is not a record")
    return found


def choice_name(record: type[Struct]) -> str:
    """The field of a choice that holds this record."""
    stem = message_name(record).removesuffix("View")
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in stem).removeprefix("_")


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
