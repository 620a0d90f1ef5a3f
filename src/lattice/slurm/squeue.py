"""The columns of squeue, by letter and by name."""

from collections.abc import Callable, Mapping

from lattice.slurm.formats import Column
from lattice.slurm.rows import JobRow
from lattice.slurm.sizes import format_memory
from lattice.slurm.times import format_limit, format_moment, format_span

DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"

LETTERS: Mapping[str, str] = {
    "i": "JOBID",
    "A": "JOBID",
    "F": "ARRAY_JOB_ID",
    "K": "ARRAY_TASK_ID",
    "t": "ST",
    "T": "STATE",
    "r": "REASON",
    "R": "NODELIST(REASON)",
    "B": "EXEC_HOST",
    "N": "NODELIST",
    "Z": "WORK_DIR",
    "o": "COMMAND",
    "k": "COMMENT",
    "b": "TRES_PER_NODE",
    "l": "TIME_LIMIT",
    "L": "TIME_LEFT",
    "M": "TIME",
    "S": "START_TIME",
    "V": "SUBMIT_TIME",
    "e": "END_TIME",
    "D": "NODES",
    "C": "CPUS",
    "m": "MIN_MEMORY",
    "u": "USER",
    "U": "UID",
    "g": "GROUP",
    "G": "GROUP",
    "P": "PARTITION",
    "j": "NAME",
    "a": "ACCOUNT",
    "q": "QOS",
    "p": "PRIORITY",
    "Q": "PRIORITY",
    "E": "DEPENDENCY",
    "v": "RESERVATION",
    "f": "FEATURES",
    "w": "WCKEY",
    "y": "NICE",
    "Y": "SCHEDNODES",
    "h": "OVER_SUBSCRIBE",
    "c": "MIN_CPUS",
}

NAMES: Mapping[str, Column] = {
    name.lower(): Column(letter, LETTERS[letter])
    for name, letter in (
        ("JobArrayID", "i"),
        ("JobID", "A"),
        ("ArrayJobID", "F"),
        ("ArrayTaskID", "K"),
        ("StateCompact", "t"),
        ("State", "T"),
        ("Reason", "r"),
        ("ReasonList", "R"),
        ("BatchHost", "B"),
        ("NodeList", "N"),
        ("WorkDir", "Z"),
        ("Command", "o"),
        ("Comment", "k"),
        ("tres-per-node", "b"),
        ("TimeLimit", "l"),
        ("TimeLeft", "L"),
        ("TimeUsed", "M"),
        ("StartTime", "S"),
        ("SubmitTime", "V"),
        ("EndTime", "e"),
        ("NumNodes", "D"),
        ("NumCPUs", "C"),
        ("MinMemory", "m"),
        ("UserName", "u"),
        ("UserID", "U"),
        ("GroupName", "g"),
        ("GroupID", "G"),
        ("Partition", "P"),
        ("Name", "j"),
        ("Account", "a"),
        ("QOS", "q"),
        ("Priority", "p"),
        ("PriorityLong", "Q"),
        ("Dependency", "E"),
        ("Reservation", "v"),
        ("Feature", "f"),
        ("WCKey", "w"),
        ("Nice", "y"),
        ("SchedNodes", "Y"),
        ("OverSubscribe", "h"),
        ("MinCPUs", "c"),
    )
}


class Writer:
    """The text of every column for one row after the other; `form` is SLURM_TIME_FORMAT."""

    def __init__(self, now: float, form: str = "") -> None:
        self._now = now
        self._form = form

    def value_of(self, row: JobRow) -> Callable[[str], str]:
        return lambda letter: _VALUES[letter](row, self._now, self._form)


_Value = Callable[[JobRow, float, str], str]


def _or_null(text: str) -> str:
    return text or "(null)"


def _time_left(row: JobRow, now: float, _form: str) -> str:
    if row.time_limit_s <= 0:
        return "UNLIMITED"
    left = -(-row.time_limit_s // 60) * 60 - row.run_time_s(now)
    return format_span(left) if left >= 0 else "INVALID"


def _end(row: JobRow, _now: float, form: str) -> str:
    if row.ended_at is None and row.started_at is not None and not row.state.is_waiting and row.time_limit_s > 0:
        return format_moment(row.started_at + row.time_limit_s, form)
    if row.ended_at is None and row.started_at is not None and not row.state.is_waiting:
        return "NONE"
    return format_moment(row.ended_at, form)


def _where(row: JobRow) -> str:
    if row.state.is_waiting or (not row.state.is_active and row.reason != "None"):
        return f"({row.reason})"
    return row.node_list


_VALUES: Mapping[str, _Value] = {
    "i": lambda row, now, form: row.shown_id,
    "A": lambda row, now, form: str(row.number),
    "F": lambda row, now, form: str(row.array_number or row.number),
    "K": lambda row, now, form: row.index_text.strip("[]"),
    "t": lambda row, now, form: row.state.short,
    "T": lambda row, now, form: row.state.long,
    "r": lambda row, now, form: row.reason,
    "R": lambda row, now, form: _where(row),
    "B": lambda row, now, form: row.nodes[0] if row.nodes and not row.state.is_waiting else "n/a",
    "N": lambda row, now, form: "" if row.state.is_waiting else row.node_list,
    "Z": lambda row, now, form: _or_null(row.work_dir),
    "o": lambda row, now, form: _or_null(row.command),
    "k": lambda row, now, form: _or_null(row.comment),
    "b": lambda row, now, form: row.gres or "N/A",
    "l": lambda row, now, form: format_limit(row.time_limit_s),
    "L": _time_left,
    "M": lambda row, now, form: format_span(row.run_time_s(now)),
    "S": lambda row, now, form: format_moment(row.started_at, form),
    "V": lambda row, now, form: format_moment(row.submitted_at, form),
    "e": _end,
    "D": lambda row, now, form: str(len(row.nodes) if row.nodes and not row.state.is_waiting else row.min_nodes),
    "C": lambda row, now, form: str(row.cpus),
    "m": lambda row, now, form: "0" if not _memory(row) else format_memory(_memory(row)),
    "u": lambda row, now, form: row.user,
    "U": lambda row, now, form: str(row.uid),
    "g": lambda row, now, form: row.group,
    "G": lambda row, now, form: str(row.gid),
    "P": lambda row, now, form: row.partition,
    "j": lambda row, now, form: row.name,
    "a": lambda row, now, form: _or_null(row.account),
    "q": lambda row, now, form: _or_null(row.qos),
    "p": lambda row, now, form: f"{row.priority / 2**32:.14f}",
    "Q": lambda row, now, form: str(row.priority),
    "E": lambda row, now, form: _or_null(row.dependency),
    "v": lambda row, now, form: _or_null(row.reservation),
    "f": lambda row, now, form: _or_null(row.features),
    "w": lambda row, now, form: _or_null(row.wckey),
    "y": lambda row, now, form: "0",
    "Y": lambda row, now, form: "(null)",
    "h": lambda row, now, form: "NO",
    "c": lambda row, now, form: str(row.cpus_per_task),
}


def _memory(row: JobRow) -> int:
    return row.memory_mb or row.memory_per_cpu_mb
