"""The Standard Workload Format: comments with a semicolon, then 18 numbers a line, -1 for what is not known.

Used are 1 number, 2 submission, 3 wait, 4 run time, 5 processors held, 8 processors requested, 9 time requested, 12 user,
13 group, 14 executable, 15 queue, 16 partition.
"""

import math
import re

from lattice.replay.traces.entries import BadLine, Entry, Trace

FIELDS = 18
_HEADER = re.compile(r";\s*(MaxProcs|MaxNodes)\s*:\s*(\d+)\s*$", re.IGNORECASE)


class SwfLines:
    """Takes the lines of one file."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def take(self, line: str) -> None:
        fields = line.split()
        if not fields:
            return
        if fields[0][0] == ";":
            self._take_header(line)
            return
        if len(fields) != FIELDS:
            raise BadLine(f"a line has {FIELDS} numbers, this one has {len(fields)}")
        try:
            entry = _entry(fields)
        except ValueError:
            raise BadLine(_complaint(fields)) from None
        self._trace.entries.append(entry)

    def finish(self) -> None:
        """Every line stands for itself: there is nothing left to do."""

    def _take_header(self, line: str) -> None:
        match = _HEADER.match(line.strip())
        if match is None:
            return
        if match[1].lower() == "maxprocs":
            self._trace.procs_total = int(match[2])
        else:
            self._trace.nodes_total = int(match[2])


def _entry(fields: list[str]) -> Entry:
    submit, run, requested = _whole(fields[1]), _whole(fields[3]), _whole(fields[7])
    wait = _whole(fields[2])
    return Entry(
        id=fields[0],
        submit=submit,
        run=run,
        procs=requested if requested > 0 else _whole(fields[4]),
        estimate=_whole(fields[8]),
        start=submit + wait if wait >= 0 else -1,
        user=_known(fields[11]),
        project=_known(fields[12]),
        name=_known(fields[13]),
        queue=_known(fields[14]),
        partition=_known(fields[15]),
    )


def _whole(text: str) -> int:
    """A number of seconds or processors; parts of one are rounded to the nearest whole."""
    try:
        return int(text)
    except ValueError:
        return round(_finite(text))


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _known(text: str) -> str:
    return "" if text == "-1" else text


def _complaint(fields: list[str]) -> str:
    for place in (1, 2, 3, 4, 7, 8):
        try:
            _finite(fields[place])
        except ValueError:
            return f'field {place + 1} is no number: "{fields[place][:40]}"'
    return "a field is no number"
