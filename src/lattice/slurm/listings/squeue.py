"""The columns of squeue, by letter and by name."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lattice.slurm.listings.rows import JobRow, StepRow
from lattice.slurm.listings.scontrol import tres
from lattice.slurm.text.formats import Column
from lattice.slurm.text.hostlists import fold
from lattice.slurm.text.sizes import format_memory
from lattice.slurm.text.times import format_limit, format_moment, format_span

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
    "d": "MIN_TMP_DISK",
    "n": "REQ_NODES",
    "x": "EXC_NODES",
    "z": "S:C:T",
    "H": "SOCKETS_PER_NODE",
    "I": "CORES_PER_SOCKET",
    "J": "THREADS_PER_CORE",
    "O": "CONTIGUOUS",
    "W": "LICENSES",
    "X": "CORE_SPEC",
}
_ALL = "abcdefghijklmnopqrtuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
# Columns without a letter.
_LONG_ONLY: Mapping[str, str] = {
    "cluster": "CLUSTER",
    "exit_code": "EXIT_CODE",
    "derived-ec": "DERIVED_EXIT_CODE",
    "eligibletime": "ELIGIBLE_TIME",
    "deadline": "DEADLINE",
    "numtasks": "TASKS",
    "cpus-per-task": "CPUS_PER_TASK",
    "restartcnt": "RESTART_COUNT",
    "requeue": "REQUEUE",
    "batchflag": "BATCH_FLAG",
    "stdin": "STDIN",
    "stdout": "STDOUT",
    "stderr": "STDERR",
    "tres-alloc": "TRES_ALLOC",
    "allocnodes": "ALLOC_NODES",
    "maxnodes": "MAX_NODES",
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
        ("MinTmpDisk", "d"),
        ("ReqNodes", "n"),
        ("ExcNodes", "x"),
        ("SCT", "z"),
        ("Contiguous", "O"),
        ("Licenses", "W"),
        ("CoreSpec", "X"),
        ("Gres", "b"),
    )
} | {key: Column(key, header) for key, header in _LONG_ONLY.items()}


def header_of(key: str) -> str:
    return LETTERS.get(key) or _LONG_ONLY[key]


def spelled_out(text: str) -> str:
    """`%all` stands for every column, with bars between them."""
    return "|".join(f"%{letter}" for letter in _ALL if letter in LETTERS) if text.lower() == "%all" else text


class Writer:
    """The text of every column, row by row; `form` is SLURM_TIME_FORMAT."""

    def __init__(self, now: float, form: str = "", cluster: str = "lattice") -> None:
        self._now = now
        self._form = form
        self._cluster = cluster

    def value_of(self, row: JobRow) -> Callable[[str], str]:
        return lambda letter: self.reader(letter)(row)

    def reader(self, letter: str) -> Callable[[JobRow], str]:
        """The function that formats this column."""
        now, form, cluster = self._now, self._form, self._cluster
        if letter == "cluster":
            return lambda row: cluster
        write = _VALUES[letter]
        return lambda row: write(row, now, form)


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
    "Y": lambda row, now, form: _or_null(row.scheduled_nodes),
    "h": lambda row, now, form: "NO",
    "c": lambda row, now, form: str(row.cpus_per_task),
    "d": lambda row, now, form: "0",
    "n": lambda row, now, form: row.wanted_nodes,
    "x": lambda row, now, form: row.excluded_nodes,
    "z": lambda row, now, form: "*:*:*",
    "H": lambda row, now, form: "*",
    "I": lambda row, now, form: "*",
    "J": lambda row, now, form: "*",
    "O": lambda row, now, form: "0",
    "W": lambda row, now, form: "(null)",
    "X": lambda row, now, form: "N/A",
    "exit_code": lambda row, now, form: str(row.exit_code),
    "derived-ec": lambda row, now, form: str(max((step.exit_code for step in row.steps), default=0)),
    "eligibletime": lambda row, now, form: format_moment(row.eligible_at, form),
    "deadline": lambda row, now, form: format_moment(row.deadline_at, form),
    "numtasks": lambda row, now, form: str(row.ntasks),
    "cpus-per-task": lambda row, now, form: str(row.cpus_per_task),
    "restartcnt": lambda row, now, form: str(row.restarts),
    "requeue": lambda row, now, form: str(int(row.may_requeue)),
    "batchflag": lambda row, now, form: str(int(row.is_batch)),
    "stdin": lambda row, now, form: _or_null(row.stdin),
    "stdout": lambda row, now, form: _or_null(row.stdout),
    "stderr": lambda row, now, form: _or_null(row.stderr or row.stdout),
    "tres-alloc": lambda row, now, form: tres(row),
    "allocnodes": lambda row, now, form: _or_null(row.submit_host),
    "maxnodes": lambda row, now, form: str(row.max_nodes),
}


def _memory(row: JobRow) -> int:
    return row.memory_mb or row.memory_per_cpu_mb


# Columns that are not sorted by their text.
_ORDERS: Mapping[str, Callable[[JobRow, float], float | tuple[float, ...]]] = {
    "i": lambda row, now: (row.array_number or row.number, -1 if row.array_index is None else row.array_index),
    "A": lambda row, now: row.number,
    "F": lambda row, now: row.array_number or row.number,
    "K": lambda row, now: -1 if row.array_index is None else row.array_index,
    "t": lambda row, now: row.state.rank,
    "T": lambda row, now: row.state.rank,
    "l": lambda row, now: row.time_limit_s or 2**40,
    "L": lambda row, now: (row.time_limit_s or 2**40) - row.run_time_s(now),
    "M": lambda row, now: row.run_time_s(now),
    "S": lambda row, now: row.started_at or 2**40,
    "V": lambda row, now: row.submitted_at,
    "e": lambda row, now: row.ended_at or 2**40,
    "D": lambda row, now: len(row.nodes) or row.min_nodes,
    "C": lambda row, now: row.cpus,
    "m": lambda row, now: _memory(row),
    "U": lambda row, now: row.uid,
    "G": lambda row, now: row.gid,
    "p": lambda row, now: row.priority,
    "Q": lambda row, now: row.priority,
}


def orders(fields: str, now: float) -> Iterator[tuple[Callable[[JobRow], Any], bool]]:
    """The sort keys in the order of application, and whether each reverses its order.

    By letters, `P,-p`: the first has priority and is applied last; unknown letters are ignored.
    """
    for field in reversed([field for field in fields.split(",") if field]):
        letter, is_turned = field.lstrip("+-"), field.startswith("-")
        if letter in _ORDERS:
            order = _ORDERS[letter]
            yield (lambda row, order=order: order(row, now)), is_turned  # type: ignore[misc]
        elif letter in _VALUES:
            write = _VALUES[letter]
            yield (lambda row, write=write: write(row, now, "")), is_turned  # type: ignore[misc]


STEP_LETTERS: Mapping[str, str] = {
    "i": "STEPID",
    "j": "NAME",
    "P": "PARTITION",
    "u": "USER",
    "M": "TIME",
    "N": "NODELIST",
    "A": "TASKS",
    "S": "START_TIME",
    "l": "TIME_LIMIT",
    "U": "USER",
}
STEP_DEFAULT = "%.15i %.8j %.9P %.8u %.9M %N"


def step_value_of(row: JobRow, step: StepRow, now: float, form: str = "") -> Callable[[str], str]:
    """The columns of `squeue --steps`."""
    ran = int((step.ended_at or now) - (step.started_at or now))
    texts = {
        "i": f"{row.shown_id}.{step.name}",
        "j": step.command,
        "P": row.partition,
        "u": row.user,
        "M": format_span(ran),
        "N": fold(step.nodes),
        "A": str(step.ntasks),
        "S": format_moment(step.started_at, form),
        "l": format_limit(row.time_limit_s),
        "U": str(row.uid),
    }
    return texts.__getitem__
