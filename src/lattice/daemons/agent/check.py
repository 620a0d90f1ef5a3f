"""What `lattice-agent --check-config` says: nothing is started, locked or made."""

import socket
import sys
from pathlib import Path

from lattice.agent.identity.credentials import FileSource
from lattice.agent.settings import Settings
from lattice.daemons.agent.choices import CannotStart, unreadable_token
from lattice.daemons.agent.identity import Credentials
from lattice.daemons.outside.key_files import why_no_pair, why_unreadable
from lattice.daemons.outside.local_disk import why_unsuitable

CONNECT_WITHIN_S = 5.0
EXIT_UNREACHABLE = 2


def report_check(settings: Settings, credentials: Credentials, *, connect: bool) -> int:
    """Prints what the agent would offer and to whom; returns the exit code. Raises CannotStart for what it could not use."""
    check_state_dir(settings.state_dir)
    if not credentials.identity.has_sources:
        _check_token(credentials)
    if credentials.files is not None:
        _check_files(credentials.files)
    facts = settings.facts
    sys.stdout.write(f"node {facts.node_id}: {facts.cpus} CPUs, {facts.memory_mb} MB of memory, {facts.gpus} GPUs\n")
    reached = [_try(endpoint) for endpoint in credentials.servers + credentials.doors] if connect else [True]
    if not all(reached):
        sys.stderr.write("lattice-agent: the configuration is valid, but not every server can be reached\n")
        return EXIT_UNREACHABLE
    sys.stdout.write("the configuration is valid\n")
    return 0


def check_state_dir(directory: Path) -> None:
    """Raises CannotStart for a state directory of another user, or one on a file server: nodes would meet in it."""
    if problem := why_unsuitable(directory):
        raise CannotStart(f"cannot use the state directory {directory}: {problem}", key="state_dir")


def _check_token(credentials: Credentials) -> None:
    try:
        has_token = bool(credentials.identity.token())
    except OSError as error:
        raise unreadable_token(error) from error
    if not has_token:
        text = "the token file is empty; `lattice-server --agent-token NODE` prints a token"
        raise CannotStart(text, key="token_file")


def _check_files(files: FileSource) -> None:
    """They are there, and belong together."""
    for flag, path in (("--bootstrap-cert", files.certificate), ("--bootstrap-key", files.key)):
        if problem := why_unreadable(path):
            raise CannotStart(f"{flag}: {problem}")
    if problem := why_no_pair(files.certificate, files.key):
        raise CannotStart(f"--bootstrap-key: {problem}")


def _try(endpoint: str) -> bool:
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_WITHIN_S).close()
    except OSError as error:
        sys.stdout.write(f"server {endpoint}: cannot be reached: {error.strerror or error}\n")
        return False
    sys.stdout.write(f"server {endpoint}: reached\n")
    return True
