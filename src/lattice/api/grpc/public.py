"""What a server offers on gRPC besides its agents' streams: the operations, health and reflection."""

from pathlib import Path

import grpc
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection

from lattice.api.grpc.contract import PACKAGE
from lattice.api.grpc.operations import OperationServices
from lattice.api.grpc.strangers import OpenHealth, OpenReflection, SlowReads
from lattice.api.grpc.terminals import NAME as TERMINALS
from lattice.api.grpc.terminals import TerminalService

_AGENTS = f"{PACKAGE}.AgentService"
Status = health_pb2.HealthCheckResponse.ServingStatus


class UnusableCertificate(Exception):
    """A file that TLS needs cannot be read."""


class Health:
    """grpc.health.v1 for the server as a whole (the empty name) and for each of its services."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = ("", _AGENTS, *names)
        self._servicer = health.aio.HealthServicer()  # type: ignore[attr-defined] # the stubs lack it

    def add_to(self, server: grpc.aio.Server, reads: SlowReads) -> None:
        OpenHealth(self._servicer, reads).add_to(server)

    async def set(self, *, is_serving: bool) -> None:
        status = Status.SERVING if is_serving else Status.NOT_SERVING
        for name in self._names:
            await self._servicer.set(name, status)


def offer(server: grpc.aio.Server, operations: OperationServices, terminals: TerminalService | None = None) -> Health:
    """Adds everything to the server; the health says "not serving" until it is switched on."""
    operations.add_to(server)
    own = operations.names
    if terminals is not None:
        terminals.add_to(server)
        own = (*own, TERMINALS)
    checks = Health(own)
    reads = SlowReads()
    checks.add_to(server, reads)
    names = (_AGENTS, *own, health.SERVICE_NAME, reflection.SERVICE_NAME)
    OpenReflection(names, reads).add_to(server)
    return checks


def tls_credentials(certificate: Path, key: Path, client_authority: Path | None) -> grpc.ServerCredentials:
    """TLS with this certificate; with an authority, clients have to show a certificate of it. Raises UnusableCertificate."""
    try:
        pair = (key.read_bytes(), certificate.read_bytes())
        authority = client_authority.read_bytes() if client_authority is not None else None
    except OSError as error:
        raise UnusableCertificate(f"{error.filename}: {error.strerror}") from error
    return grpc.ssl_server_credentials([pair], authority, require_client_auth=authority is not None)
