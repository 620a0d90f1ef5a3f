"""The Workload API of a SPIRE agent on a socket, as its specification says: one service, one call, a header that has to be there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from lattice.wire.pb import workload_pb2 as pb
from lattice.wire.pb.workload_pb2_grpc import SpiffeWorkloadAPIServicer, add_SpiffeWorkloadAPIServicer_to_server


class SpireAgent(SpiffeWorkloadAPIServicer):
    """Hands out what lies in the files; without them it knows nothing of its callers."""

    def __init__(self, certificate: Path | None, key: Path | None, bundle: Path) -> None:
        self.certificate, self.key, self.bundle = certificate, key, bundle
        self.calls = 0

    async def FetchX509SVID(
        self, request: pb.X509SVIDRequest, context: grpc.aio.ServicerContext[pb.X509SVIDRequest, pb.X509SVIDResponse]
    ) -> AsyncIterator[pb.X509SVIDResponse]:
        self.calls += 1
        if ("workload.spiffe.io", "true") not in [(key, value) for key, value in context.invocation_metadata() or ()]:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "security header missing from request")
        if self.certificate is None or self.key is None:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "no identity issued")
        yield pb.X509SVIDResponse(
            svids=[
                pb.X509SVID(
                    spiffe_id="spiffe://site/lattice/agent/n1",
                    x509_svid=_der(self.certificate),
                    x509_svid_key=_key_der(self.key),
                    bundle=_der(self.bundle),
                )
            ]
        )


def _der(path: Path) -> bytes:
    certificates = x509.load_pem_x509_certificates(path.read_bytes())
    return b"".join(each.public_bytes(serialization.Encoding.DER) for each in certificates)


def _key_der(path: Path) -> bytes:
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    return key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@asynccontextmanager
async def listening(agent: SpireAgent, socket: Path) -> AsyncIterator[None]:
    server = grpc.aio.server()
    add_SpiffeWorkloadAPIServicer_to_server(agent, server)
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(0)
