"""What `sacct --parsable2` prints: a header of names, then fields between bars. Columns may stand in any order.

Needed are JobID, Submit, a size (ReqCPUS, AllocCPUS, NCPUS, or ReqNodes, AllocNodes, NNodes) and a length (ElapsedRaw, Elapsed,
or Start and End). Used when there: TimelimitRaw, Timelimit, User, Account, JobName, State. Steps are skipped.
Times are read as if they were UTC: only their differences matter.
"""

import re
from datetime import UTC, datetime

from lattice.replay.traces.entries import BadLine, Entry, Trace

_ELAPSED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?")
_STILL = ("RUNNING", "PENDING", "REQUEUED", "SUSPENDED", "RESIZING")
_SIZES = {"ReqCPUS", "AllocCPUS", "NCPUS", "ReqNodes", "AllocNodes", "NNodes"}


class SacctLines:
    """Takes the lines of one listing."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._names: list[str] = []

    def take(self, line: str) -> None:
        line = line.rstrip("\r\n")
        if not line:
            return
        if not self._names:
            self._names = _header(line)
            return
        fields = line.split("|")
        if len(fields) != len(self._names):
            raise BadLine(f"the header names {len(self._names)} fields, this line has {len(fields)}")
        row = dict(zip(self._names, fields, strict=True))
        if "." not in row["JobID"]:
            self._trace.entries.append(_entry(row))

    def finish(self) -> None:
        """Every line stands for itself: there is nothing left to do."""


def _header(line: str) -> list[str]:
    names = line.split("|")
    known = set(names)
    missing = {"JobID", "Submit"} - known
    if missing:
        raise BadLine(f"the header lacks {', '.join(sorted(missing))}; print it with sacct --parsable2 and a header")
    if not known & _SIZES:
        raise BadLine(f"the header has no size; add one of {', '.join(sorted(_SIZES))} to sacct --format")
    if not known & {"ElapsedRaw", "Elapsed"} and not {"Start", "End"} <= known:
        raise BadLine("the header has no length; add ElapsedRaw to sacct --format")
    return names


def _entry(row: dict[str, str]) -> Entry:
    submit = _moment(row, "Submit")
    if submit < 0:
        raise BadLine(f'Submit is no time: "{row["Submit"][:40]}"')
    start = _moment(row, "Start")
    nodes = _first_count(row, "ReqNodes", "AllocNodes", "NNodes")
    procs = _first_count(row, "ReqCPUS", "AllocCPUS", "NCPUS")
    return Entry(
        id=row["JobID"],
        submit=submit,
        run=_run(row, start),
        procs=procs if procs > 0 else nodes,
        estimate=_limit(row),
        start=start,
        nodes=nodes,
        user=row.get("User", ""),
        name=row.get("JobName", ""),
        tenant=row.get("Account", ""),
    )


def _run(row: dict[str, str], start: int) -> int:
    """Seconds from start to end; -1 when it never started or still runs."""
    if row.get("State", "").upper().startswith(_STILL) or ("Start" in row and start < 0):
        return -1
    if row.get("ElapsedRaw"):
        return _number(row, "ElapsedRaw")
    if row.get("Elapsed"):
        return _elapsed(row, "Elapsed")
    end = _moment(row, "End")
    return end - start if end >= start >= 0 else -1


def _limit(row: dict[str, str]) -> int:
    """The time limit in seconds; -1 when there is none."""
    raw = row.get("TimelimitRaw", "")
    if raw.isdigit():
        return int(raw) * 60
    text = row.get("Timelimit", "")
    return _elapsed(row, "Timelimit") if text[:1].isdigit() else -1


def _elapsed(row: dict[str, str], name: str) -> int:
    match = _ELAPSED.fullmatch(row[name])
    if match is None:
        raise BadLine(f'{name} is no duration: "{row[name][:40]}"')
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _first_count(row: dict[str, str], *names: str) -> int:
    for name in names:
        if row.get(name, "") not in ("", "0"):
            return _number(row, name)
    return -1


def _number(row: dict[str, str], name: str) -> int:
    try:
        return int(row[name])
    except ValueError:
        raise BadLine(f'{name} is no whole number: "{row[name][:40]}"') from None


def _moment(row: dict[str, str], name: str) -> int:
    """Seconds since 1970; -1 when the column is missing or says Unknown or None."""
    text = row.get(name, "")
    if text in ("", "Unknown", "None", "N/A"):
        return -1
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadLine(f'{name} is no time: "{text[:40]}"') from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
