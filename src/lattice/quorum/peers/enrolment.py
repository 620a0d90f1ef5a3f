"""A new server presents its invitation to the others until one of them answers with certificates."""

import asyncio
import time
from pathlib import Path

import msgspec

from lattice.ports.quorum.peers import PeerLost, PeerRefused, ShowInvitation
from lattice.quorum.peers.directory import ServerEntry
from lattice.quorum.peers.invitations import InvitationError, JoinToken, decode_token
from lattice.quorum.peers.joining import JoinAnswer, accept, ask
from lattice.quorum.trust.certificates import CertificateFolder
from lattice.quorum.trust.tls import joining_context

ASK_WITHIN_S = 30.0
_PAUSE_S = 0.5


async def fetch_certificates(
    folder: CertificateFolder, token_file: Path, server: ServerEntry, api_secret: bytes, show: ShowInvitation
) -> list[ServerEntry]:
    """Installs this server's certificates and returns the addresses of the others. Raises InvitationError."""
    token = read_token(token_file)
    if token.name != server.name:
        raise InvitationError(
            f'{token_file} is an invitation for server "{token.name}", but this server is "{server.name}"'
        )
    if token.expires_at_ms < time.time() * 1000:
        raise InvitationError(
            f"{token_file} has expired; run `lattice admin raft members add {token.name}` for a new one"
        )
    question = msgspec.msgpack.encode(ask(folder, token, server, api_secret))
    answer = await _asked(token, question, show)
    accept(folder, answer)
    return answer.servers


def read_token(path: Path) -> JoinToken:
    try:
        return decode_token(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise InvitationError(f"cannot read the join token {path}: {error}") from error


async def _asked(token: JoinToken, question: bytes, show: ShowInvitation) -> JoinAnswer:
    """The answer of the first server that gives one. Servers that are busy, or elect a leader, are asked again."""
    trust = joining_context(token.trusted.encode())
    deadline = time.monotonic() + ASK_WITHIN_S
    while True:
        problems = []
        for address in token.servers:
            try:
                return msgspec.msgpack.decode(await show(f"https://{address}", question, trust), type=JoinAnswer)
            except PeerRefused as error:
                raise InvitationError(str(error)) from error
            except PeerLost as error:
                problems.append(f"{address}: {error}")
        if not problems or time.monotonic() > deadline:
            told = "; ".join(problems) or "it names none"
            raise InvitationError(f"no server of the cluster accepts the invitation: {told}")
        await asyncio.sleep(_PAUSE_S)
