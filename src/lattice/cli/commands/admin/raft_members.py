"""`lattice admin raft members`: which servers belong to the cluster; and `rotate-certificates`, theirs."""

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, REFUSED, UsageError
from lattice.cli.output import Column, show_list, structured
from lattice.cli.times import parse_duration_s, stamp_text
from lattice_sdk.models.records import QuorumServer
from lattice_sdk.models.upgrades import RenewedCertificate

MEBIBYTE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Options:
    name: str = ""
    out: str = ""
    valid_for: str = "1h"


def fill_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the server")


def fill_add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the new server, as in its configuration")
    parser.add_argument("--out", metavar="FILE", help="file for the invitation; - prints it (default: NAME.join)")
    parser.add_argument(
        "--valid-for", metavar="TIME", default="1h", help="validity of the invitation: 10m, 2h (default: 1h)"
    )


COLUMNS: tuple[Column[QuorumServer], ...] = (
    Column("SERVER", lambda s: s.name),
    Column("ROLE", lambda s: s.role),
    Column("HEALTHY", lambda s: "" if s.role == "invited" else "yes" if s.healthy else "no"),
    Column("REST", lambda s: s.rest),
    Column("AGENTS", lambda s: s.grpc, is_wide=True),
    Column("PEER", lambda s: s.peer, is_wide=True),
    Column("ETCD", lambda s: s.etcd_version, is_wide=True),
    Column("DATABASE", lambda s: f"{s.database_bytes / MEBIBYTE:.1f}M" if s.database_bytes else "", is_wide=True),
    Column("CERTIFICATE_UNTIL", lambda s: stamp_text(s.certificate_expires_at)),
    Column("SERIAL", lambda s: s.certificate_serial or "", is_wide=True),
    Column("INVITED_UNTIL", lambda s: s.invited_until or "", is_sparse=True),
    Column("PROBLEM", lambda s: s.problem, is_sparse=True),
)


def run_list(_options: Options, context: Context) -> int:
    show_list(context, context.client.list_servers(), COLUMNS, name=lambda server: server.name)
    return OK


def run_add(options: Options, context: Context) -> int:
    path = None if options.out == "-" else Path(options.out or f"{options.name}.join")
    if path is not None and path.exists():
        raise UsageError(f"{path} exists", hint="name another file by --out")
    invitation = context.client.invite_server(options.name, valid_for_s=round(parse_duration_s(options.valid_for)))
    if path is None:
        if not structured(context, invitation):
            context.streams.write(f"{invitation.token}\n")
        return OK
    _write(path, invitation.token)
    shown = {"name": invitation.name, "file": str(path), "expires_at": invitation.expires_at}
    if not structured(context, shown):
        context.say(
            f"Invited server {invitation.name} until {stamp_text(invitation.expires_at)}; the invitation is in {path}"
        )
        context.say("Its holder can join this cluster as a server, once. On the new machine:")
        context.say(f"  lattice-server --config FILE --join --join-token-file {path}")
    return OK


def _write(path: Path, token: str) -> None:
    """A new file that only its owner may read."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", hint="name another file by --out") from None
    with os.fdopen(fd, "w") as file:
        file.write(f"{token}\n")


def run_remove(options: Options, context: Context) -> int:
    left = context.client.remove_server(options.name)
    if not structured(context, left):
        voters = sum(server.role in ("leader", "voter") for server in left)
        context.say(f"Removed server {options.name}; {_bearing(voters)}")
    return OK


def _bearing(voters: int) -> str:
    if not voters:  # a server that removes itself may not reach the others any more
        return "see the rest with: lattice admin raft members list"
    lost = (voters - 1) // 2
    word = "server is" if voters == 1 else "servers are"
    return f"{voters} {word} left, of which {lost if lost else 'none'} may fail"


def run_promote(options: Options, context: Context) -> int:
    servers = context.client.promote_server(options.name)
    if not structured(context, servers):
        context.say(f"Server {options.name} has a vote")
    return OK


RENEWED: tuple[Column[RenewedCertificate], ...] = (
    Column("SERVER", lambda r: r.name),
    Column("RENEWED", lambda r: "yes" if r.renewed else "no"),
    Column("CERTIFICATE_UNTIL", lambda r: stamp_text(r.certificate_expires_at)),
    Column("SERIAL", lambda r: r.certificate_serial or ""),
    Column("PROBLEM", lambda r: r.problem, is_sparse=True),
)


def run_rotate(_options: Options, context: Context) -> int:
    renewed = context.client.rotate_certificates()
    show_list(context, renewed, RENEWED, name=lambda each: each.name)
    return OK if all(each.renewed for each in renewed) else REFUSED


LIST = Command(
    lists=True,
    options=Options,
    run=run_list,
    examples=("lattice admin raft members list", "lattice admin raft members list -o wide"),
)
ADD = Command(
    options=Options,
    fill=fill_add,
    run=run_add,
    examples=("lattice admin raft members add s4", "lattice admin raft members add s4 --out s4.join --valid-for 10m"),
)
REMOVE = Command(options=Options, fill=fill_name, run=run_remove, examples=("lattice admin raft members remove s4",))
PROMOTE = Command(options=Options, fill=fill_name, run=run_promote, examples=("lattice admin raft members promote s4",))
ROTATE = Command(options=Options, run=run_rotate, examples=("lattice admin raft rotate-certificates",))
