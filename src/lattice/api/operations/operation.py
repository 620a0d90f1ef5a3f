"""What is known of every operation, on every wire. The list of them is in `table.py`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import Struct

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
# The operations differ in what they take; the table pairs each with its own request type.
Handler = Callable[[Context, Any], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One row. Parameters of the path and of the query, and the fields of the body, are fields of `request`.

    `in_query` are fields of the body that may stand in the query as well.
    """

    name: str
    handle: Handler
    request: type[Struct]
    permission: Permission
    method: Method
    path: str
    status: int = 200
    in_query: frozenset[str] = frozenset()


def row(
    method: Method,
    path: str,
    handle: Handler,
    request: type[Struct],
    permission: Permission,
    status: int = 200,
    in_query: frozenset[str] = frozenset(),
) -> Operation:
    name = getattr(handle, "__name__", path)
    return Operation(
        name=name,
        handle=handle,
        request=request,
        permission=permission,
        method=method,
        path=path,
        status=status,
        in_query=in_query,
    )
