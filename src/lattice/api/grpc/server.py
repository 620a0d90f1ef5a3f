"""Sets up the gRPC server that the agents connect to."""

import grpc

from lattice.api.grpc.agent_service import AgentService
from lattice.wire.pb.agent_pb2_grpc import add_AgentServiceServicer_to_server

_OPTIONS = (
    # Two servers on one port would share its connections silently.
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.max_receive_message_length", 16 << 20),
    ("grpc.max_send_message_length", 16 << 20),
)


class BindFailed(Exception):
    """The address cannot be listened on."""


def build_server(service: AgentService, listen: str) -> tuple[grpc.aio.Server, int]:
    """A server bound to `listen` (host:port, port 0 = a free one) and its port; raises BindFailed."""
    server = grpc.aio.server(options=_OPTIONS)
    add_AgentServiceServicer_to_server(service, server)
    try:
        port = server.add_insecure_port(listen)
    except RuntimeError as error:
        raise BindFailed(f"cannot listen on {listen}: {error}") from error
    if not port:
        raise BindFailed(f"cannot listen on {listen}")
    return server, port
