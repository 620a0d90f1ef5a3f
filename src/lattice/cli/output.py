"""Tables, JSON and YAML. A list is an array, one thing is an object, whatever the command."""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec

from lattice.cli.context import Context

R = TypeVar("R")

GREEN, YELLOW, RED, DIM = "32", "33", "31", "2"
COLOURS = {
    "Running": GREEN,
    "Completed": DIM,
    "Ready": GREEN,
    "Pending": YELLOW,
    "Starting": YELLOW,
    "Stopping": YELLOW,
    "Degraded": YELLOW,
    "Draining": YELLOW,
    "Drained": YELLOW,
    "Failed": RED,
    "Down": RED,
    "Cancelled": DIM,
}


class Column(NamedTuple, Generic[R]):
    """One column: how it is headed and what stands in it.

    `is_wide` = only with `-o wide`; `is_sparse` = only when some row has something to say.
    """

    head: str
    text: Callable[[R], str]
    is_wide: bool = False
    is_sparse: bool = False


def table(rows: Sequence[R], columns: Sequence[Column[R]], *, wide: bool, coloured: bool) -> str:
    """Aligned columns under a header row."""
    cells = []
    for column in columns:
        if column.is_wide and not wide:
            continue
        texts = [_cell(column.text(row)) for row in rows]
        if column.is_sparse and not wide and all(text == "-" for text in texts):
            continue
        cells.append([column.head, *texts])
    widths = [max(map(len, texts)) for texts in cells]
    lines = (
        "  ".join(_painted(text.ljust(width), text, coloured) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in zip(*cells, strict=True)
    )
    return "".join(f"{line}\n" for line in lines)


def _cell(text: str) -> str:
    """Printable and never empty."""
    return printable(text) or "-"


def printable(text: str) -> str:
    """What others wrote must not steer the terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "?" for char in text)


def _painted(padded: str, text: str, coloured: bool) -> str:
    colour = COLOURS.get(text.removesuffix(" (suspended)")) if coloured else None
    return padded if colour is None else f"\x1b[{colour}m{padded}\x1b[0m"


def sheet(pairs: Iterable[tuple[str, str]]) -> str:
    """One thing in full: a name and a value on each line."""
    shown = [(name, _cell(text)) for name, text in pairs]
    width = max(len(name) for name, _ in shown) + 1
    return "".join(f"{(name + ':').ljust(width)}  {text}\n" for name, text in shown)


def encoded_json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def encoded_yaml(value: object) -> str:
    import yaml

    plain = msgspec.to_builtins(value)
    return str(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))


def structured(context: Context, value: object) -> bool:
    """Print as JSON or YAML if that was asked for, and say whether it was."""
    match context.output:
        case "json":
            context.streams.write(encoded_json(value))
        case "yaml":
            context.streams.write(encoded_yaml(value))
        case _:
            return False
    return True


def show_list(
    context: Context,
    rows: Sequence[R],
    columns: Sequence[Column[R]],
    *,
    name: Callable[[R], str] | None = None,
) -> None:
    """A list in the format asked for; with --quiet only what `name` says of each row."""
    if structured(context, rows):
        return
    if context.flags.quiet and name is not None:
        context.streams.write("".join(f"{name(row)}\n" for row in rows))
        return
    wide = context.output == "wide"
    context.streams.write(table(rows, columns, wide=wide, coloured=context.is_coloured))


def show_one(context: Context, value: object, pairs: Iterable[tuple[str, str]]) -> None:
    """One thing in the format asked for."""
    if not structured(context, value):
        context.streams.write(sheet(pairs))


def show_line(context: Context, value: object) -> None:
    """One object of a stream: a line of JSON, or a YAML document."""
    if context.output == "yaml":
        context.streams.write("---\n" + encoded_yaml(value))
    else:
        context.streams.stdout.write(msgspec.json.encode(value) + b"\n")
    context.streams.stdout.flush()
