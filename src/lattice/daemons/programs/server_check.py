"""What `lattice-server --check-config` says beyond the file itself: data directory, ports, other servers, object store. Nothing is started or left."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

from lattice.config.load import ConfigError
from lattice.config.schema import ServerConfig
from lattice.daemons.outside.local_disk import why_unsuitable
from lattice.daemons.outside.objects import has_shared_store, store_outcomes
from lattice.daemons.server.listening import Address, ListenFailed, check_free, parse_listen
from lattice.daemons.server.lost_data import owner_by
from lattice.quorum.owner import why_foreign, why_other_kind

CONNECT_WITHIN_S = 5.0


def check_surroundings(config: ServerConfig) -> None:
    """Raises ConfigError for what would keep this server from starting here."""
    check_data_dir(config)
    if config.log.file and not os.access(folder := Path(config.log.file).absolute().parent, os.W_OK | os.X_OK):
        raise ConfigError(f"log.file: this user may not write to {folder}, or it does not exist")
    for key, text in _listens(config):
        try:
            check_free(parse_listen(text, key), key)
        except ListenFailed as error:
            raise ConfigError(str(error)) from error


def check_data_dir(config: ServerConfig) -> None:
    """Raises ConfigError for a data directory of another user or cluster, or one on a file server."""
    folder = Path(config.data_dir)
    kind = config.quorum.kind
    problem = (
        why_unsuitable(folder)
        or why_foreign(folder, owner_by(config), is_server_fixed=kind == "etcd")
        or why_other_kind(folder, kind if config.log.kind == "sqlite" else "")
    )
    if problem:
        raise ConfigError(f"data_dir: {problem}")


def check_peers(config: ServerConfig) -> None:
    """Raises ConfigError for servers that would take each other's place."""
    peers = config.quorum.peers
    if config.quorum.kind == "etcd" and config.name not in {peer.name for peer in peers}:
        known = ", ".join(peer.name for peer in peers) or "none"
        raise ConfigError(
            f'quorum.peers: server "{config.name}" is not listed (listed: {known}); add it, or correct `name`'
        )
    for what, values in (
        ("name", [peer.name for peer in peers]),
        ("address", [address for peer in peers for address in (peer.client, peer.peer)]),
    ):
        twice = next((value for value in values if values.count(value) > 1), "")
        if twice:
            raise ConfigError(f"quorum.peers: {what} {twice} is used twice; each server has its own")


def connect_outcomes(config: ServerConfig) -> Iterator[tuple[str, str]]:
    """Each address of the other servers, the login provider and the object store, with an empty text where it answers."""
    for peer in config.quorum.peers:
        if peer.name != config.name:
            for what, text in (("etcd client port", peer.client), ("etcd peer port", peer.peer)):
                yield f"server {peer.name}, {what} {text}", _try(parse_listen(text, what))
    if issuer := config.api.oidc_issuer:
        scheme, _, rest = issuer.partition("://")
        host, colon, port = rest.partition("/")[0].rpartition(":")
        if not (colon and port.isdigit()):
            host, port = rest.partition("/")[0], "443" if scheme == "https" else "80"
        yield f"login provider {issuer}", _try(Address(host.strip("[]"), int(port)))
    if has_shared_store(config):
        yield from store_outcomes(config)


def _listens(config: ServerConfig) -> Iterator[tuple[str, str]]:
    api = config.api
    yield "api.rest_listen", api.rest_listen
    yield "api.grpc_listen", api.grpc_listen
    if api.agent_listen:
        yield "api.agent_listen", api.agent_listen
    if api.proxy_listen:
        yield "api.proxy_listen", api.proxy_listen
    if api.grpc_tls.listen:
        yield "api.grpc_tls.listen", api.grpc_tls.listen


def _try(address: Address) -> str:
    try:
        socket.create_connection(address, CONNECT_WITHIN_S).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""
