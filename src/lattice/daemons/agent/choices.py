"""The servers and the identity of an agent, from its options and the environment."""

import argparse
import os
from collections.abc import Callable
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
        return lambda: Path(path).read_text().strip()
    token = os.environ.pop("LATTICE_AGENT_TOKEN", "")
    return (lambda: token) if token else None


def choose_credentials(options: argparse.Namespace) -> Credentials:
    """The agent's identity and its servers. Raises CannotStart."""
    servers, is_secure = plain_endpoints(options.servers or os.environ.get("LATTICE_AGENT_ENDPOINTS", ""))
    doors, _ = plain_endpoints(options.enroll_servers)
    try:
        return build_credentials(
            options,
            choose_endpoints(servers),
            choose_endpoints(doors) if doors else (),
            choose_token(options.token_file),
            is_secure=is_secure,
        )
    except BadIdentity as error:
        raise CannotStart(str(error)) from error
