"""`lattice admin prometheus-targets`: the agents' metrics, as a file that Prometheus reads."""

import argparse
import os
import tempfile
from collections import Counter
from dataclasses import dataclass

import msgspec

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, CommandError
from lattice_sdk.observing.models import MetricTargets


@dataclass(frozen=True, kw_only=True)
class Options:
    write: str = ""


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--write",
        default="",
        metavar="FILE",
        help="replace this file at once, instead of printing (for file_sd_configs)",
    )


def run(options: Options, context: Context) -> int:
    found = context.client.metric_targets()
    text = discovery_file(found)
    if options.write:
        _replace(options.write, text)
        context.streams.complain(f"{options.write}: {len(found.targets)} agents\n")
    else:
        context.streams.write(text.decode())
    for why, count in Counter(each.why for each in found.left_out).items():
        first = ", ".join(each.node for each in found.left_out if each.why == why)[:60]
        nodes = "1 node" if count == 1 else f"{count} nodes"
        context.streams.complain(f"left out: {nodes} ({first}): {why}\n")
    return OK


def discovery_file(found: MetricTargets) -> bytes:
    """One entry per topology group, which becomes a label."""
    groups: dict[str, list[str]] = {}
    for each in found.targets:
        groups.setdefault(each.group, []).append(each.address)
    entries = [
        {"targets": sorted(addresses), "labels": {"group": group} if group else {}}
        for group, addresses in sorted(groups.items())
    ]
    return msgspec.json.format(msgspec.json.encode(entries), indent=2) + b"\n"


def _replace(path: str, text: bytes) -> None:
    """Prometheus may read the file at any moment: it sees the old one or the new one, whole."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".targets-", delete=False) as file:
            file.write(text)
        os.chmod(file.name, 0o644)
        os.replace(file.name, path)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from error


TARGETS = Command(
    options=Options,
    run=run,
    fill=fill,
    examples=(
        "lattice admin prometheus-targets",
        "lattice admin prometheus-targets --write /etc/prometheus/lattice-agents.json",
    ),
)
