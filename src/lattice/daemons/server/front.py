"""Where clients and agents come in: REST, the local socket, gRPC, the agents' own port, and the file that says where all that is.

Everything of gRPC is imported when it is needed: a server that starts answers lists over REST before.
"""

import asyncio
import json
import logging
import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from lattice.api.auth.tokens import sign_token
from lattice.api.gateway.server import Gateway
from lattice.api.rest.gate import StartupGate
from lattice.api.rest.server import NotListening, RestServer, server_settings
from lattice.api.sockets.websocket import Sockets
from lattice.config.schema import ServerConfig
from lattice.daemons.server.http_limits import BoundedProtocol, bounded, descriptors, grpc_shares, http_limits
from lattice.daemons.server.listening import Address, ListenFailed, bind, parse_listen, reachable
from lattice.daemons.server.local_socket import LocalSocket
from lattice.daemons.server.tls import ServerTls
from lattice.ports.clock import Clock
from lattice.ports.site.identity import Verifier

if TYPE_CHECKING:
    from grpc.aio import Server as GrpcServer

    from lattice.api.grpc.agents.certificates import Admissions, Refused
    from lattice.api.grpc.agents.service import AgentService
    from lattice.api.grpc.operations import OperationServices
    from lattice.api.grpc.public import Health
    from lattice.daemons.server.agent_listener import AgentListener

ENDPOINTS_FILE = "endpoints.json"
REST_PATIENCE_S = 1
GRPC_PATIENCE_S = 0.5

_log = logging.getLogger(__name__)


class Front:
    """`start_rest`, `bind_grpc`, `serve_grpc`, `publish`; in the end `refuse`, and `close` when nothing is under way any more.

    The process decides what answers: it sets the application behind `gate`, the services behind `operations` and the
    registrar of `agents`, and may replace all three while clients stay connected.
    """

    def __init__(
        self,
        config: ServerConfig,
        secret: bytes,
        clock: Clock,
        verifier: Verifier,
        admissions: "Admissions",
        refused: "Refused",
        around: Callable[[ASGIApp], ASGIApp] = lambda app: app,
    ) -> None:
        self._config = config
        self._secret = secret
        self._clock = clock
        self._verifier, self._admissions, self._refused = verifier, admissions, refused
        self._around = around  # what is in front of REST: the web page
        self._tls = ServerTls(config.api.tls) if config.api.tls.certificate else None
        self._endpoints_file = Path(config.data_dir) / ENDPOINTS_FILE
        # Answers every REST request. Every change of role opens it with another application; it is never closed.
        self.gate = StartupGate()
        # Web pages of running work, where the configuration has a listener for them.
        self.gateway = Gateway(None if self._tls is None else self._tls.context)
        self.proxy_url = ""  # where browsers reach it
        # What follows is None until it was started. Only the methods here set it, each once.
        self._rest: RestServer | None = None
        self._rest_task: asyncio.Task[None] | None = None
        self._following_tls: asyncio.Task[None] | None = None
        self._local_socket: LocalSocket | None = None
        self._grpc: GrpcServer | None = None
        self._grpc_address: Address | None = None
        self._health: Health | None = None
        self._agent_port: Address | None = None

    @cached_property
    def operations(self) -> "OperationServices":
        """The gate for gRPC."""
        from lattice.api.grpc.operations import OperationServices

        return OperationServices()

    @cached_property
    def agents(self) -> "AgentService":
        """Every agent's stream; a stream outlives the session on it, and so the role of this server."""
        from lattice.api.grpc.agents.service import AgentService

        return AgentService(self._verifier, refused=self._refused)

    @cached_property
    def _agent_listener(self) -> "AgentListener":
        from lattice.daemons.server.agent_listener import AgentListener

        api = self._config.api
        return AgentListener(api, self._secret, self._clock, self._verifier, self._admissions, self._refused)

    @property
    def scheme(self) -> str:
        return "http" if self._tls is None else "https"

    async def start_rest(self, bound: socket) -> None:
        """Answers from the start; requests that need the complete state are refused until the gate opens."""
        limits = http_limits(self._config.api.limits)
        app = await asyncio.to_thread(self._around, Sockets(self.gate, self._config.api.allowed_origins))
        settings = server_settings(app, bounded(BoundedProtocol, limits), patience_s=REST_PATIENCE_S, has_sockets=True)
        if self._tls is not None:
            context = self._tls.context
            settings.ssl_context_factory = lambda _config, _default: context
            self._following_tls = asyncio.create_task(self._tls.follow(), name="certificate")
        self._rest = RestServer(settings)
        try:
            self._rest_task = await self._rest.begin(bound, "rest")
        except NotListening as error:
            raise ListenFailed(f"api.rest_listen: {error}") from error
        if self._config.api.unix_socket:
            path = Path(self._config.api.unix_socket)
            self._local_socket = LocalSocket(path, self.gate, self._mint_local, limits)
            await self._local_socket.start()

    async def start_gateway(self) -> None:
        """Nothing without `api.proxy_listen`. Raises ListenFailed."""
        api = self._config.api
        if not api.proxy_listen:
            return
        listen = parse_listen(api.proxy_listen, "api.proxy_listen")
        bound = bind(listen, "api.proxy_listen")
        await self.gateway.start(bound)
        here = reachable(Address(listen.host, bound.getsockname()[1]))
        self.proxy_url = api.proxy_url or f"{self.gateway.scheme}://{here}"

    def _mint_local(self, user: str) -> str:
        now_s = self._clock.now_ms() // 1000
        return sign_token(self._secret, user=user, issued_at_s=now_s, lifetime_s=60, scope="readonly")

    def bind_grpc(self, address: Address) -> None:
        """Takes the port, and offers the API beside the agents' streams; with TLS where that is configured. Raises ListenFailed."""
        from lattice.api.grpc.public import UnusableCertificate, offer, tls_credentials
        from lattice.api.grpc.server import BindFailed, build_server
        from lattice.api.grpc.terminals import TerminalService

        credentials = None if self._tls is None else self._tls.grpc_credentials()
        try:
            self._grpc, port = build_server(self.agents, str(address), credentials, self._grpc_connections())
        except BindFailed as error:
            raise ListenFailed(f"api.grpc_listen: {error}") from error
        self._grpc_address = Address(address.host, port)
        self._health = offer(self._grpc, self.operations, TerminalService(self.gate))
        self._agent_listener.issue_on(self._grpc)
        tls = self._config.api.grpc_tls
        if not tls.listen:
            return
        authority = Path(tls.client_authority) if tls.client_authority else None
        try:
            self._grpc.add_secure_port(tls.listen, tls_credentials(Path(tls.certificate), Path(tls.key), authority))
        except (UnusableCertificate, RuntimeError) as error:
            raise ListenFailed(f"api.grpc_tls: {error}") from error

    def _grpc_connections(self) -> int:
        api = self._config.api
        share, _ = grpc_shares(has_agent_port=bool(api.agent_listen))
        return descriptors(share, api.limits.descriptors_kept)

    async def serve_grpc(self) -> None:
        """Agents and clients are served from now on. Raises ListenFailed."""
        if self._grpc is not None:
            await self._grpc.start()
        if self._config.api.agent_listen and self._tls is not None:
            self._agent_port = await self._agent_listener.open(self.agents, self._tls)
        await self.report_health(is_serving=True)

    async def report_health(self, *, is_serving: bool) -> None:
        if self._health is not None:
            await self._health.set(is_serving=is_serving)

    def publish(self, rest: Address) -> None:
        """Writes down where this server is. Blocks."""
        endpoints = {"rest": f"{self.scheme}://{rest}", "grpc": str(self._grpc_address), "pid": os.getpid()}
        if self._agent_port is not None:
            endpoints["agents"] = str(self._agent_port)
        path = self._endpoints_file
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(endpoints) + "\n")
        draft.replace(path)
        _log.info("serving", extra={"rest": endpoints["rest"], "grpc": endpoints["grpc"]})

    def unpublish(self) -> None:
        self._endpoints_file.unlink(missing_ok=True)

    async def refuse(self) -> None:
        """Takes nothing new; what is under way may end."""
        self.unpublish()
        if self._following_tls is not None:
            self._following_tls.cancel()
        if self._rest is not None:
            self._rest.should_exit = True
        if self._local_socket is not None:
            await self._local_socket.stop()
        await self.gateway.stop()
        if self._grpc is not None:
            self.agents.say_goodbye("the server is stopping")

    async def close(self) -> None:
        """Returns when no connection is left."""
        if self._grpc is not None:
            await self.report_health(is_serving=False)
            await self._agent_listener.close(GRPC_PATIENCE_S)
            await self._grpc.stop(GRPC_PATIENCE_S)
        if self._rest_task is not None:
            await asyncio.gather(self._rest_task, return_exceptions=True)
