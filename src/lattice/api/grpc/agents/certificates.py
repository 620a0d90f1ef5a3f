"""Node agents that show certificates: their entrance, and where they get one.

On the agents' own port every connection has shown a certificate that was verified. Which node it stands for is written into a token
of this server's, bound to that node: from there on all agents are alike, at this server and at the leader.
"""

import logging
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from hashlib import sha256
from typing import Protocol

import grpc
from google.protobuf.message import DecodeError
from msgspec.structs import replace

from lattice.api.auth.node_certificates import NodeAuthority, NotANode, ShownCertificate, key_digest
from lattice.api.grpc.agents.service import AgentService, bearer_token
from lattice.api.grpc.calls import source_of
from lattice.api.grpc.release import released
from lattice.core.model.nodes.admission import Enrolment
from lattice.ports.clock import Clock
from lattice.ports.quorum.log import LogError
from lattice.ports.quorum.replica import ReplicaStopped
from lattice.ports.site.identity import Unauthenticated, Verifier
from lattice.wire.agents.tunnels import SERVICE
from lattice.wire.pb import certificates_pb2 as pb

_log = logging.getLogger(__name__)

StreamContext = grpc.aio.ServicerContext[bytes, bytes]
MAX_REQUEST_BYTES = 64 << 10
# a token for the agent that has shown a certificate
Vouch = Callable[[ShownCertificate], str]
# Called with the reason of a refusal, and the address that it met.
Refused = Callable[[str, str], None]


def nobody_hears(why: str, source: str) -> None:
    """For those who keep no record of refusals."""


class Admissions(Protocol):
    """Who may be a node."""

    def refusal(self, node: str, issued_at_s: int) -> str | None:
        """Why credentials that were issued then do not make their holder this node; None when they may."""
        ...

    def valid_from_s(self, node: str) -> int:
        """From when on credentials of the node are accepted."""
        ...

    async def enrol(self, enrolment: Enrolment, *, is_named: bool) -> str | None:
        """Uses a token; the text says why it cannot be used. Raises LogError, ReplicaStopped."""
        ...


class CertifiedAgents:
    """The agents' entrance on a port where everybody has shown a certificate."""

    def __init__(
        self, agents: AgentService, authority: NodeAuthority, vouch: Vouch, refused: Refused = nobody_hears
    ) -> None:
        self._agents = agents
        self._authority = authority
        self._vouch = vouch
        self._refused = refused

    async def connect(self, messages: AsyncIterator[bytes], context: StreamContext) -> None:
        await self._agents.connect_as(messages, context, await self._token(context))

    async def bulk(self, messages: AsyncIterator[bytes], context: StreamContext) -> None:
        await self._agents.carry_as(messages, context, await self._token(context))

    async def _token(self, context: StreamContext) -> str:
        try:
            shown = self._authority.shown(context.auth_context())
        except (NotANode, ValueError) as error:
            _log.warning("an agent's certificate is refused: %s", error, extra={"peer": context.peer()})
            self._refused(f"an agent: {error}", source_of(context))
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
        return self._vouch(shown)

    def add_to(self, server: grpc.aio.Server) -> None:
        connect = grpc.stream_stream_rpc_method_handler(released(self.connect))
        bulk = grpc.stream_stream_rpc_method_handler(released(self.bulk))
        handler = grpc.method_handlers_generic_handler("lattice.v1.AgentService", {"Connect": connect})
        server.add_generic_rpc_handlers((handler, grpc.method_handlers_generic_handler(SERVICE, {"Bulk": bulk})))


class CertificateIssuer:
    """Signs for agents with a token (`verifier`), or without one for those whose connection shows a certificate.

    The request is read when it is known who sends it; to the caller the method is an ordinary one.
    """

    def __init__(
        self,
        authority: NodeAuthority,
        clock: Clock,
        admissions: Admissions,
        *,
        verifier: Verifier | None = None,
        refused: Refused = nobody_hears,
    ) -> None:
        self._authority = authority
        self._refused = refused
        self._clock = clock
        self._admissions = admissions
        self._verifier = verifier

    def add_to(self, server: grpc.aio.Server) -> None:
        handler = grpc.stream_unary_rpc_method_handler(released(self.sign))
        methods = {"SignNodeCertificate": handler}
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("lattice.v1.CertificateService", methods),)
        )

    async def sign(self, _requests: AsyncIterator[bytes], context: StreamContext) -> bytes:
        try:
            caller = self._identified(context)
            request = await _read(context)
            certificate = await self._signed(request, *caller)
        except Unauthenticated as error:
            self._refused(f"a node's certificate: {error}", source_of(context))
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
        except NotANode as error:
            self._refused(f"a node's certificate: {error}", source_of(context))
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
        except (LogError, ReplicaStopped):
            await context.abort(
                grpc.StatusCode.UNAVAILABLE, "this server cannot record the enrolment; ask the next one"
            )
        _log.info("a certificate was issued", extra={"node_id": request.node_id})
        return pb.SignNodeAnswer(certificate=certificate, authority=self._authority.pem).SerializeToString()

    async def _signed(
        self, request: pb.SignNodeRequest, bound: str | None, issued_at_s: int, enrolment: Enrolment | None
    ) -> bytes:
        """The certificate. A token is used up before it is issued. Raises NotANode, Unauthenticated, LogError, ReplicaStopped."""
        node = request.node_id
        if bound is not None and bound != node:
            raise NotANode(f"you are known as node {bound}, not as {node!r}")
        refusal = self._admissions.refusal(node, issued_at_s)
        if refusal is not None:
            raise NotANode(refusal)
        begins = datetime.fromtimestamp(self._admissions.valid_from_s(node), UTC)
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        certificate = self._authority.sign(node, request.signing_request, now, begins)
        if enrolment is not None:
            used = replace(enrolment, node=node, key=key_digest(request.signing_request))
            refusal = await self._admissions.enrol(used, is_named=bound is not None)
        if refusal is not None:
            raise NotANode(refusal)
        return certificate

    def _identified(self, context: StreamContext) -> tuple[str | None, int, Enrolment | None]:
        """The node that the caller is, None for a token that names none; when its credentials were issued; and the token to use."""
        if self._verifier is None:
            shown = self._authority.shown(context.auth_context())
            return shown.node, shown.begins_at, None
        token = bearer_token(context)
        identity = self._verifier.verify(token)
        if identity.kind != "agent":
            raise NotANode("this token is not an agent's token")
        # What is signed, without the signature: that may have more than one form (padding; of an elliptic curve, its mirror image).
        digest = sha256(token.rpartition(".")[0].encode()).hexdigest()
        enrolment = Enrolment(token=digest, node="", key="", expires_at=identity.expires_at * 1000)
        return identity.node, identity.issued_at, enrolment


async def _read(context: StreamContext) -> pb.SignNodeRequest:
    """Raises NotANode."""
    request: object = await context.read()
    try:
        if isinstance(request, bytes) and len(request) <= MAX_REQUEST_BYTES:
            return pb.SignNodeRequest.FromString(request)
    except DecodeError:
        _log.debug("a request for a certificate cannot be read", extra={"peer": context.peer()})
    raise NotANode("this is no request for a certificate")
