"""Where the agent sends its windows, and what it does not read: `--tsdb-endpoint`, `--telemetry-without`."""

import argparse
from collections.abc import Callable
from urllib.parse import urlsplit

from lattice.agent.messages import NodeFacts
from lattice.agent.telemetry.node import TelemetrySettings
from lattice.agent.telemetry.push.marking import MAX_DSCP
from lattice.agent.telemetry.push.requests import PushSettings
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
    add(
        "--tsdb-dscp",
        type=_dscp,
        default=0,
        metavar="N",
        help=f"DSCP of the packets to it, from 0 to {MAX_DSCP}: 8 (CS1) lets them wait behind all others (default: 0)",
    )


def add_telemetry_options(add: Callable[..., argparse.Action]) -> None:
    add_push_options(add)
    add(
        "--telemetry-without",
        type=_sources,
        default=frozenset(),
        metavar="LIST",
        help=f"sources of figures not to read, comma-separated: {', '.join(SOURCES[:-1])} or {SOURCES[-1]} (default: none)",
    )


SOURCES = ("bpf", "cgroup", "nvml", "dcgm", "rocm", "fanotify")


def _sources(text: str) -> frozenset[str]:
    named = frozenset(word.strip() for word in text.split(",") if word.strip())
    if unknown := sorted(named - set(SOURCES)):
        raise argparse.ArgumentTypeError(f'no source "{unknown[0]}"; known are {", ".join(SOURCES)}')
    return named


def _dscp(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 2 and int(text) <= MAX_DSCP):
        raise argparse.ArgumentTypeError(f"must be a number from 0 to {MAX_DSCP}")
    return int(text)


def _endpoint(text: str) -> str:
    if not text:
        return ""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise argparse.ArgumentTypeError("must be http://HOST/PATH or https://HOST/PATH")
    if parts.username or parts.password:
        raise argparse.ArgumentTypeError("must not hold a password; use --tsdb-token")
    return text


def telemetry_settings(options: argparse.Namespace, facts: NodeFacts) -> TelemetrySettings:
    """Raises CannotStart."""
    return TelemetrySettings(push=push_settings(options, facts), without=options.telemetry_without)


def push_settings(options: argparse.Namespace, facts: NodeFacts) -> PushSettings | None:
    """None where nothing is sent. Raises CannotStart."""
    if not options.tsdb_endpoint:
        for name in ("tsdb_token", "tsdb_ca_file", "tsdb_dscp"):
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
        dscp=options.tsdb_dscp,
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
