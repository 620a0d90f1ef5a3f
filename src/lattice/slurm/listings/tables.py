"""The tables of sacct, sacctmgr, sshare and sstat: columns with underlined headings, or values separated by bars."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lattice.slurm.listings.listing import ListingLine
from lattice.slurm.text.formats import Column, Field, delimited, sized_line

_PER_LINE = 4


@dataclass(frozen=True, kw_only=True)
class Style:
    """`bars` is "" for a table, "parsable" with a bar at the end of each line, "parsable2" without."""

    bars: str = ""
    has_header: bool = True
    delimiter: str = "|"


def style_of(line: ListingLine) -> Style:
    return Style(
        bars=line.which("parsable", "parsable2"),
        has_header=not line.has("noheader"),
        delimiter=line.last("delimiter") or "|",
    )


def table_lines(
    fields: Sequence[Field], columns: Mapping[str, Column], values: Iterable[Callable[[str], str]], style: Style
) -> Iterator[str]:
    """Heading and rows, one after the other."""
    headers = {column.key: column.header for column in columns.values()}
    if style.has_header:
        yield _row(fields, headers.__getitem__, style)
        if not style.bars:
            yield "".join(f"{'-' * field.width} " for field in fields)
    for value in values:
        yield _row(fields, value, style)


def _row(fields: Sequence[Field], value: Callable[[str], str], style: Style) -> str:
    if not style.bars:
        return sized_line(fields, value)
    texts = [value(field.key) for field in fields]
    return delimited(texts, trailing=style.bars == "parsable", delimiter=style.delimiter)


def field_names(columns: Mapping[str, Column]) -> Iterator[str]:
    """--helpformat: all names, four on a line."""
    names = list(dict.fromkeys(column.key for column in columns.values()))
    for start in range(0, len(names), _PER_LINE):
        yield " ".join(f"{name:<19}" for name in names[start : start + _PER_LINE])
