"""`lattice admin backup`: created by the leader, listed and fetched from all servers; verified and restored there, or offline here."""

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from time import monotonic

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, REFUSED, CommandError, UsageError
from lattice.cli.output import Column, show_list, show_one
from lattice.cli.progress import StatusLine, share_text, ticking
from lattice.cli.times import stamp_text
from lattice_sdk.models.backups import Backup

COLUMNS: tuple[Column[Backup], ...] = (
    Column("CREATED", lambda backup: stamp_text(backup.created_at)),
    Column("ENTRY", lambda backup: str(backup.index)),
    Column("SIZE", lambda backup: size_text(backup.size_bytes)),
    Column("SERVER", lambda backup: backup.server),
    Column("HELD BY", lambda backup: ",".join(backup.held_by) or backup.server),
    Column("PATH", lambda backup: backup.path),
)


@dataclass(frozen=True, kw_only=True)
class CreateOptions:
    path: str = ""


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """Takes nothing."""


@dataclass(frozen=True, kw_only=True)
class VerifyOptions:
    path: str = ""
    source: str = ""
    server_config: str = ""
    on_server: bool = False
    from_object_store: bool = False


@dataclass(frozen=True, kw_only=True)
class FetchOptions:
    path: str
    server: str = ""
    to: str = ""


@dataclass(frozen=True, kw_only=True)
class RestoreOptions:
    path: str = ""
    server_config: str = ""
    from_object_store: bool = False
    at_next_start: bool = False
    replaces: str = ""


def fill_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path",
        nargs="?",
        default="",
        metavar="PATH",
        help="new directory on the leader (default: chosen by the leader)",
    )


def fill_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", nargs="?", default="", metavar="PATH", help="backup directory or packed snapshot on this machine"
    )
    parser.add_argument("--source", default="", metavar="PATH", help="same as the positional PATH")
    parser.add_argument(
        "--on-server", action="store_true", help="use PATH, or the newest backup, on the server that holds it"
    )
    parser.add_argument(
        "--from-object-store",
        action="store_true",
        help="use the newest snapshot in the object store configured in --server-config",
    )
    parser.add_argument(
        "--server-config",
        default="",
        metavar="FILE",
        help="configuration of a server, for --from-object-store",
    )


def fill_fetch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="path that `lattice admin backup list` shows, or its last part")
    parser.add_argument(
        "--from", dest="server", default="", metavar="SERVER", help="server that holds it (default: any that does)"
    )
    parser.add_argument(
        "--to",
        default="",
        metavar="SERVER",
        help="server into whose backup directory it is copied (default: the leader)",
    )


def fill_restore(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", nargs="?", default="", metavar="PATH", help="backup directory or packed snapshot")
    parser.add_argument(
        "--server-config",
        default="",
        metavar="FILE",
        help="configuration of the server; its data directory must be empty",
    )
    parser.add_argument(
        "--from-object-store",
        action="store_true",
        help="use the newest good snapshot in the object store instead of PATH",
    )
    parser.add_argument(
        "--at-next-start",
        action="store_true",
        help="make the running server (only if it is the single one) restore PATH at its next start",
    )
    parser.add_argument(
        "--replaces",
        default="",
        metavar="DIR",
        help="former data directory, moved away before; the part of its audit chain that the backup lacks is kept",
    )


def run_create(options: CreateOptions, context: Context) -> int:
    with ticking(context, "the server is writing a backup"):
        backup = context.client.create_backup(options.path)
    _show(context, backup)
    return OK


def run_list(_options: ListOptions, context: Context) -> int:
    show_list(context, context.client.list_backups(), COLUMNS, name=lambda backup: backup.path)
    return OK


def run_verify(options: VerifyOptions, context: Context) -> int:
    path = options.path or options.source
    if options.on_server:
        with ticking(context, "the server is reading the backup"):
            backup = context.client.verify_backup(path)
        _show(context, backup, verdict="good")
        return OK
    _check_source(path, options.server_config, from_object_store=options.from_object_store)
    found = _offline(context, ["verify", *([path] if path else []), *_with_config(options.server_config)])
    pairs = [("Backup", str(found["path"])), ("Entry", str(found["index"])), ("Verdict", "good")]
    show_one(context, found, pairs)
    return OK


def run_fetch(options: FetchOptions, context: Context) -> int:
    with ticking(context, "the server is fetching the backup"):
        backup = context.client.fetch_backup(options.path, options.server, options.to)
    _show(context, backup, verdict="good")
    return OK


def run_restore(options: RestoreOptions, context: Context) -> int:
    if options.at_next_start:
        if not options.path:
            raise UsageError("name the backup on the server", hint="lattice admin backup list")
        order = context.client.restore_backup(options.path)
        show_one(context, order, [("Backup", order.path), ("Entry", str(order.index)), ("Next", order.message)])
        return OK
    if not options.server_config:
        raise UsageError(
            "name the settings of the server that is to be restored",
            hint="lattice admin backup restore PATH --server-config /etc/lattice/server.yaml",
        )
    _check_source(options.path, options.server_config, from_object_store=options.from_object_store)
    arguments = ["restore", *([options.path] if options.path else []), *_with_config(options.server_config)]
    arguments += ["--replaces", options.replaces] if options.replaces else []
    done = _offline(context, arguments)
    pairs = [
        ("Restored", str(done["source"])),
        ("Into", str(done["data_dir"])),
        ("Entry", str(done["index"])),
        ("Epoch", str(done["epoch"])),
        ("Next", str(done["next"])),
    ]
    show_one(context, done, pairs)
    return OK


def _check_source(path: str, config: str, *, from_object_store: bool) -> None:
    if bool(path) == from_object_store:
        raise UsageError("name either a backup or --from-object-store")
    if from_object_store and not config:
        raise UsageError("--from-object-store needs --server-config: the settings name the object store")
    if "://" in path:
        raise UsageError(f"{path} is no path", hint="use --from-object-store, or fetch it first")


def _with_config(config: str) -> list[str]:
    return ["--config", config] if config else []


def _offline(context: Context, arguments: list[str]) -> dict[str, object]:
    """What the program that works without a server says in the end; its progress is shown to a terminal."""
    command = [sys.executable, "-m", "lattice.daemons.programs.backup", *arguments]
    began = monotonic()
    with (
        StatusLine(context) as progress,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=context.process.directory()
        ) as work,
    ):
        for line in work.stdout or ():
            message = json.loads(line)
            if "result" in message:
                return dict(message["result"])
            if "failed" in message:
                raise CommandError(message["failed"], hint=message.get("hint", ""))
            what, done, total = message["progress"], message["done"], message["total"]
            progress.show(share_text(what, done, total, monotonic() - began, context.clock.now()))
    raise CommandError(
        f"the work ended without a result (exit code {work.returncode})", exit_code=work.returncode or REFUSED
    )


def _show(context: Context, backup: Backup, verdict: str = "") -> None:
    pairs = [
        ("Backup", backup.path),
        ("Server", backup.server),
        ("Held by", ", ".join(backup.held_by) or backup.server),
        ("Created", stamp_text(backup.created_at)),
        ("Entry", str(backup.index)),
        ("Size", size_text(backup.size_bytes)),
    ]
    show_one(context, backup, [*pairs, *([("Verdict", verdict)] if verdict else [])])


def size_text(size: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size} {unit}"
        size //= 1024
    return f"{size} GiB"


CREATE = Command(
    options=CreateOptions,
    run=run_create,
    fill=fill_create,
    examples=("lattice admin backup create", "lattice admin backup create /srv/backups/before-upgrade"),
)
LIST = Command(lists=True, options=ListOptions, run=run_list, examples=("lattice admin backup list",))
VERIFY = Command(
    options=VerifyOptions,
    run=run_verify,
    fill=fill_verify,
    examples=(
        "lattice admin backup verify /srv/backups/before-upgrade",
        "lattice admin backup verify --from-object-store --server-config /etc/lattice/server.yaml",
        "lattice admin backup verify --on-server",
    ),
)
FETCH = Command(
    options=FetchOptions,
    run=run_fetch,
    fill=fill_fetch,
    examples=(
        "lattice admin backup fetch backup-20260305T120000.000000Z",
        "lattice admin backup fetch before-upgrade --from s2 --to s1",
    ),
)
RESTORE = Command(
    options=RestoreOptions,
    run=run_restore,
    fill=fill_restore,
    examples=(
        "lattice admin backup restore /srv/backups/before-upgrade --server-config /etc/lattice/server.yaml",
        "lattice admin backup restore --from-object-store --server-config /etc/lattice/server.yaml",
        "lattice admin backup restore /srv/backups/before-upgrade --at-next-start",
    ),
)
