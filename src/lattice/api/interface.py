"""What each operation takes and answers with, apart from any wire: read from the table and the annotations."""

import inspect
import types
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from lattice.api.answers import Drawn, EventAnswer, OtherStatus, Shared, TextAnswer, TunnelAnswer
from lattice.api.operations.operation import Operation
from lattice.wire.shapes import NoShape, message_name

Service = Literal["AllocationService", "NodeService", "AdminService"]
SERVICES: tuple[Service, ...] = ("AllocationService", "NodeService", "AdminService")
# What lies under these addresses belongs to the service; everything else is administration.
_ADDRESSES: dict[str, Service] = {
    "allocations": "AllocationService",
    "dags": "AllocationService",
    "events": "AllocationService",
    "sessions": "AllocationService",
    "nodes": "NodeService",
    "node-status": "NodeService",
    "node-summary": "NodeService",
}

TEXT_PIECE = "TextPiece"


@dataclass(frozen=True, slots=True)
class Response:
    """`records` are what an answer or an event may be; more than one means a choice. `item` is that of a page."""

    kind: Literal["record", "choice", "events", "text", "tunnel"]
    message: str
    records: tuple[type[Struct], ...] = ()

    @property
    def is_stream(self) -> bool:
        return self.kind in ("events", "text", "tunnel")


def service_of(operation: Operation) -> Service:
    first = operation.path.removeprefix("/").partition("/")[0]
    return _ADDRESSES.get(first, "AdminService")


def response_of(operation: Operation) -> Response:
    """What the operation's annotation says that it answers with. Raises NoShape."""
    said = answer_type(operation)
    own = f"{camel(operation.name)}Response"
    if said is TextAnswer:
        return Response("text", TEXT_PIECE)
    if said is TunnelAnswer:
        return Response("tunnel", TEXT_PIECE)
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
    plain = (get_args(each)[0] if get_origin(each) in (OtherStatus, Drawn, Shared) else each for each in members)
    found = tuple(dict.fromkeys(plain))
    for each in found:
        kind = get_origin(each) or each
        if not (isinstance(kind, type) and issubclass(kind, Struct)):
            raise NoShape(f"{operation.name} answers with {each}, which is not a record")
    return found


def camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
