"""Sets up the gRPC servers: one that the agents connect to, one that the other servers relay their agents to."""

import grpc

from lattice.api.grpc.agents.service import AgentService
from lattice.api.grpc.relay.frames import MAX_MESSAGE_BYTES
from lattice.api.grpc.relay.service import BULK_SERVICE, RelayService
from lattice.api.grpc.release import released
from lattice.wire.agents.tunnels import SERVICE
from lattice.wire.pb.relay_pb2_grpc import add_RelayServiceServicer_to_server

_KEEPALIVE = (
    # Two servers on one port would share its connections silently.
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    ("grpc.http2.max_ping_strikes", 0),
)
_OPTIONS = (
    *_KEEPALIVE,
    ("grpc.keepalive_time_ms", 20_000),
    # One caller's calls at once, and how long a connection without any is kept.
    ("grpc.max_concurrent_streams", 256),
    ("grpc.max_connection_idle_ms", 300_000),
    # A connection that says nothing at all: it takes the place of another one.
    ("grpc.server_handshake_timeout_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.max_receive_message_length", 16 << 20),
    ("grpc.max_send_message_length", 16 << 20),
)
_RELAY_OPTIONS = (
    *_KEEPALIVE,
    ("grpc.keepalive_time_ms", 3_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
)


class BindFailed(Exception):
    """The address cannot be listened on."""


def build_server(
    service: AgentService, listen: str, credentials: grpc.ServerCredentials | None = None, connections: int = 0
) -> tuple[grpc.aio.Server, int]:
    """A server bound to `listen` (host:port, port 0 = a free one) and its port; raises BindFailed.

    Connections beyond that number are closed at once; 0 = any number.
    """
    server = grpc.aio.server(options=_limited(connections))
    # Without a serializer messages come and go as bytes: those that are only forwarded are never decoded.
    connect = grpc.stream_stream_rpc_method_handler(released(service.Connect))
    bulk = grpc.stream_stream_rpc_method_handler(released(service.Bulk))
    handler = grpc.method_handlers_generic_handler("lattice.v1.AgentService", {"Connect": connect})
    server.add_generic_rpc_handlers((handler, grpc.method_handlers_generic_handler(SERVICE, {"Bulk": bulk})))
    return server, _bound(server, listen, credentials)


def build_certified_server(
    listen: str, credentials: grpc.ServerCredentials, connections: int = 0
) -> tuple[grpc.aio.Server, int]:
    """A server for agents who show certificates, without any service yet; raises BindFailed."""
    server = grpc.aio.server(options=_limited(connections))
    return server, _bound(server, listen, credentials)


def build_relay_server(
    service: RelayService, listen: str, credentials: grpc.ServerCredentials
) -> tuple[grpc.aio.Server, int]:
    """The same for the other servers, who have to show a certificate; raises BindFailed."""
    server = grpc.aio.server(options=_RELAY_OPTIONS)
    add_RelayServiceServicer_to_server(service, server)
    bulk = grpc.stream_stream_rpc_method_handler(released(service.Bulk))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(BULK_SERVICE, {"Bulk": bulk}),))
    return server, _bound(server, listen, credentials)


def _limited(connections: int) -> tuple[tuple[str, int], ...]:
    # Left out for any number: the library takes no figure for that, and aborts the process on some.
    return (*_OPTIONS, ("grpc.max_allowed_incoming_connections", connections)) if connections else _OPTIONS


def _bound(server: grpc.aio.Server, listen: str, credentials: grpc.ServerCredentials | None) -> int:
    try:
        port = server.add_insecure_port(listen) if credentials is None else server.add_secure_port(listen, credentials)
    except RuntimeError as error:
        raise BindFailed(f"cannot listen on {listen}: {error}") from error
    if not port:
        raise BindFailed(f"cannot listen on {listen}")
    return port
