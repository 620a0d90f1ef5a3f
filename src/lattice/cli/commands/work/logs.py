"""`lattice logs`: what an allocation wrote, byte for byte."""

import argparse
import contextlib
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import for_each
from lattice.cli.errors import OK, UsageError
from lattice.cli.following import STREAMS, Followed, Follower, write_output
from lattice.cli.output import show_line, structured
from lattice.cli.times import parse_moment
from lattice.cli.views.log_lines import STAMP, LineBuffer, Pattern, in_order, lines_of
from lattice_sdk.calls.streams import LogsPart
from lattice_sdk.errors import Invalid
from lattice_sdk.models.records import Allocation, AllocationFilter, LogChunk
from lattice_sdk.models.runs import LogsDeleted

ONE_PAGE = 10_000
DELETE = "delete"


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()
    follow: bool = False
    tail: int | None = None
    stdout: bool = False
    stderr: bool = False
    node: str = ""
    run: int | None = None
    since: str = ""
    until: str = ""
    timestamps: bool = False
    grep: str | None = None
    step: int | None = None
    rank: int | None = None

    @property
    def is_filtered(self) -> bool:
        return bool(self.since or self.until or self.timestamps or self.grep is not None)

    @property
    def streams(self) -> tuple[str, ...]:
        """Both, unless one was asked for."""
        if self.stdout == self.stderr:
            return STREAMS
        return ("stdout",) if self.stdout else ("stderr",)


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "ids",
        nargs="+",
        metavar="ID",
        help="allocation, task or task group; a group prints each task under its name; "
        "`delete` before the first deletes what is stored of finished work",
    )
    add(
        "-f",
        "--follow",
        action="store_true",
        help="keep printing until the allocation finishes; of several or a group, each line starts with its task's name",
    )
    add("--tail", type=int, metavar="N", help="show only the last N lines of each stream and node")
    add("--stdout", action="store_true", help="show only stdout")
    add("--stderr", action="store_true", help="show only stderr")
    add("--node", metavar="NODE", help="show only the output of this node")
    add("--run", type=int, metavar="N", help="show this run (default: the newest)")
    add("--since", metavar="TIME", help="show lines written since: 10m (ago), 16:30, 2026-03-01, RFC 3339")
    add("--until", metavar="TIME", help="show lines written up to this time")
    add("--timestamps", action="store_true", help="show before each line when it was written, in UTC")
    add("--step", type=int, metavar="S", help="show the output of this step")
    add("--rank", type=int, metavar="R", help="with --step: show only this rank")
    add("--grep", metavar="RE", help="show only lines that match the regular expression")


def run(options: Options, context: Context) -> int:
    if options.tail is not None and options.tail < 0:
        raise UsageError("--tail cannot be negative")
    Pattern(options.grep)
    if options.ids[0] == DELETE:
        return _delete(options, context)
    if options.step is not None or options.rank is not None:
        return _show_step(options, context)
    if options.follow:
        return _follow_all(options, context)
    if len(options.ids) == 1:
        return _print_all(options.ids[0], options, context)

    def show(name: str) -> None:
        _head(name, context)
        _print_all(name, options, context)

    _, code = for_each(options.ids, show, context)
    return code


def _show_step(options: Options, context: Context) -> int:
    if options.step is None:
        raise UsageError("--rank needs --step", hint="lattice steps ID lists the steps")
    refused = _without_times(options)
    if refused:
        raise UsageError(f"{refused} does not go with --step", hint="the output of steps has no times and one run")
    if len(options.ids) > 1:
        raise UsageError("--step goes with one ID", hint="show one after the other")
    if options.follow and options.tail is not None:
        raise UsageError(
            "--tail does not go with --step and --follow", hint="it shows the end of a step that has ended"
        )
    from lattice.cli.terminal.step_output import Wanted, show_step

    wanted = Wanted(
        rank=options.rank,
        node=options.node,
        streams=options.streams,
        tail=options.tail,
        pattern=Pattern(options.grep),
    )
    return show_step(context, options.ids[0], options.step, wanted, follow=options.follow)


def _without_times(options: Options) -> str:
    """The first flag that means nothing for a step, whose output has no times and is that of one run."""
    given = {
        "--since": bool(options.since),
        "--until": bool(options.until),
        "--timestamps": options.timestamps,
        "--run": options.run is not None,
    }
    return next((flag for flag, is_given in given.items() if is_given), "")


def _delete(options: Options, context: Context) -> int:
    names = options.ids[1:]
    if not names:
        raise UsageError("name what is to be deleted", hint="lattice logs delete a17")
    if options != Options(ids=options.ids, run=options.run):
        raise UsageError("logs delete takes no flag but --run", hint="all output of the work or of one run is deleted")

    def delete(name: str) -> LogsDeleted:
        deleted = context.client.delete_logs(name, run=options.run)
        if context.output not in {"json", "yaml"}:
            context.streams.write(f"{deleted.id}: {deleted.objects} stored objects deleted\n")
        return deleted

    found, code = for_each(names, delete, context)
    if context.output in {"json", "yaml"}:
        structured(context, found)
    return code


def _head(name: str, context: Context) -> None:
    if context.output not in {"json", "yaml"}:
        context.streams.write(f"==> {name} <==\n")


def _print_all(name: str, options: Options, context: Context) -> int:
    """An allocation's output, or that of each task of a group that has started, under its name."""
    try:
        return _print(name, options, context)
    except Invalid:
        if "_" in name or context.client.get_allocation(name).task_counts is None:
            raise
    wanted = AllocationFilter(group=name, is_archive_included=True)
    tasks = [task for task in context.client.iter_allocations(wanted, page_size=ONE_PAGE) if task.run]
    for task in sorted(tasks, key=lambda task: task.number):
        of_task = f"{task.group_id}_{task.task_index}"
        _head(of_task, context)
        _print(of_task, options, context)
    return OK


def _print(name: str, options: Options, context: Context) -> int:
    """Each stream to its own, in the order in which they were written; a single one to stdout."""
    if context.output in {"json", "yaml"}:
        _print_structured(name, options, context)
        return OK
    if options.is_filtered:
        _print_lines(name, options, context)
        return OK
    begun = {stream: _begun(_pieces(name, stream, options, context)) for stream in options.streams}
    if all(first for first, _ in begun.values()) and len(begun) > 1:
        try:
            _print_lines(name, options, context)
        except Invalid:  # a server of release 0.1.0 knows no times
            pass
        else:
            return OK
    for stream, (first, rest) in begun.items():
        for piece in itertools.chain((first,), rest):
            _write(stream, piece, options, context)
    return OK


def _begun(pieces: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    return next(pieces, b""), pieces


def _print_structured(name: str, options: Options, context: Context) -> None:
    texts = {
        stream: b"".join(_chosen(_pieces(name, stream, options, context), options)).decode("utf-8", "replace")
        for stream in options.streams
    }
    if len(texts) > 1:
        structured(context, {"id": name, **texts})
    else:
        ((stream, data),) = texts.items()
        structured(context, {"id": name, "stream": stream, "data": data})


def _chosen(pieces: Iterator[bytes], options: Options) -> Iterable[bytes]:
    pattern = Pattern(options.grep)
    start = STAMP if options.timestamps else 0
    return (line for line in lines_of(pieces) if pattern.matches(line[start:])) if pattern else pieces


def _print_lines(name: str, options: Options, context: Context) -> None:
    """With stamps from the server, by which lines are put in order; they are cut off unless they were asked for."""
    pattern, start = Pattern(options.grep), 0 if options.timestamps else STAMP
    streams = {stream: _pieces(name, stream, options, context, stamps=True) for stream in options.streams}
    for stream, line in in_order(streams):
        if pattern.matches(line[STAMP:]):
            _write(stream, line[start:], options, context)


def _pieces(name: str, stream: str, options: Options, context: Context, *, stamps: bool = False) -> Iterator[bytes]:
    return context.client.iter_logs(
        name,
        stream=stream,
        tail=options.tail,
        node=options.node,
        run=options.run,
        part=_part(options, context, stamps=stamps or options.timestamps),
        dropped=lambda count: _note_dropped(stream, context, count),
    )


def _part(options: Options, context: Context, *, stamps: bool) -> LogsPart:
    now = context.clock.now()
    return LogsPart(
        since=_moment(options.since, now) if options.since else "",
        until=_moment(options.until, now) if options.until else "",
        timestamps=stamps,
    )


def _moment(text: str, now: float) -> str:
    """As everywhere; a time from `--timestamps` keeps its milliseconds."""
    with contextlib.suppress(ValueError):
        exact = datetime.fromisoformat(text)
        if exact.microsecond and exact.tzinfo is not None:
            return text
    return parse_moment(text, now, past=True)


def _write(stream: str, data: bytes, options: Options, context: Context) -> None:
    write_output(context, stream if len(options.streams) > 1 else "stdout", data)


def _note_dropped(stream: str, context: Context, count: int) -> None:
    context.note(f"the first {count:,} bytes of {stream} are gone: only the newest part of large output is kept")


def _follow(name: str, options: Options, context: Context) -> int:
    seen: set[tuple[str, str]] = set()
    pattern, start = Pattern(options.grep), STAMP if options.timestamps else 0
    buffers: defaultdict[tuple[str, str], LineBuffer] = defaultdict(LineBuffer)

    def show(chunk: LogChunk) -> None:
        source = chunk.node, chunk.stream
        if source not in seen and chunk.offset and options.tail is None and not options.since:
            _note_dropped(chunk.stream, context, chunk.offset)
        seen.add(source)
        data = chunk.data
        if pattern:
            data = b"".join(line for line in buffers[source].feed(data) if pattern.matches(line[start:]))
        put(chunk.node, chunk.stream, chunk.offset, data)

    def put(node: str, stream: str, offset: int, data: bytes) -> None:
        if not data:
            return
        if context.output in {"json", "yaml"}:
            text = data.decode("utf-8", "replace")
            show_line(context, {"node": node, "stream": stream, "offset": offset, "data": text})
        else:
            _write(stream, data, options, context)

    follower = Follower(context, name, show, _followed(options, context))
    follower.start()
    follower.finish()
    for (node, stream), buffer in buffers.items():
        if (rest := buffer.rest()) and pattern.matches(rest[start:]):
            put(node, stream, 0, rest)
    return OK


def _followed(options: Options, context: Context) -> Followed:
    part = _part(options, context, stamps=options.timestamps)
    return Followed(options.streams, options.tail, options.node, options.run, part)


def _follow_all(options: Options, context: Context) -> int:
    if len(options.ids) == 1:
        try:
            return _follow(options.ids[0], options, context)
        except Invalid:
            if "_" in options.ids[0] or context.client.get_allocation(options.ids[0]).task_counts is None:
                raise
    return _follow_many([context.client.get_allocation(name) for name in options.ids], options, context)


def _follow_many(found: list[Allocation], options: Options, context: Context) -> int:
    """Each line behind the name of the allocation or task that wrote it."""
    from lattice.cli.terminal.following_many import ManyFollower

    pattern, start = Pattern(options.grep), STAMP if options.timestamps else 0

    def show(name: str, chunk: LogChunk, lines: list[bytes]) -> None:
        for line in lines:
            if not pattern.matches(line[start:]):
                continue
            if context.output in {"json", "yaml"}:
                text = line.decode("utf-8", "replace")
                show_line(context, {"id": name, "node": chunk.node, "stream": chunk.stream, "data": text})
            else:
                _write(chunk.stream, f"{name}: ".encode() + line, options, context)

    ManyFollower(context, found, show, _followed(options, context)).follow()
    return OK


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=(
        "lattice logs a17",
        "lattice logs a17 --follow",
        "lattice logs -f a17 a18",
        "lattice logs a17 a18 --stderr --tail=100",
        "lattice logs a17 --since=10m --timestamps",
        "lattice logs a17 --grep='loss=0[.]0'",
        "lattice logs a17 --step=0 --node=n2 --tail=20",
        "lattice logs delete a17 a18",
    ),
)
