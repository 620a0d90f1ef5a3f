"""Tables, JSON and YAML. A list is an array, one thing is an object, whatever the command."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import msgspec

from lattice.cli.context import Context
from lattice.cli.errors import UsageError

R = TypeVar("R")

GREEN, YELLOW, RED, DIM = "32", "33", "31", "2"
COLOURS = {
    "Running": GREEN,
    "Completed": DIM,
    "Ready": GREEN,
    "Pending": YELLOW,
    "Suspended": YELLOW,
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


MIN_CELLS = 12  # a column is not cut below this
ELLIPSIS = "…"


def table(
    rows: Sequence[R],
    columns: Sequence[Column[R]],
    *,
    wide: bool,
    coloured: bool,
    width: int | None = None,
    headers: bool = True,
) -> str:
    """Aligned columns under a header row; long texts are cut where `width` cells are all there are."""
    cells = []
    for column in columns:
        if column.is_wide and not wide:
            continue
        texts = [_cell(column.text(row)) for row in rows]
        if column.is_sparse and not wide and all(text == "-" for text in texts):
            continue
        cells.append([column.head, *texts] if headers else texts)
    widths = [max(map(cell_width, texts), default=0) for texts in cells]
    if width is not None:
        widths = _fitted(widths, width)
    lines = (
        "  ".join(_painted(text, room, coloured) for text, room in zip(row, widths, strict=True)).rstrip()
        for row in zip(*cells, strict=True)
    )
    return "".join(f"{line}\n" for line in lines)


def _fitted(widths: list[int], width: int) -> list[int]:
    """Narrower columns, the widest first and never the first one, so that a line fits."""
    widths = list(widths)
    while (excess := sum(widths) + 2 * (len(widths) - 1) - width) > 0:
        widest = max(range(1, len(widths)), key=lambda at: widths[at], default=0)
        if widest == 0 or widths[widest] <= MIN_CELLS:
            break
        widths[widest] = max(MIN_CELLS, widths[widest] - excess)
    return widths


def cell_width(text: str) -> int:
    """Cells on a terminal: two for most East Asian characters and emoji, none for what combines."""
    if text.isascii():
        return len(text)
    return sum(map(_char_width, text))


def _char_width(char: str) -> int:
    from unicodedata import category, east_asian_width

    if category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if east_asian_width(char) in {"W", "F"} else 1


def _clipped(text: str, room: int) -> str:
    """Padded to `room` cells, or cut to them."""
    spare = room - cell_width(text)
    if spare >= 0:
        return text + " " * spare
    kept, used = "", 1
    for char in text:
        used += _char_width(char)
        if used > room:
            break
        kept += char
    return kept + ELLIPSIS + " " * (room - cell_width(kept) - 1)


def _cell(text: str) -> str:
    """Printable and never empty."""
    return printable(text) or "-"


def printable(text: str) -> str:
    """What others wrote must not steer the terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "?" for char in text)


def _painted(text: str, room: int, coloured: bool) -> str:
    padded = _clipped(text, room)
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


@dataclass(frozen=True, kw_only=True)
class Arranged:
    """Options of commands that print lists of their own kind."""

    columns: str = ""
    sort: str = ""
    no_headers: bool = False


def chosen_columns(options: Arranged, columns: Sequence[Column[R]]) -> Sequence[Column[R]]:
    """Those that were asked for, in that order; UsageError for an unknown name."""
    if not options.columns:
        return columns
    return [
        _found(word, columns, "--columns")._replace(is_wide=False, is_sparse=False) for word in _words(options.columns)
    ]


def sorted_rows(options: Arranged, rows: Sequence[R], columns: Sequence[Column[R]]) -> list[R]:
    """By the texts of columns, numbers by their value; UsageError for an unknown name."""
    rows = list(rows)
    for word in reversed(_words(options.sort)):
        column = _found(word.removeprefix("-"), columns, "--sort")
        rows.sort(key=lambda row, text=column.text: natural(text(row)), reverse=word.startswith("-"))  # type: ignore[misc]
    return rows


def natural(text: str) -> list[tuple[int, int | str]]:
    """`a9` before `a10`."""
    parts: list[tuple[int, int | str]] = []
    digits = ""
    for char in text + "\0":
        if char.isdecimal() and char.isascii():
            digits += char
            continue
        if digits:
            parts.append((0, int(digits)))
            digits = ""
        parts.append((1, char))
    return parts


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _found(word: str, columns: Sequence[Column[R]], flag: str) -> Column[R]:
    for column in columns:
        if column.head == word.upper():
            return column
    known = ", ".join(column.head for column in columns)
    raise UsageError(f'{flag}: there is no column "{word}"', hint=f"one of {known}")


def show_list(
    context: Context,
    rows: Sequence[R],
    columns: Sequence[Column[R]],
    *,
    name: Callable[[R], str] | None = None,
    headers: bool = True,
    paged: bool = False,
) -> None:
    """A list in the format asked for; with --quiet only what `name` says of each row. On a terminal an empty list says so."""
    flags = context.flags
    if flags.list_columns or flags.list_sort:
        wanted = Arranged(columns=flags.list_columns, sort=flags.list_sort)
        rows, columns = sorted_rows(wanted, rows, columns), chosen_columns(wanted, columns)
    headers = headers and not flags.list_no_headers
    if name is None and context.output == "name":
        raise UsageError("-o name: what this list shows has no names", hint="use -o csv with --columns")
    if structured(context, rows):
        return
    if name is not None and (context.flags.quiet or context.output == "name"):
        context.streams.write("".join(f"{name(row)}\n" for row in rows))
        return
    if context.output == "csv":
        context.streams.write(csv_text(rows, columns, headers=headers))
        return
    if not rows and context.streams.stdout.isatty():
        context.say("no entries")
        return
    wide = context.output == "wide"
    width = None if wide else context.width
    text = table(rows, columns, wide=wide, coloured=context.is_coloured, width=width, headers=headers)
    if paged and context.height is not None and len(rows) >= context.height:
        from lattice.cli.pager import page

        page(context, text)
    else:
        context.streams.write(text)


def csv_text(rows: Sequence[R], columns: Sequence[Column[R]], *, headers: bool) -> str:
    """Every column, also those of -o wide; an empty text stays empty."""
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if headers:
        writer.writerow([column.head for column in columns])
    writer.writerows([printable(column.text(row)) for column in columns] for row in rows)
    return out.getvalue()


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
