"""`lattice logs`: what an allocation wrote, byte for byte."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import for_each
from lattice.cli.errors import OK, UsageError
from lattice.cli.following import STREAMS, Follower, write_output
from lattice.cli.output import show_line, structured
from lattice_sdk.errors import Invalid
from lattice_sdk.models.records import AllocationFilter, LogChunk

ONE_PAGE = 10_000


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()
    follow: bool = False
    tail: int | None = None
    stdout: bool = False
    stderr: bool = False
    node: str = ""
    run: int | None = None

    @property
    def streams(self) -> tuple[str, ...]:
        """Both, unless one was asked for."""
        if self.stdout == self.stderr:
            return STREAMS
        return ("stdout",) if self.stdout else ("stderr",)


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("ids", nargs="+", metavar="ID", help="allocation, task or task group; a group prints each task under its name")
    add("-f", "--follow", action="store_true", help="keep printing until the allocation finishes")
    add("--tail", type=int, metavar="N", help="show only the last N lines of each stream and node")
    add("--stdout", action="store_true", help="show only stdout")
    add("--stderr", action="store_true", help="show only stderr")
    add("--node", metavar="NODE", help="show only the output of this node")
    add("--run", type=int, metavar="N", help="show this run (default: the newest)")


def run(options: Options, context: Context) -> int:
    if options.tail is not None and options.tail < 0:
        raise UsageError("--tail cannot be negative")
    if options.follow:
        if len(options.ids) > 1:
            raise UsageError("--follow takes one ID", hint="follow each in a terminal of its own")
        return _follow(options.ids[0], options, context)
    if len(options.ids) == 1:
        return _print_all(options.ids[0], options, context)

    def show(name: str) -> None:
        _head(name, context)
        _print_all(name, options, context)

    _, code = for_each(options.ids, show, context)
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
    """Each stream to its own; a single one to stdout."""
    if context.output in {"json", "yaml"}:
        texts = {
            stream: b"".join(_pieces(name, stream, options, context)).decode("utf-8", "replace")
            for stream in options.streams
        }
        if len(texts) > 1:
            structured(context, {"id": name, **texts})
        else:
            ((stream, data),) = texts.items()
            structured(context, {"id": name, "stream": stream, "data": data})
        return OK
    for stream in options.streams:
        for piece in _pieces(name, stream, options, context):
            _write(stream, piece, options, context)
    return OK


def _pieces(name: str, stream: str, options: Options, context: Context) -> Iterator[bytes]:
    return context.client.iter_logs(
        name,
        stream=stream,
        tail=options.tail,
        node=options.node,
        run=options.run,
        dropped=lambda count: _note_dropped(stream, context, count),
    )


def _write(stream: str, data: bytes, options: Options, context: Context) -> None:
    write_output(context, stream if len(options.streams) > 1 else "stdout", data)


def _note_dropped(stream: str, context: Context, count: int) -> None:
    context.note(f"the first {count:,} bytes of {stream} are gone: only the newest part of large output is kept")


def _follow(name: str, options: Options, context: Context) -> int:
    seen: set[tuple[str, str]] = set()

    def show(chunk: LogChunk) -> None:
        if (chunk.node, chunk.stream) not in seen and chunk.offset and options.tail is None:
            _note_dropped(chunk.stream, context, chunk.offset)
        seen.add((chunk.node, chunk.stream))
        if context.output in {"json", "yaml"}:
            text = chunk.data.decode("utf-8", "replace")
            show_line(context, {"node": chunk.node, "stream": chunk.stream, "offset": chunk.offset, "data": text})
        else:
            _write(chunk.stream, chunk.data, options, context)

    follower = Follower(
        context, name, show, streams=options.streams, tail=options.tail, node=options.node, run=options.run
    )
    follower.start()
    follower.finish()
    return OK


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice logs a17", "lattice logs a17 --follow", "lattice logs a17 a18 --stderr --tail=100"),
)
