"""The operation table as gRPC: which service carries an operation, under which name, with which messages."""

import logging
from dataclasses import dataclass
from functools import cache

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.message import Message
from msgspec import Struct

from lattice.api.interface import Response, Service, camel, response_of, service_of
from lattice.api.operations.operation import Operation
from lattice.api.operations.table import OPERATIONS
from lattice.wire.pb import admin_pb2, allocations_pb2, nodes_pb2
from lattice.wire.shapes import NoShape, Shape, message_name, shape_of

_log = logging.getLogger(__name__)

PACKAGE = "lattice.v1"
# Importing these makes their messages known to the pool.
FILES = (allocations_pb2, nodes_pb2, admin_pb2)
# A service does not repeat its own noun: AllocationService.Get, NodeService.Drain.
_NOUNS = {"AllocationService": ("allocation", "allocations"), "NodeService": ("node", "nodes"), "AdminService": ()}


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
    return camel(rpc.operation.name)


@cache
def rpcs() -> tuple[Rpc, ...]:
    """All of them, in the order of the table. Raises NoShape for a row that cannot be said in protobuf."""
    return tuple(_rpc(operation) for operation in OPERATIONS)


@cache
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
        name=camel("_".join(words)),
        request=shape_of(operation.request),
        response=response_of(operation),
    )


def choice_name(record: type[Struct]) -> str:
    """The field of a choice that holds this record."""
    stem = message_name(record).removesuffix("View")
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in stem).removeprefix("_")
