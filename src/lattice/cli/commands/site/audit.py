"""`lattice audit`: query and verify the audit log. `verify` works offline."""

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, CommandError, UsageError
from lattice.cli.output import Column, show_list, show_one
from lattice.cli.times import parse_moment, readable_detail, stamp_text
from lattice_sdk.audit_export import AuditBroken, ChainHead, Verdict, verify_export
from lattice_sdk.models.audit import AuditEntry, AuditFilter, AuditKey

COLUMNS: tuple[Column[AuditEntry], ...] = (
    Column("SEQ", lambda entry: str(entry.seq)),
    Column("TIME", lambda entry: entry.at),
    Column("TYPE", lambda entry: entry.type),
    Column("ACTOR", lambda entry: entry.actor),
    Column("OUTCOME", lambda entry: entry.outcome),
    Column("SUBJECT", lambda entry: entry.subject),
    Column("COUNT", lambda entry: str(entry.count), is_wide=True),
    Column("USER", lambda entry: entry.user, is_wide=True),
    Column("TENANT", lambda entry: entry.tenant, is_wide=True),
    Column("NODES", lambda entry: ",".join(entry.nodes), is_wide=True),
    Column("DETAIL", lambda entry: readable_detail(entry.detail)),
)
KEY_COLUMNS: tuple[Column[AuditKey], ...] = (
    Column("ID", lambda key: key.id),
    Column("SERVER", lambda key: key.server),
    Column("ADDED", lambda key: stamp_text(key.added_at)),
    Column("RETIRED", lambda key: stamp_text(key.retired_at)),
    Column("PUBLIC", lambda key: key.public),
)


@dataclass(frozen=True, kw_only=True)
class FilterOptions:
    """Which entries."""

    user: str = ""
    alloc: str = ""
    node: str = ""
    type: str = ""
    since: str = ""
    until: str = ""


@dataclass(frozen=True, kw_only=True)
class QueryOptions(FilterOptions):
    limit: int | None = None


@dataclass(frozen=True, kw_only=True)
class ExportOptions(FilterOptions):
    to: str = ""


@dataclass(frozen=True, kw_only=True)
class VerifyOptions:
    file: str
    key: tuple[str, ...] = ()
    after: str = ""


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """No options."""


def _fill_filter(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--user", metavar="NAME", help="entries by or about this user")
    add("--alloc", metavar="ID", help="entries about this allocation")
    add("--node", metavar="NAME", help="entries about this node")
    add("--type", metavar="TYPE", help="entry type: node.drain, or node for every type about nodes")
    add("--since", metavar="TIME", help="at or after this time: 2026-03-01, RFC 3339, 16:30 or 7d (ago)")
    add("--until", metavar="TIME", help="before this time")


def fill_query(parser: argparse.ArgumentParser) -> None:
    _fill_filter(parser)
    parser.add_argument("--limit", type=int, metavar="N", help="show only the first N")


def fill_export(parser: argparse.ArgumentParser) -> None:
    _fill_filter(parser)
    parser.add_argument("--to", metavar="FILE", help="new file to create, readable only by you (default: stdout)")


def fill_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="export written by `lattice audit export`; - reads stdin")
    parser.add_argument(
        "--key",
        action="append",
        metavar="KEY",
        help="trusted public key in hex, or a file with one key per line; may be repeated",
    )
    parser.add_argument(
        "--after",
        default="",
        metavar="EARLIER",
        help="require that FILE continues the chain of this earlier export, or from this SEQ:LINK that verify printed",
    )


def _filter(options: FilterOptions, context: Context) -> AuditFilter:
    now = context.clock.now()
    return AuditFilter(
        user=options.user,
        allocation=options.alloc,
        node=options.node,
        tenant=context.flags.tenant or "",
        type=options.type,
        since=parse_moment(options.since, now, past=True) if options.since else "",
        until=parse_moment(options.until, now, past=True) if options.until else "",
    )


def run_query(options: QueryOptions, context: Context) -> int:
    limit = None if options.limit is None else max(1, options.limit)
    found = context.client.query_audit(_filter(options, context), limit=limit)
    show_list(context, found, COLUMNS, name=lambda entry: str(entry.seq))
    return OK


def run_export(options: ExportOptions, context: Context) -> int:
    pieces = context.client.export_audit(_filter(options, context))
    if not options.to:
        for piece in pieces:
            context.streams.stdout.write(piece)
        return OK
    path = Path(context.process.directory()) / options.to
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CommandError(f"cannot write {options.to}: {error.strerror}") from None
    with os.fdopen(fd, "wb") as file:
        for piece in pieces:
            file.write(piece)
    context.note(f"written to {options.to}; verify it with `lattice audit verify {options.to}`")
    return OK


def run_verify(options: VerifyOptions, context: Context) -> int:
    trusted = dict(_trusted(options.key, context)) if options.key else None
    after = _earlier(options.after, trusted, context) if options.after else None
    verdict = _verdict(options.file, trusted, after, context)
    if not verdict.trusted:
        context.warn("verified with the keys inside the export; pass the keys you trust with --key")
    show_one(context, verdict, _pairs(verdict))
    return OK


def _verdict(file: str, trusted: dict[str, str] | None, after: ChainHead | None, context: Context) -> Verdict:
    try:
        return verify_export(_lines(file, context), trusted, after)
    except AuditBroken as error:
        raise CommandError(f"{file} does not verify: {error}") from None


def _earlier(given: str, trusted: dict[str, str] | None, context: Context) -> ChainHead:
    """The end of an earlier export, which has to verify itself, or what was written down of it."""
    seq, _, link = given.partition(":")
    if seq.isascii() and seq.isdigit() and len(link) == 64:
        return ChainHead(int(seq), link.lower())
    verdict = _verdict(given, trusted, None, context)
    if not verdict.complete:
        raise UsageError(f"{given} is a selection", hint="--after takes an export of the whole chain, or SEQ:LINK")
    return ChainHead(verdict.last, verdict.link)


def _pairs(verdict: Verdict) -> list[tuple[str, str]]:
    return [
        ("Verdict", "good"),
        ("Entries", f"{verdict.entries} ({verdict.first} to {verdict.last})"),
        ("Chain", f"complete, {verdict.seals} seals" if verdict.complete else "a selection, signed as a whole"),
        *([("Head", str(ChainHead(verdict.last, verdict.link)))] if verdict.complete else []),
        *([("Restored", "at entry " + ", ".join(map(str, verdict.restores)))] if verdict.restores else []),
        ("Exported by", verdict.exported_by),
        ("Keys", ", ".join(verdict.keys)),
    ]


def _lines(name: str, context: Context) -> Iterator[bytes]:
    if name == "-":
        yield from context.streams.stdin
        return
    try:
        with (Path(context.process.directory()) / name).open("rb") as file:
            yield from file
    except OSError as error:
        raise CommandError(f"cannot read {name}: {error.strerror}") from None


def _trusted(given: tuple[str, ...], context: Context) -> Iterator[tuple[str, str]]:
    from hashlib import sha256

    for each in given:
        path = Path(context.process.directory()) / each
        words = path.read_text().split() if path.is_file() else [each]
        for word in words:
            try:
                public = bytes.fromhex(word)
            except ValueError:
                public = b""
            if len(public) != 32:
                hint = "`lattice audit keys` prints them"
                raise UsageError(f'"{word[:80]}" is neither a public key in hex nor a file', hint=hint)
            yield sha256(public).hexdigest()[:16], word.lower()


def run_keys(_options: NoOptions, context: Context) -> int:
    show_list(context, context.client.list_audit_keys(), KEY_COLUMNS, name=lambda key: key.public)
    return OK


def run_rotate(_options: NoOptions, context: Context) -> int:
    key = context.client.rotate_audit_key()
    show_one(context, key, [("Key", key.id), ("Server", key.server), ("Public", key.public)])
    return OK


QUERY = Command(
    lists=True,
    options=QueryOptions,
    run=run_query,
    fill=fill_query,
    examples=(
        "lattice audit query --user=dr-x --since=2026-03-01 --until=2026-03-15",
        "lattice audit query --alloc=a12345",
        "lattice audit query --node=x1000c0s0b0n0 --since=7d -o json",
        "lattice audit query --type=login",
    ),
)
EXPORT = Command(
    options=ExportOptions,
    run=run_export,
    fill=fill_export,
    examples=(
        "lattice audit export --to audit.jsonl",
        "lattice audit export --user=dr-x --since=2026-01-01 --to x.jsonl",
    ),
)
VERIFY = Command(
    options=VerifyOptions,
    run=run_verify,
    fill=fill_verify,
    examples=(
        "lattice audit verify audit.jsonl",
        "lattice audit verify audit.jsonl --key trusted-keys.txt",
        "lattice audit verify today.jsonl --after last-month.jsonl --key trusted-keys.txt",
    ),
)
KEYS = Command(
    lists=True,
    options=NoOptions,
    run=run_keys,
    examples=("lattice audit keys", "lattice audit keys -q > trusted-keys.txt"),
)
ROTATE = Command(options=NoOptions, run=run_rotate, examples=("lattice audit rotate-key",))
