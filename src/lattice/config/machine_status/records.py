"""Lines of `Field=Value` records: NodeSpecConf and PartitionConf.

One record per line, fields apart by spaces or tabs. `#` in column one makes a comment. A record whose name is DEFAULT gives
values to the records that follow; another one replaces the fields that it names and leaves the others. What is wrong with it is
reported at its own line, not at those of the records that would have had it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lattice.config.machine_status.problems import Findings
from lattice.config.machine_status.values import Reader

MAX_FIELD = 1024
DEFAULT = "DEFAULT"


@dataclass(frozen=True, kw_only=True)
class Record:
    """One line. `values` are by the names of the format, defaults included; `written` are those of the line itself."""

    line: int
    values: dict[str, str]
    written: frozenset[str]


def plain_lines(text: str, file: str, findings: Findings) -> Iterator[tuple[int, str]]:
    """The lines that say something, with their numbers."""
    if "\0" in text:
        findings.error(file, 0, "this is no text file: it holds zero bytes")
        return
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.removesuffix("\r")
        if line.strip() and not line.startswith("#"):
            yield number, line
    if text and not text.endswith("\n"):
        findings.warn(file, text.count("\n") + 1, "the last line has no end: has the file been cut off?")


def read_records(
    text: str,
    file: str,
    names: tuple[str, ...],
    findings: Findings,
    check_defaults: Callable[[Mapping[str, str], Reader], object],
) -> Iterator[Record]:
    """The records in their order, without those that only set defaults. What cannot be read is reported and left out."""
    known = {name.lower(): name for name in names}
    defaults: dict[str, str] = {}
    for line, content in plain_lines(text, file, findings):
        values = _fields(content, file, line, known, findings)
        if values is None:
            continue
        if values.get("Name") == DEFAULT:
            given = {name: value for name, value in values.items() if name != "Name"}
            before = len(findings.errors)
            check_defaults(given, Reader(file, line, findings))
            if len(findings.errors) == before:
                defaults |= given
            continue
        yield Record(line=line, values={**defaults, **values}, written=frozenset(values))


def _fields(content: str, file: str, line: int, known: Mapping[str, str], findings: Findings) -> dict[str, str] | None:
    values: dict[str, str] = {}
    before = len(findings.errors)
    for field in content.split():
        problem = _field_problem(field, known, values)
        if problem:
            findings.error(file, line, problem)
            continue
        name, _, value = field.partition("=")
        values[known[name.lower()]] = value
    if len(findings.errors) == before and "Name" not in values:
        findings.error(file, line, "the record has no Name")
    return values if len(findings.errors) == before else None


def _field_problem(field: str, known: Mapping[str, str], values: Mapping[str, str]) -> str:
    name, equals, _ = field.partition("=")
    if len(field) > MAX_FIELD:
        return f'field "{name[:40]}" has {len(field):,} characters, the limit is {MAX_FIELD:,}'
    if field.startswith("#"):
        return f'"{field[:40]}" begins no comment: only # in column one does'
    if not equals:
        return f'"{field[:80]}" is no Field=Value: is the line cut off, or is there a space around the equal sign?'
    if name.lower() not in known:
        return f'unknown field "{name[:80]}"; known: {", ".join(known.values())}'
    if known[name.lower()] in values:
        return f'field "{known[name.lower()]}" stands twice'
    return ""
