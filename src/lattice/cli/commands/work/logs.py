"""`lattice logs`: what an allocation wrote, byte for byte."""

import argparse
from dataclasses import dataclass, replace

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, UsageError
from lattice.cli.output import show_line, structured
from lattice_sdk.errors import Invalid
from lattice_sdk.models.records import AllocationFilter

ONE_PAGE = 10_000


@dataclass(frozen=True, kw_only=True)
class Options:
    id: str
    follow: bool = False
    tail: int | None = None
    stderr: bool = False
    node: str = ""
    run: int | None = None

    @property
    def stream(self) -> str:
        return "stderr" if self.stderr else "stdout"


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("id", metavar="ID", help="allocation, task or task group; a group prints each task under its name")
    add("-f", "--follow", action="store_true", help="keep printing until the allocation finishes")
    add("--tail", type=int, metavar="N", help="show only the last N lines of each node")
    add("--stderr", action="store_true", help="show stderr instead of stdout")
    add("--node", metavar="NODE", help="show only the output of this node")
    add("--run", type=int, metavar="N", help="show this run (default: the newest)")


def run(options: Options, context: Context) -> int:
    if options.tail is not None and options.tail < 0:
        raise UsageError("--tail cannot be negative")
    if options.follow:
        return _follow(options, context)
    return _print(options, context) if "_" in options.id else _print_all(options, context)


def _print_all(options: Options, context: Context) -> int:
    """An allocation's output, or that of each task of a group that has started, under its name."""
    try:
        return _print(options, context)
    except Invalid:
        if context.client.get_allocation(options.id).task_counts is None:
            raise
    wanted = AllocationFilter(group=options.id, is_archive_included=True)
    tasks = [task for task in context.client.iter_allocations(wanted, page_size=ONE_PAGE) if task.run]
    for task in sorted(tasks, key=lambda task: task.number):
        name = f"{task.group_id}_{task.task_index}"
        if context.output not in {"json", "yaml"}:
            context.streams.write(f"==> {name} <==\n")
        _print(replace(options, id=name), context)
    return OK


def _print(options: Options, context: Context) -> int:
    pieces = context.client.iter_logs(
        options.id,
        stream=options.stream,
        tail=options.tail,
        node=options.node,
        run=options.run,
        dropped=lambda count: _note_dropped(options, context, count),
    )
    if context.output in {"json", "yaml"}:
        text = b"".join(pieces).decode("utf-8", "replace")
        structured(context, {"id": options.id, "stream": options.stream, "data": text})
    else:
        written = 0
        for piece in pieces:
            written += context.streams.stdout.write(piece)
        if not written:
            _point_to_stderr(options, context)
    return OK


def _point_to_stderr(options: Options, context: Context) -> None:
    """Says where the output is when stdout is empty: programs write their errors to stderr."""
    if options.stderr or options.tail == 0:
        return
    there = context.client.iter_logs(options.id, stream="stderr", tail=1, node=options.node, run=options.run)
    if any(there):
        context.note(f"nothing was written to stdout; stderr has output: lattice logs {options.id} --stderr")


def _note_dropped(options: Options, context: Context, count: int) -> None:
    context.note(
        f"the first {count:,} bytes of {options.stream} are gone: only the newest part of large output is kept"
    )


def _follow(options: Options, context: Context) -> int:
    chunks = context.client.stream_logs(
        options.id,
        stream=options.stream,
        tail=options.tail,
        node=options.node,
        run=options.run,
        restarted=lambda number: context.note(f"run {number} of {options.id} begins"),
    )
    seen: set[str] = set()
    for chunk in chunks:
        if chunk.node not in seen and chunk.offset and options.tail is None:
            _note_dropped(options, context, chunk.offset)
        seen.add(chunk.node)
        if context.output in {"json", "yaml"}:
            text = chunk.data.decode("utf-8", "replace")
            show_line(context, {"node": chunk.node, "stream": chunk.stream, "offset": chunk.offset, "data": text})
        else:
            context.streams.stdout.write(chunk.data)
            context.streams.stdout.flush()
    return OK


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice logs a17", "lattice logs a17 --follow", "lattice logs a17 --stderr --tail=100"),
)
