"""`bind_network` of a server: its listeners on every address move to the address of that network."""

from msgspec.structs import replace

from lattice.config.load import ConfigError
from lattice.config.networks import ANY, bound, choose_address
from lattice.config.schema import ServerConfig
from lattice.daemons.outside.interfaces import machine_addresses

_OF_API = ("rest_listen", "grpc_listen", "agent_listen", "proxy_listen")
_OF_QUORUM = ("client_listen", "peer_listen", "internal_listen", "relay_listen")


def on_its_network(config: ServerConfig) -> ServerConfig:
    """The configuration with the addresses that the server is to bind to. Raises ConfigError."""
    if config.bind_network == ANY and not config.networks:
        return config
    try:
        there = machine_addresses()
    except OSError as error:
        raise ConfigError(f"bind_network: {error}") from error
    address = choose_address(config.bind_network, config.networks, there)
    if not address:
        return config
    api, quorum = config.api, config.quorum
    moved = replace(
        config,
        api=replace(
            api,
            **{name: bound(getattr(api, name), address) for name in _OF_API},
            grpc_tls=replace(api.grpc_tls, listen=bound(api.grpc_tls.listen, address)),
        ),
        quorum=replace(quorum, **{name: bound(getattr(quorum, name), address) for name in _OF_QUORUM}),
    )
    if moved == config:
        raise ConfigError(
            f"bind_network: no listener is on every address, so {config.bind_network} would change nothing; "
            "write 0.0.0.0:PORT in api.rest_listen, api.grpc_listen and others that are to be on that network"
        )
    return moved
