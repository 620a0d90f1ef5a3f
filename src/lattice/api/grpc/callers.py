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


async def checked_caller(callers: Callers, context: "grpc.aio.ServicerContext[Any, Any]") -> str:
    """The name of the server that calls; ends the call of one that does not belong to the cluster."""
    shown = next(iter(context.auth_context().get(_CERTIFICATE, ())), b"")
    name = callers.named_by(shown)
    if not name or not await callers.is_member(name):
        text = f'server "{name}" does not belong to this cluster, or no longer'
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, text)
    return name
