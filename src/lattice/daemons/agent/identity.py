"""Where an agent's identity comes from: a SPIRE agent, the cluster itself, files, or a token, in this order."""

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc.aio

from lattice.agent.identity.credentials import (
    FileSource,
    IdentityUnavailable,
    NodeCertificate,
    NodeIdentity,
    Source,
    certificate_of,
)
from lattice.daemons.outside.key_files import why_unreadable
from lattice.wire.agents.channel import open_channel

DEFAULT_SPIRE_SOCKET = "/run/spire/agent.sock"
SECURE = "https://"


class BadIdentity(Exception):
    """Contradictory options, or a file that cannot be used; the text is for the operator."""


@dataclass(frozen=True)
class SpireSource:
    socket: str
    more_trusted: bytes
    name: str = "SPIRE"

    async def obtain(self) -> NodeCertificate:
        from lattice.integrations.spire.workload import SpireUnavailable, fetch_svid

        try:
            svid = await fetch_svid(self.socket)
        except SpireUnavailable as error:
            raise IdentityUnavailable(str(error)) from error
        return certificate_of(svid.chain, svid.key, svid.bundle + self.more_trusted)


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """The agent's credentials. `endpoints` are the servers to use once `identity` has started."""

    identity: NodeIdentity
    servers: tuple[str, ...]
    doors: tuple[str, ...]
    files: FileSource | None = None  # certificate and key, where the site provides them

    def endpoints(self) -> tuple[str, ...]:
        return self.servers if self.identity.has_certificate or not self.doors else self.doors

    def open_channel(self, endpoint: str) -> grpc.aio.Channel:
        return open_channel(endpoint, self.identity.channel_credentials())


def add_options(add: Callable[..., argparse.Action]) -> None:
    """Which servers, and who this node is to them."""
    add("--servers", default="", metavar="LIST", help="[https://]host:port[,...] (default: $LATTICE_AGENT_ENDPOINTS)")
    add(
        "--token-file",
        default="",
        metavar="FILE",
        help="file with the token (default: $LATTICE_AGENT_TOKEN_FILE, or the token in $LATTICE_AGENT_TOKEN)",
    )
    add(
        "--enroll-servers",
        default="",
        metavar="LIST",
        help="host:port[,...] that accept the token and issue certificates for --servers",
    )
    add(
        "--spire-socket",
        default="",
        metavar="PATH",
        help=f"socket of the SPIRE agent (default: $LATTICE_SPIRE_SOCKET, or {DEFAULT_SPIRE_SOCKET} if it exists)",
    )
    add(
        "--bootstrap-cert",
        default="",
        metavar="FILE",
        help="certificate of this node (default: $LATTICE_BOOTSTRAP_CERT)",
    )
    add("--bootstrap-key", default="", metavar="FILE", help="key of this node (default: $LATTICE_BOOTSTRAP_KEY)")
    add(
        "--bootstrap-ca",
        default="",
        metavar="FILE",
        help="CA that issued server certificates (default: $LATTICE_BOOTSTRAP_CA)",
    )


def plain_endpoints(text: str) -> tuple[str, bool]:
    """The endpoints without their schemes, and whether the schemes require TLS."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return ",".join(part.removeprefix(SECURE).removeprefix("http://") for part in parts), any(
        part.startswith(SECURE) for part in parts
    )


def build_credentials(
    options: argparse.Namespace,
    servers: Sequence[str],
    doors: Sequence[str],
    token: Callable[[], str] | None,
    *,
    is_secure: bool,
) -> Credentials:
    """Raises BadIdentity."""
    authority = options.bootstrap_ca or os.environ.get("LATTICE_BOOTSTRAP_CA", "")
    trusted = _read(authority) if authority else None
    sources: list[Source] = []
    socket = options.spire_socket or os.environ.get("LATTICE_SPIRE_SOCKET", "")
    if not socket and os.path.exists(DEFAULT_SPIRE_SOCKET):
        socket = DEFAULT_SPIRE_SOCKET
    if socket:
        sources.append(SpireSource(socket, trusted or b""))
    if doors:
        if trusted is None:
            raise BadIdentity("--enroll-servers needs --bootstrap-ca")
        # Cryptography takes 10 MB of memory, which an agent with nothing but a token does not need.
        from lattice.agent.identity.enrolment import EnrolmentSource

        state_dir = options.state_dir.absolute()
        sources.append(
            EnrolmentSource(options.node_id, state_dir, servers=servers, doors=doors, trusted=trusted, token=token)
        )
    files = _file_source(options, authority)
    if files is not None:
        sources.append(files)
    if not sources and token is None:
        raise BadIdentity("no token given: use --token-file or LATTICE_AGENT_TOKEN_FILE, or certificates")
    default = b"" if is_secure else None
    identity = NodeIdentity(sources, token, trusted if trusted is not None else default)
    return Credentials(identity=identity, servers=tuple(servers), doors=tuple(doors), files=files)


def _file_source(options: argparse.Namespace, authority: str) -> FileSource | None:
    certificate = options.bootstrap_cert or os.environ.get("LATTICE_BOOTSTRAP_CERT", "")
    key = options.bootstrap_key or os.environ.get("LATTICE_BOOTSTRAP_KEY", "")
    if not certificate and not key:
        return None
    if not (certificate and key and authority):
        raise BadIdentity("--bootstrap-cert, --bootstrap-key and --bootstrap-ca must be given together")
    # They may come later, from the program that renews them. What is there and closed to this user will not open by itself.
    for flag, path in (("--bootstrap-cert", certificate), ("--bootstrap-key", key)):
        if os.path.exists(path):
            _read(path, flag)
    return FileSource(Path(certificate), Path(key), Path(authority))


def _read(path: str, flag: str = "--bootstrap-ca") -> bytes:
    if problem := why_unreadable(Path(path)):
        raise BadIdentity(f"{flag}: {problem}")
    return Path(path).read_bytes()
