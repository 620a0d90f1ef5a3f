"""What `lattice-server --check-config` says beyond the file itself: data directory, ports, other servers, object store. Nothing is started or left."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

from lattice.config.load import ConfigError
from lattice.config.schema import ServerConfig
from lattice.daemons.outside.objects import has_shared_store, store_outcomes
from lattice.daemons.server.listening import Address, ListenFailed, check_free, parse_listen

CONNECT_WITHIN_S = 5.0
OVER_THE_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "lustre", "9p", "afs", "ceph", "fuse.sshfs"})


def check_surroundings(config: ServerConfig) -> None:
    """Raises ConfigError for what would keep this server from starting here."""
    _check_data_dir(Path(config.data_dir))
    if config.log.file and not os.access(folder := Path(config.log.file).absolute().parent, os.W_OK | os.X_OK):
        raise ConfigError(f"log.file: this user may not write to {folder}, or it does not exist")
    for key, text in _listens(config):
        try:
            check_free(parse_listen(text, key), key)
        except ListenFailed as error:
            raise ConfigError(str(error)) from error


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


def _check_data_dir(directory: Path) -> None:
    directory = directory.absolute()
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    if not existing.is_dir():
        raise ConfigError(f"data_dir: {existing} is not a directory")
    if not os.access(existing, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigError(f"data_dir: this user may not write to {existing}; run as its owner, or change the owner")
    if existing == directory and (owner := directory.stat().st_uid) != os.geteuid():
        raise ConfigError(f"data_dir: {directory} belongs to uid {owner}, and this is uid {os.geteuid()}")
    if (kind := _file_system(existing)) in OVER_THE_NETWORK:
        raise ConfigError(f"data_dir: {directory} is on {kind}; the log needs a local disk")


def _file_system(directory: Path) -> str:
    """The kind of the file system that holds the directory; empty where the kernel does not say."""
    resolved = directory.resolve()
    best, kind = Path("/"), ""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    for line in mounts.splitlines():
        _, place, found, *_ = line.split(" ")
        mounted = Path(place.replace("\\040", " "))
        if resolved.is_relative_to(mounted) and len(mounted.parts) >= len(best.parts):
            best, kind = mounted, found
    return kind


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
