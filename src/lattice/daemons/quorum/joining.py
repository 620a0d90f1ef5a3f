"""A new server presents its invitation to the others until one of them answers with certificates."""

import asyncio
import time
from pathlib import Path

import msgspec

from lattice.api.errors import ErrorAnswer
from lattice.api.rest.exchange import LeaderLost, Pool
from lattice.api.rest.peers import JOIN
from lattice.quorum.peers.directory import ServerEntry
from lattice.quorum.peers.invitations import InvitationError, JoinToken, decode_token
from lattice.quorum.peers.joining import JoinAnswer, accept, ask
from lattice.quorum.trust.certificates import CertificateFolder
from lattice.quorum.trust.tls import joining_context

ANSWER_WITHIN_S = 10.0


async def fetch_certificates(
    folder: CertificateFolder, token_file: Path, server: ServerEntry, api_secret: bytes
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
    answer = await _asked(token, question)
    accept(folder, answer)
    return answer.servers


def read_token(path: Path) -> JoinToken:
    try:
        return decode_token(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise InvitationError(f"cannot read the join token {path}: {error}") from error


async def _asked(token: JoinToken, question: bytes) -> JoinAnswer:
    pool = Pool(joining_context(token.trusted.encode()))
    head = f"POST {JOIN} HTTP/1.1\r\nhost: lattice\r\ncontent-length: {len(question)}\r\n\r\n".encode()
    problems = []
    try:
        for address in token.servers:
            try:
                async with asyncio.timeout(ANSWER_WITHIN_S):
                    exchange = await pool.begin(f"https://{address}", head + question)
                    body = await exchange.body()
            except (LeaderLost, TimeoutError) as error:
                problems.append(f"{address}: {str(error) or 'no answer'}")
                continue
            if exchange.status == 200:
                return msgspec.msgpack.decode(body, type=JoinAnswer)
            if exchange.status < 500:
                raise InvitationError(_refusal(body))
            problems.append(f"{address}: {_refusal(body)}")
    finally:
        pool.close()
    raise InvitationError(f"no server of the cluster accepts the invitation: {'; '.join(problems) or 'it names none'}")


def _refusal(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=ErrorAnswer).error.message
    except msgspec.MsgspecError:
        return "no reason given"
