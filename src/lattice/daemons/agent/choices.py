"""The servers and the identity of an agent, from its options and the environment."""

import argparse
import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from lattice.daemons.agent.identity import BadIdentity, Credentials, build_credentials, plain_endpoints


class CannotStart(Exception):
    """The agent cannot start; the text is for the operator. `key`: of the configuration, where the text does not begin with its flag."""

    def __init__(self, text: str, key: str = "") -> None:
        super().__init__(text)
        self.key = key


def split_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def choose_endpoints(servers: str) -> tuple[str, ...]:
    endpoints = split_list(servers or os.environ.get("LATTICE_AGENT_ENDPOINTS", ""))
    if not endpoints:
        raise CannotStart("no server given: use --servers host:port or LATTICE_AGENT_ENDPOINTS")
    for endpoint in endpoints:
        host, colon, port = endpoint.rpartition(":")
        if not (host and colon and port.isdigit()):
            raise CannotStart(f"not a server address: {endpoint!r} (expected host:port)", key="servers")
    return endpoints


def choose_token(token_file: str) -> Callable[[], str] | None:
    """The source of the token, if there is one; a file is read again for each stream, so that it can be replaced."""
    path = token_file or os.environ.get("LATTICE_AGENT_TOKEN_FILE", "")
    if path:
        return partial(_read_token, Path(path))
    token = os.environ.pop("LATTICE_AGENT_TOKEN", "")
    return (lambda: token) if token else None


def _read_token(path: Path) -> str:
    """Raises OSError, for what is no text too: a token is sent as it is."""
    try:
        return path.read_bytes().decode("ascii").strip()
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, "it holds no token, but bytes that are not text", str(path)) from error


def _refuse_closed(token: Callable[[], str] | None) -> None:
    """A token may come later. A file that is there and cannot be read will not open by itself. Raises CannotStart."""
    try:
        if token is not None:
            token()
    except FileNotFoundError:
        return
    except OSError as error:
        raise unreadable_token(error) from error


def unreadable_token(error: OSError) -> CannotStart:
    return CannotStart(f"cannot read the token file: {error.filename}: {error.strerror}", key="token_file")


def choose_credentials(options: argparse.Namespace) -> Credentials:
    """The agent's identity and its servers. Raises CannotStart."""
    servers, is_secure = plain_endpoints(options.servers or os.environ.get("LATTICE_AGENT_ENDPOINTS", ""))
    doors, _ = plain_endpoints(options.enroll_servers)
    token = choose_token(options.token_file)
    _refuse_closed(token)
    try:
        return build_credentials(
            options,
            choose_endpoints(servers),
            choose_endpoints(doors) if doors else (),
            token,
            is_secure=is_secure,
        )
    except BadIdentity as error:
        raise CannotStart(str(error)) from error
