"""`lattice doctor`: looks at everything between this user and the cluster, and says how to repair what is wrong."""

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import LOGIN_HINT, OK, REFUSED, START_HINT, CommandError, message_of
from lattice.cli.output import Column, show_list
from lattice_sdk.client import Client
from lattice_sdk.errors import Forbidden, LatticeError
from lattice_sdk.transport import Endpoint, parse_endpoints

SERVER_FILE = "/etc/lattice/server.yaml"
ASK_FOR_S = 5.0
MAX_CLOCK_S = 30.0
CLOCK_NOTE_S = 3.0
FEW_DAYS = 30
MIN_FREE = 0.05
DAY_S = 86400
OK_, WARNING, FAILED = "ok", "warning", "failed"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One line: what was looked at, how it is, and what to do where it is not well."""

    check: str
    verdict: str
    text: str
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class Options:
    server_config: str = ""


COLUMNS: tuple[Column[Finding], ...] = (
    Column("CHECK", lambda each: each.check),
    Column("VERDICT", lambda each: each.verdict),
    Column("TEXT", lambda each: each.text),
    Column("REMEDY", lambda each: each.remedy, is_sparse=True),
)


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--server-config",
        default="",
        metavar="FILE",
        help=f"on the machine of a server: also check this configuration and its disk (default: {SERVER_FILE} if it exists)",
    )


def run(options: Options, context: Context) -> int:
    findings = list(examine(options, context))
    show_list(context, findings, COLUMNS, name=lambda each: f"{each.check}: {each.verdict}")
    return REFUSED if any(each.verdict == FAILED for each in findings) else OK


def examine(options: Options, context: Context) -> Iterator[Finding]:
    yield from _server_file(options.server_config, context)
    try:
        place = context.settings.place()
        endpoints = parse_endpoints(place.api_url.split(","), insecure_http=context.settings.insecure_http)
    except (CommandError, ValueError) as error:
        hint = error.hint if isinstance(error, CommandError) else START_HINT
        yield Finding(check="configuration", verdict=FAILED, text=str(error), remedy=hint)
        return
    yield Finding(check="configuration", verdict=OK_, text=f"{place.api_url} ({place.origin})")
    answering = 0
    for endpoint in endpoints:
        for finding in _endpoint(endpoint, context):
            answering += finding.check.startswith("server ") and finding.verdict == OK_
            yield finding
    if answering:
        with context.connect(answer_within_s=ASK_FOR_S) as client:
            for look in (_login, _servers, _level, _nodes):
                try:
                    yield from look(client, context)
                except Forbidden:
                    continue  # what this user may not see is for others to look at
                except LatticeError as error:
                    yield Finding(check=look.__name__[1:], verdict=FAILED, text=message_of(error), remedy=LOGIN_HINT)


def _server_file(given: str, context: Context) -> Iterator[Finding]:
    """The configuration of the server on this machine, and room for its data."""
    path = given or (SERVER_FILE if os.access(SERVER_FILE, os.R_OK) else "")
    if not path:
        return
    import subprocess
    import sys

    program = os.path.join(os.path.dirname(sys.executable), "lattice-server")
    try:
        shown = subprocess.run(
            [program, "--config", path, "--show-config"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding(
            check="server configuration", verdict=FAILED, text=str(error), remedy="install lattice-server here"
        )
        return
    if shown.returncode != 0:
        said = shown.stderr.strip().splitlines()[:1] or ["lattice-server refuses it"]
        remedy = f"`lattice-server --config {path} --check-config` says more"
        yield Finding(check="server configuration", verdict=FAILED, text=said[0].removeprefix("error: "), remedy=remedy)
        return
    yield Finding(check="server configuration", verdict=OK_, text=path)
    lines = (line.partition(":") for line in shown.stdout.splitlines())
    data = next((value.strip().strip("'\"") for key, _, value in lines if key == "data_dir"), "")
    if data:
        yield disk(data)


def disk(directory: str) -> Finding:
    """How much room is left where the directory is, or will be."""
    existing = directory
    while not os.path.exists(existing) and existing != os.path.dirname(existing):
        existing = os.path.dirname(existing)
    figures = os.statvfs(existing)
    free, size = figures.f_bavail * figures.f_frsize, figures.f_blocks * figures.f_frsize
    text = f"{free / (1 << 30):.1f} of {size / (1 << 30):.1f} GB free for {directory}"
    is_full = size and free / size < MIN_FREE
    remedy = "free space, or move data_dir to a larger disk" if is_full else ""
    return Finding(check="disk", verdict=WARNING if is_full else OK_, text=text, remedy=remedy)


def _endpoint(endpoint: Endpoint, context: Context) -> Iterator[Finding]:
    """Port, certificate, release and clock of one server."""
    import http.client
    import ssl
    from time import time

    name = str(endpoint)
    if endpoint.scheme == "unix":
        return
    try:
        if endpoint.scheme == "https":
            trust = ssl.create_default_context(cafile=context.settings.ca_file or None)
            asked: http.client.HTTPConnection = http.client.HTTPSConnection(
                endpoint.host, endpoint.port, timeout=ASK_FOR_S, context=trust
            )
        else:
            asked = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=ASK_FOR_S)
        asked.connect()
        shown = asked.sock.getpeercert() if isinstance(asked.sock, ssl.SSLSocket) else None
        asked.request("GET", "/api/v1/version")
        with asked.getresponse() as answer:
            now, body = time(), answer.read(1 << 16)
        asked.close()
    except ssl.SSLCertVerificationError as error:
        remedy = "set ca_file to the authority of the cluster, or renew the server's certificate (api.tls.certificate)"
        yield Finding(check=f"certificate {name}", verdict=FAILED, text=error.verify_message, remedy=remedy)
        return
    except (OSError, http.client.HTTPException) as error:
        text = f"no answer: {getattr(error, 'strerror', None) or error}"
        remedy = "start the server, or open the port in the firewall between here and there"
        yield Finding(check=f"server {name}", verdict=FAILED, text=text, remedy=remedy)
        return
    release = _release(body)
    yield Finding(check=f"server {name}", verdict=OK_, text=f"answers, release {release or 'unknown'}")
    yield from _same_release(release, name)
    if shown and "notAfter" in shown:
        yield certificate(name, ssl.cert_time_to_seconds(str(shown["notAfter"])) - now)
    if date := answer.getheader("Date"):
        yield clock(name, date, now)


def _release(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body).get("release", ""))
    except (msgspec.MsgspecError, AttributeError):
        return ""


def _same_release(release: str, name: str) -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, version

    try:
        own = version("lattice-hpc")
    except PackageNotFoundError:
        return
    if release and own != release:
        remedy = "upgrade the older one; neighbouring releases work together"
        yield Finding(check="release", verdict=WARNING, text=f"this is {own}, {name} is {release}", remedy=remedy)


def certificate(name: str, left_s: float) -> Finding:
    days = int(left_s // DAY_S)
    is_late = days < FEW_DAYS
    return Finding(
        check=f"certificate {name}",
        verdict=WARNING if is_late else OK_,
        text=f"ends in {days} days",
        remedy="renew the server's certificate (api.tls.certificate); it is read again without a restart"
        if is_late
        else "",
    )


def clock(name: str, date: str, now: float) -> Finding:
    """The header has whole seconds, so smaller differences mean nothing."""
    from email.utils import parsedate_to_datetime

    try:
        away = abs(parsedate_to_datetime(date).timestamp() - now)
    except ValueError:
        away = 0.0
    verdict = FAILED if away > MAX_CLOCK_S else WARNING if away > CLOCK_NOTE_S else OK_
    text = "agrees with this machine" if verdict == OK_ else f"differs by {away:.0f} s from this machine"
    remedy = "" if verdict == OK_ else "run a time service (chrony, systemd-timesyncd) on both machines"
    return Finding(check=f"clock {name}", verdict=verdict, text=text, remedy=remedy)


def _login(client: Client, context: Context) -> Iterator[Finding]:
    who = client.whoami()
    text = f"{who.user}, {', '.join(who.roles) or 'no role'}"
    ends = who.expires_at
    if not ends:
        yield Finding(check="login", verdict=OK_, text=text)
        return
    from datetime import datetime

    left_s = datetime.fromisoformat(ends).timestamp() - context.clock.now()
    is_late = left_s < DAY_S
    verdict, remedy = (WARNING, "run `lattice login`, or get a new token") if is_late else (OK_, "")
    yield Finding(
        check="login", verdict=verdict, text=f"{text}; the token ends in {left_s / 3600:.0f} h", remedy=remedy
    )


def _servers(client: Client, _context: Context) -> Iterator[Finding]:
    """What the servers say of each other: health, their own certificates and clocks."""
    status = client.quorum_status()
    if not status.leader:
        remedy = "start the missing servers: more than half of them elect a leader"
        yield Finding(check="servers", verdict=FAILED, text="no server leads", remedy=remedy)
    for member in status.members:
        told = member.problem or member.warning
        verdict = OK_ if member.healthy and not told else WARNING if member.healthy else FAILED
        role = ", leads" if member.name == status.leader else ""
        text = told or f"{'healthy' if member.healthy else 'not healthy'}{role}"
        remedy = "" if verdict == OK_ else "`lattice admin raft status`, and the log of that server"
        yield Finding(check=f"server {member.name}", verdict=verdict, text=text, remedy=remedy)


def _level(client: Client, _context: Context) -> Iterator[Finding]:
    status = client.upgrade_status()
    if status.next_level is None:
        yield Finding(check="level", verdict=OK_, text=f"level {status.level}")
        return
    text = f"level {status.level}; {status.blocked_by or f'level {status.next_level} is possible'}"
    remedy = "`lattice admin upgrade finalize`, when no server will go back to the release before"
    yield Finding(check="level", verdict=WARNING, text=text, remedy=remedy)


def _nodes(client: Client, _context: Context) -> Iterator[Finding]:
    counts: dict[str, int] = {}
    for node in client.list_nodes():
        counts[node.state] = counts.get(node.state, 0) + 1
    text = ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "none"
    is_bad = not counts.get("Ready") or any(counts.get(state) for state in ("Down", "Degraded"))
    remedy = "`lattice nodes` and `lattice node status NODE` say why" if counts else "start lattice-agent on the nodes"
    yield Finding(check="nodes", verdict=WARNING if is_bad else OK_, text=text, remedy=remedy if is_bad else "")


COMMAND = Command(
    lists=True,
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice doctor", "lattice doctor -o json", "lattice doctor --server-config /etc/lattice/server.yaml"),
)
