"""Which server calls on a port that only servers may use, and whether it belongs to the cluster at this moment.

Certificates outlive membership: a server that was taken out has one that is good for months.
"""

from typing import Any, Protocol

import grpc

_CERTIFICATE = "x509_pem_cert"


class Callers(Protocol):
    """What is known about the servers."""

    def named_by(self, certificate: bytes) -> str:
        """The server that a verified certificate (PEM) was issued for; empty when it names none."""
        ...

    async def is_member(self, name: str) -> bool:
        """Whether a server of this name belongs to the cluster."""
        ...


class NotAMember(Exception):
    """The server that calls does not belong to the cluster."""


async def caller_of(callers: Callers, context: "grpc.aio.ServicerContext[Any, Any]") -> str:
    """The name of the server that calls. Raises NotAMember."""
    shown = next(iter(context.auth_context().get(_CERTIFICATE, ())), b"")
    name = callers.named_by(shown)
    if not name or not await callers.is_member(name):
        raise NotAMember(f'server "{name}" does not belong to this cluster, or no longer')
    return name


async def checked_caller(callers: Callers, context: "grpc.aio.ServicerContext[Any, Any]") -> str:
    """The same; ends the call of one that does not belong to the cluster."""
    try:
        return await caller_of(callers, context)
    except NotAMember as error:
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
        raise
