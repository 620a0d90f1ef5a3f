"""The format engines: `%.18i|%j` (squeue, sinfo), `Name:20,Other:.8` (-O) and `Name%20,Other%-8` (sacct)."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from lattice.slurm.faults import Fault

LONG_WIDTH = 20
MAX_WIDTH = 16_384
MAX_PARTS = 1000


class Field(NamedTuple):
    """One column; width 0 = as wide as the value, without truncation."""

    key: str
    width: int = 0
    is_right: bool = False
    suffix: str = ""


class Column(NamedTuple):
    """A column that can be selected by name; a negative width means left-justified."""

    key: str
    header: str
    width: int = LONG_WIDTH


class UnknownField(ValueError):
    """A field that does not exist; the text is its name."""


Parts = Sequence[str | Field]
_PERCENT = re.compile(r"(?<!%)%++(\.?)(\d*)([A-Za-z])", re.ASCII)
_NAMED = re.compile(r"([A-Za-z/_-]+)(?::(\.?)(\d*)(.*))?$", re.DOTALL | re.ASCII)
_SIZED = re.compile(r"([A-Za-z]+)(?:%(-?)(\d+))?$", re.ASCII)


def parse_percent(text: str, letters: Mapping[str, object]) -> Parts:
    """Fields and the text between them; an unknown letter stays text."""
    parts: list[str | Field] = []
    at = 0
    for found in _PERCENT.finditer(text):
        dot, width, letter = found.groups()
        if letter not in letters:
            continue
        if found.start() > at:
            parts.append(text[at : found.start()])
        parts.append(Field(letter, _width(width), bool(dot)))
        at = found.end()
    if at < len(text):
        parts.append(text[at:])
    return bounded(parts)


def parse_named(text: str, columns: Mapping[str, Column]) -> Parts:
    """`-O`: names in any case, 20 columns wide by default. Raises UnknownField."""
    fields: list[str | Field] = []
    for item in text.split(","):
        found = _NAMED.match(item)
        column = columns.get(found[1].lower()) if found is not None else None
        if found is None or column is None:
            raise UnknownField(item)
        width = _width(found[3]) if found[3] else column.width
        fields.append(Field(column.key, width, bool(found[2]), found[4] or ""))
    return bounded(fields)


def parse_known(text: str, columns: Mapping[str, Column]) -> tuple[Parts, list[str]]:
    """As `parse_named`, but returns unknown names instead of refusing them."""
    fields: list[str | Field] = []
    unknown = []
    for item in filter(None, text.split(",")):
        try:
            fields += parse_named(item, columns)
        except UnknownField:
            unknown.append(item.partition(":")[0])
    return bounded(fields), unknown


def parse_sized(text: str, columns: Mapping[str, Column]) -> list[Field]:
    """`sacct --format`: names in any case, right-justified unless the width is negative. Raises UnknownField."""
    fields = []
    for item in filter(None, text.split(",")):
        found = _SIZED.match(item.strip())
        column = columns.get(found[1].lower()) if found is not None else None
        if found is None or column is None:
            raise UnknownField(item)
        width = _width(found[3]) if found[3] else abs(column.width)
        is_right = not found[2] if found[3] else column.width > 0
        fields.append(Field(column.key, width, is_right=is_right and width > 0))
    bounded(fields)
    return fields


def _width(digits: str) -> int:
    return int(digits or 0) if len(digits) < 6 else MAX_WIDTH + 1


def bounded(parts: Parts) -> Parts:
    """The parts, if a line of them is not too long. Raises Fault: every row of a listing is that long."""
    width = sum(len(part) if isinstance(part, str) else part.width + len(part.suffix) for part in parts)
    if width > MAX_WIDTH or len(parts) > MAX_PARTS:
        raise Fault(f"error: the format is too long: {MAX_PARTS} fields and {MAX_WIDTH} characters at the most")
    return parts


def line(parts: Parts, value: Callable[[str], str]) -> str:
    """One line of a listing."""
    return "".join(part if isinstance(part, str) else _cell(part, value(part.key)) for part in parts)


Row = TypeVar("Row")


def line_writer(parts: Parts, reader: Callable[[str], Callable[[Row], str]]) -> Callable[[Row], str]:
    """As `line`, for listings of many rows: resolves the columns once."""
    cells: list[tuple[str, Callable[[Row], str], int, bool, str]] = []
    text = ""
    for part in parts:
        if isinstance(part, str):
            text += part
            continue
        cells.append((text, reader(part.key), part.width, part.is_right, part.suffix))
        text = ""

    def write(row: Row) -> str:
        pieces = []
        for before, read, width, is_right, suffix in cells:
            value = read(row)
            if width:
                value = value[:width].rjust(width) if is_right else value[:width].ljust(width)
            pieces.append(before)
            pieces.append(value)
            pieces.append(suffix)
        pieces.append(text)
        return "".join(pieces)

    return write


def _cell(field: Field, text: str) -> str:
    if not field.width:
        return text + field.suffix
    cut = text[: field.width]
    return (cut.rjust(field.width) if field.is_right else cut.ljust(field.width)) + field.suffix


def delimited(values: Iterable[str], *, trailing: bool, delimiter: str = "|") -> str:
    """`a|b|c`, with one more delimiter at the end for --parsable."""
    return delimiter.join(values) + (delimiter if trailing else "")


def sized_line(fields: Sequence[Field], value: Callable[[str], str]) -> str:
    """A line of sacct's table: one blank after each column; truncated values end in `+`."""
    return "".join(_sized_cell(field, value(field.key)) + " " for field in fields)


def _sized_cell(field: Field, text: str) -> str:
    cut = text if len(text) <= field.width else text[: field.width - 1] + "+"
    return cut.rjust(field.width) if field.is_right else cut.ljust(field.width)
