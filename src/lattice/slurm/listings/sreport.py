"""The reports of `sreport`: cluster utilization, top users, job sizes. Sums come in, lines go out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lattice.slurm.faults import Fault
from lattice.slurm.listings.listing import ALIKE, ListingLine, flag, value
from lattice.slurm.submit.getopt import Grammar
from lattice.slurm.text.times import format_moment, parse_moment

GRAMMAR = Grammar(
    "sreport",
    (
        *ALIKE,
        flag("all_clusters", "a"),
        flag("noheader", "n"),
        flag("parsable", "p"),
        flag("parsable2", "P"),
        flag("quiet", "Q"),
        value("time", "t"),
    ),
)
DAY_S = 86400
BOUNDS = (0, 50, 250, 500, 1000)  # of job sizes, in CPUs
RULE = "-" * 80
_UNITS = {"seconds": 1, "minutes": 60, "hours": 3600}
_REPORTS = {
    "cluster": ("utilization",),
    "user": ("topusage",),
    "job": ("sizesbyaccount",),
}


@dataclass(frozen=True, kw_only=True)
class Query:
    report: str  # cluster, user or job
    start: int
    end: int
    unit: str  # seconds, minutes, hours or percent
    top: int = 10

    @property
    def span(self) -> str:
        return f"{format_moment(self.start)} - {format_moment(self.end - 1)}"

    def amount(self, cpu_s: float, total_cpu_s: float) -> str:
        """A sum in the wanted unit."""
        if self.unit == "percent":
            return f"{cpu_s / total_cpu_s * 100 if total_cpu_s else 0.0:.2f}%"
        return str(round(cpu_s / _UNITS[self.unit]))


def read_query(line: ListingLine, now: float) -> Query:
    """Raises Fault for what is no report, or not one of these."""
    words = [word for word in line.words if "=" not in word]
    report = _report(words)
    given = dict(word.lower().split("=", 1) for word in line.words if "=" in word)
    known = {"start", "end", "topcount"}
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        raise Fault(f"sreport: error: Unknown condition: {unknown}={given[unknown]}")
    midnight = parse_moment("today", now) or 0.0
    start = _moment(given.get("start", ""), now, midnight - DAY_S)
    end = _moment(given.get("end", ""), now, midnight if "start" not in given else now)
    if end <= start:
        raise Fault("sreport: error: the end of the report comes before its start")
    unit = (line.last("time") or "minutes").lower()
    found = next((name for name in (*_UNITS, "percent") if name.startswith(unit)), None)
    if found is None:
        raise Fault(f"sreport: error: unknown time format {unit}: seconds, minutes, hours or percent")
    top = given.get("topcount", "10")
    if not (top.isascii() and top.isdigit() and 0 < int(top[:9]) <= 100_000):
        raise Fault(f"sreport: error: TopCount takes a number, not {top}")
    return Query(report=report, start=int(start), end=int(end), unit=found, top=int(top))


def _report(words: Sequence[str]) -> str:
    kind = words[0].lower() if words else ""
    which = words[1].lower() if len(words) > 1 else ""
    for name, reports in _REPORTS.items():
        if kind and name.startswith(kind) and (which and any(each.startswith(which) for each in reports)):
            return name
    raise Fault(
        f'sreport: error: there is no report "{" ".join(words)}"',
        "sreport: error: use one of: cluster utilization, user topusage, job sizesbyaccount",
        "sreport: error: `lattice report` and `lattice usage` show more",
    )


def _moment(text: str, now: float, default: float) -> float:
    if not text:
        return default
    found = parse_moment(text, now)
    if found is None:
        raise Fault(f"sreport: error: Invalid time specification: {text}")
    return found


def written(
    title: str, note: str, columns: Sequence[tuple[str, int]], rows: Iterable[Sequence[str]], line: ListingLine
) -> Iterator[str]:
    """A table with its heading; a negative width is aligned to the left."""
    bars = line.which("parsable", "parsable2")
    if not line.has("noheader"):
        yield from (RULE, title, note, RULE)
        yield _row([name for name, _ in columns], columns, bars)
        if not bars:
            yield "".join(f"{'-' * abs(width)} " for _, width in columns)
    for row in rows:
        yield _row(row, columns, bars)


def _row(texts: Sequence[str], columns: Sequence[tuple[str, int]], bars: str) -> str:
    if bars:
        return "|".join(texts) + ("|" if bars == "parsable" else "")
    cells = []
    for text, (_, width) in zip(texts, columns, strict=True):
        size = abs(width)
        shown = text if len(text) <= size else f"{text[: size - 1]}+"
        cells.append(f"{shown:>{size}} ")
    return "".join(cells)
