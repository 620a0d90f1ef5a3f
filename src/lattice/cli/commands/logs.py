"""`lattice logs`: what an allocation wrote, byte for byte."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, UsageError
from lattice.cli.output import show_line, structured


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
    add("id", metavar="ID", help="an allocation or a task")
    add("-f", "--follow", action="store_true", help="go on until the allocation has ended")
    add("--tail", type=int, metavar="N", help="only the last N lines (of each node)")
    add("--stderr", action="store_true", help="what went to stderr instead of stdout")
    add("--node", metavar="NODE", help="only what this node wrote")
    add("--run", type=int, metavar="N", help="of an earlier run (the newest)")


def run(options: Options, context: Context) -> int:
    if options.tail is not None and options.tail < 0:
        raise UsageError("--tail cannot be negative")
    return _follow(options, context) if options.follow else _print(options, context)


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
        for piece in pieces:
            context.streams.stdout.write(piece)
    return OK


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
