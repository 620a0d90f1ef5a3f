"""`lattice admin raft status`: the servers, who leads, and whether they agree."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.output import show_one
from lattice.cli.times import stamp_text
from lattice_sdk.models.records import QuorumMember

SERIAL_SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class Options:
    """Takes nothing."""


def run(_options: Options, context: Context) -> int:
    status = context.client.quorum_status()
    pairs = [
        ("Leader", status.leader or "none"),
        ("Asked", status.server),
        ("Compared at", "-" if status.digest_index is None else str(status.digest_index)),
        *((member.name, _line(member)) for member in status.members),
    ]
    show_one(context, status, pairs)
    return OK


@dataclass(frozen=True, kw_only=True)
class TransferOptions:
    name: str = ""


def fill_transfer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", nargs="?", default="", metavar="NAME", help="server to make the leader (default: any other)"
    )


def run_transfer(options: TransferOptions, context: Context) -> int:
    status = context.client.transfer_leader(options.name)
    show_one(context, status, [("Leader", status.leader)])
    return OK


def _line(member: QuorumMember) -> str:
    if not member.healthy and member.applied_index is not None:
        return f"unhealthy, entry {member.applied_index}: {member.problem}"
    if not member.healthy:
        return f"does not answer: {member.problem}" if member.problem else "does not answer"
    parts = [f"healthy, entry {member.applied_index}, digest {member.digest or 'unknown'}"]
    if member.certificate_serial:
        parts.append(
            f"certificate {member.certificate_serial[:SERIAL_SHOWN]} until {stamp_text(member.certificate_expires_at)}"
        )
    if member.warning:
        parts.append(member.warning)
    return "; ".join(parts)


STATUS = Command(options=Options, run=run, examples=("lattice admin raft status", "lattice admin raft status -o json"))
TRANSFER = Command(
    options=TransferOptions,
    run=run_transfer,
    fill=fill_transfer,
    examples=("lattice admin raft transfer-leader", "lattice admin raft transfer-leader s2"),
)
