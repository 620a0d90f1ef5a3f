"""Settings of the gRPC channels between servers, and to their etcd members."""

SERVER_CHANNEL: tuple[tuple[str, int], ...] = (
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
)


def server_channel(*, ping_every_s: float, give_up_s: float, max_message_bytes: int) -> tuple[tuple[str, int], ...]:
    """Reconnects quickly, and notices a server that hangs after `ping_every_s` and `give_up_s` together."""
    return (
        ("grpc.keepalive_time_ms", int(ping_every_s * 1000)),
        ("grpc.keepalive_timeout_ms", int(give_up_s * 1000)),
        *SERVER_CHANNEL,
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
    )
