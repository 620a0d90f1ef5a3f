"""The agents' own port, which requires client certificates, and the service that issues certificates for nodes."""

from collections.abc import Callable

import grpc.aio

from lattice.api.auth.node_certificates import NodeAuthority, NodeNames, ShownCertificate
from lattice.api.auth.tokens import sign_token
from lattice.api.grpc.agents.certificates import Admissions, CertificateIssuer, CertifiedAgents, Refused, nobody_hears
from lattice.api.grpc.agents.service import AgentService
from lattice.api.grpc.server import BindFailed, build_certified_server
from lattice.config.sections.front import ApiSection
from lattice.daemons.server.http_limits import descriptors, grpc_shares
from lattice.daemons.server.listening import Address, ListenFailed, check_free, parse_listen
from lattice.daemons.server.tls import ServerTls
from lattice.ports.clock import Clock
from lattice.ports.site.identity import Verifier


class AgentListener:
    """`issue_on` the public gRPC server; `open` and `close` the agents' port."""

    def __init__(
        self,
        api: ApiSection,
        secret: bytes,
        clock: Clock,
        verifier: Verifier,
        admissions: Admissions,
        refused: Refused = nobody_hears,
    ) -> None:
        self._api = api
        self._admissions = admissions
        self._refused = refused
        self._secret = secret
        self._clock = clock
        self._verifier = verifier
        names = NodeNames(api.node_domain, api.node_spiffe_id)
        self._authority = NodeAuthority(secret, names, api.node_certificate_lifetime)
        self._server: grpc.aio.Server | None = None

    def issue_on(self, server: grpc.aio.Server) -> None:
        """Lets agents with a token get their first certificate there."""
        CertificateIssuer(
            self._authority, self._clock, self._admissions, verifier=self._verifier, refused=self._refused
        ).add_to(server)

    async def open(self, agents: AgentService, tls: ServerTls) -> Address:
        """Raises ListenFailed."""
        listen = parse_listen(self._api.agent_listen, "api.agent_listen")
        check_free(listen, "api.agent_listen")
        _, share = grpc_shares(has_agent_port=True)
        connections = descriptors(share, self._api.limits.descriptors_kept)
        try:
            credentials = tls.grpc_credentials(self._trusted(tls))
            self._server, port = build_certified_server(str(listen), credentials, connections)
        except BindFailed as error:
            raise ListenFailed(f"api.agent_listen: {error}") from error
        CertifiedAgents(agents, self._authority, self._vouch, self._refused).add_to(self._server)
        CertificateIssuer(self._authority, self._clock, self._admissions, refused=self._refused).add_to(self._server)
        await self._server.start()
        return Address(listen.host, port)

    def _trusted(self, tls: ServerTls) -> Callable[[], bytes]:
        return lambda: self._authority.pem + tls.client_authorities()

    def _vouch(self, shown: ShownCertificate) -> str:
        """Has the certificate's time of issue, so that revoking older certificates of a node also revokes its tokens."""
        now_s = self._clock.now_ms() // 1000
        begins = min(shown.begins_at, now_s)
        return sign_token(
            self._secret,
            user=f"node:{shown.node}",
            issued_at_s=begins,
            lifetime_s=max(now_s + 1, shown.expires_at) - begins,
            kind="agent",
            node=shown.node,
        )

    async def close(self, patience_s: float) -> None:
        if self._server is not None:
            await self._server.stop(patience_s)
