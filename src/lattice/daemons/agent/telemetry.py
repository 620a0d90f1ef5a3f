"""Where the agent sends its windows: `--tsdb-endpoint`."""

import argparse
from collections.abc import Callable
from urllib.parse import urlsplit

from lattice.agent.messages import NodeFacts
from lattice.agent.telemetry.push.pusher import PushSettings
from lattice.config.secrets import SecretError, resolve
from lattice.daemons.agent.choices import CannotStart


def add_push_options(add: Callable[..., argparse.Action]) -> None:
    add(
        "--tsdb-endpoint",
        type=_endpoint,
        default="",
        metavar="URL",
        help="time-series store that takes Prometheus remote write, as in https://vm.example.org/api/v1/write (default: none)",
    )
    add(
        "--tsdb-token",
        default="",
        metavar="REFERENCE",
        help="bearer token for it, by reference: file://PATH or env://NAME",
    )
    add("--tsdb-ca-file", default="", metavar="FILE", help="certificates that vouch for it (default: the system's)")


def _endpoint(text: str) -> str:
    if not text:
        return ""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise argparse.ArgumentTypeError("must be http://HOST/PATH or https://HOST/PATH")
    if parts.username or parts.password:
        raise argparse.ArgumentTypeError("must not hold a password; use --tsdb-token")
    return text


def push_settings(options: argparse.Namespace, facts: NodeFacts) -> PushSettings | None:
    """None where nothing is sent. Raises CannotStart."""
    if not options.tsdb_endpoint:
        for name in ("tsdb_token", "tsdb_ca_file"):
            if getattr(options, name):
                raise CannotStart(f"--{name.replace('_', '-')} needs --tsdb-endpoint")
        return None
    reference = options.tsdb_token
    if (
        reference
        and options.tsdb_endpoint.startswith("http://")
        and urlsplit(options.tsdb_endpoint).hostname not in _HERE
    ):
        raise CannotStart("--tsdb-token would travel in clear text: use https:// in --tsdb-endpoint")
    if reference:
        _token(reference)
    return PushSettings(
        endpoint=options.tsdb_endpoint,
        node=facts.node_id,
        group=facts.group,
        token=(lambda: _token_now(reference)) if reference else None,
        ca_file=options.tsdb_ca_file,
    )


_HERE = ("localhost", "127.0.0.1", "::1")


def _token_now(reference: str) -> str:
    """Read for each request, so that a new token needs no restart. Raises ValueError."""
    try:
        return _token(reference)
    except CannotStart as error:
        raise ValueError(str(error)) from error


def _token(reference: str) -> str:
    try:
        return resolve(reference, key="--tsdb-token", mode="production").decode("ascii")
    except (SecretError, UnicodeDecodeError) as error:
        raise CannotStart(str(error)) from error
