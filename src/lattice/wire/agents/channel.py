"""The agents' stream as an agent opens it: method, channel settings, credentials.

The pings tell a dead server from a quiet one; a server not configured to tolerate them closes a quiet stream.
"""

import grpc.aio

from lattice.wire.pb import agent_pb2 as pb

METHOD = "/lattice.v1.AgentService/Connect"
KEEPALIVE_S = 10.0
KEEPALIVE_TIMEOUT_S = 5.0
MAX_MESSAGE_BYTES = 16 << 20

Stream = grpc.aio.StreamStreamCall[pb.AgentMessage, pb.ServerMessage]

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.keepalive_time_ms", int(KEEPALIVE_S * 1000)),
    ("grpc.keepalive_timeout_ms", int(KEEPALIVE_TIMEOUT_S * 1000)),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.min_reconnect_backoff_ms", 5000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
)


def open_channel(endpoint: str, credentials: grpc.ChannelCredentials | None = None) -> grpc.aio.Channel:
    """A channel to one server, with TLS where credentials are given; it connects with the first call."""
    if credentials is None:
        return grpc.aio.insecure_channel(endpoint, options=CHANNEL_OPTIONS)
    return grpc.aio.secure_channel(endpoint, credentials, options=CHANNEL_OPTIONS)


def open_stream(channel: grpc.aio.Channel, token: str) -> Stream:
    """The agent's stream, authenticated by a bearer token or, without one, by the channel's certificate."""
    connect = channel.stream_stream(
        METHOD,
        request_serializer=pb.AgentMessage.SerializeToString,
        response_deserializer=pb.ServerMessage.FromString,
    )
    metadata = [("authorization", f"Bearer {token}")] if token else []
    return connect(None, metadata=grpc.aio.Metadata(*metadata))
