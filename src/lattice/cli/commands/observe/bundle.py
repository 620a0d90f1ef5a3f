"""`lattice admin diag-bundle`: everything that helps to find a fault, in one file and without secrets."""

import argparse
import io
import os
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice

import msgspec

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, CommandError, UsageError
from lattice.cli.times import parse_duration_s
from lattice_sdk import LatticeError

LONGEST_S = 7 * 86_400
DAY_S = 86_400
MAX_ALLOCATIONS = 10_000


@dataclass(frozen=True, kw_only=True)
class Options:
    node: tuple[str, ...] = ()
    since: str = "1h"
    file: str = ""


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--node", action="append", default=[], metavar="NODE", help="also the log of the agent of this node; repeatable"
    )
    parser.add_argument(
        "--since", default="1h", metavar="TIME", help="how far back logs and metrics go (default: %(default)s)"
    )
    parser.add_argument(
        "--file", default="", metavar="FILE", help="name of the archive (default: lattice-diag-TIME.tar.gz here)"
    )


class _Bundle:
    """Files by name; what was not available is named in `missing.txt`."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.missing: list[str] = []

    def add(self, name: str, ask: Callable[[], object]) -> None:
        try:
            found = ask()
        except LatticeError as error:
            self.missing.append(f"{name}: {error}")
            return
        if isinstance(found, str):
            self.files[name] = found.encode()
        else:
            self.files[name] = msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n"

    def write(self, path: str) -> None:
        if self.missing:
            self.files["missing.txt"] = "\n".join([*self.missing, ""]).encode()
        top = os.path.basename(path).removesuffix(".tar.gz")
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as target, tarfile.open(fileobj=target, mode="w:gz") as archive:
            for name, content in sorted(self.files.items()):
                member = tarfile.TarInfo(f"{top}/{name}")
                member.size, member.mtime, member.mode = len(content), int(time.time()), 0o600
                archive.addfile(member, io.BytesIO(content))


def run(options: Options, context: Context) -> int:
    seconds = int(parse_duration_s(options.since))
    if not 1 <= seconds <= LONGEST_S:
        raise UsageError(f"--since {options.since} is out of range", hint="from 1s to 7d")
    client, bundle = context.client, _Bundle()
    client.whoami()  # a wrong token or a server that is gone is one error, not fifteen
    bundle.add("raft.json", client.quorum_status)
    bundle.add("nodes.json", client.list_nodes)
    bundle.add("allocations.json", lambda: list(islice(client.iter_allocations(), MAX_ALLOCATIONS)))
    bundle.add("scheduler.json", client.scheduler_status)
    bundle.add("upgrade.json", client.upgrade_status)
    bundle.add("settings.json", client.list_settings)
    bundle.add("vclusters.json", client.list_vclusters)
    bundle.add("conformance.json", client.conformance_status)
    _add_servers(bundle, context, seconds)
    for node in options.node:
        _add_node(bundle, context, node, seconds)
    path = options.file or time.strftime("lattice-diag-%Y%m%d-%H%M%S.tar.gz", time.gmtime())
    try:
        bundle.write(path)
    except FileExistsError:
        raise CommandError(f"{path} exists", hint="choose another name with --file") from None
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from error
    context.streams.write(f"{path}\n")
    for line in bundle.missing:
        context.streams.complain(f"missing: {line}\n")
    return OK


def _add_node(bundle: _Bundle, context: Context, node: str, seconds: int) -> None:
    def log() -> str:
        return "\n".join([*context.client.node_log(node, since_s=seconds).log, ""])

    bundle.add(f"nodes/{node}/agent.log", log)
    bundle.add(f"nodes/{node}/events.json", partial(context.client.node_events, node))


def _add_servers(bundle: _Bundle, context: Context, seconds: int) -> None:
    """Every server answers for itself."""
    for number, client in enumerate(context.each_server(), start=1):
        place = f"servers/{number}"
        ask = partial(client.figure_history, duration_s=min(seconds, DAY_S))
        bundle.add(f"{place}/metrics.json", ask)
        try:
            found = client.server_diagnostics(since_s=seconds)
        except LatticeError as error:
            bundle.missing.append(f"{place}: {error}")
            continue
        bundle.files[f"{place}/server.log"] = "\n".join([*found.log, ""]).encode()
        bundle.files[f"{place}/configuration.yaml"] = found.configuration.encode()
        about = f"name: {found.server}\nversion: {found.version}\nleader: {str(found.leader).lower()}\n"
        about += f"applied_index: {found.applied_index}\nproblem: {found.problem!r}\nwarning: {found.warning!r}\n"
        bundle.files[f"{place}/about.yaml"] = about.encode()


BUNDLE = Command(
    options=Options,
    run=run,
    fill=fill,
    examples=("lattice admin diag-bundle", "lattice admin diag-bundle --node n17 --since 2h --file case-123.tar.gz"),
)
