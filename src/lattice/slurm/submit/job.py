"""A job's request: all options of command line, environment and script merged into one record, with warnings."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lattice.slurm.faults import WRONG_LINE, Fault, bad_number, bad_value, error
from lattice.slurm.submit.dependencies import Dependency, parse_dependency
from lattice.slurm.submit.getopt import Given
from lattice.slurm.submit.ignored import check_ignored, step_warnings
from lattice.slurm.submit.options import Fate
from lattice.slurm.text.arrays import Array, parse_array
from lattice.slurm.text.hostlists import BadHostlist, expand
from lattice.slurm.text.signals import parse_signal
from lattice.slurm.text.sizes import Gpus, parse_count, parse_gpus, parse_gres, parse_memory_mb, parse_nodes
from lattice.slurm.text.times import parse_limit, parse_moment

MAIL_TYPES = (
    "NONE",
    "BEGIN",
    "END",
    "FAIL",
    "REQUEUE",
    "ALL",
    "INVALID_DEPEND",
    "STAGE_OUT",
    "TIME_LIMIT",
    "TIME_LIMIT_90",
    "TIME_LIMIT_80",
    "TIME_LIMIT_50",
    "ARRAY_TASKS",
)
NO_GPUS = Gpus(0)
SUBMISSION_FAILED = "Batch job submission failed: "
MAX_OPTIONS = 2_000
MAX_NAMED = 10_000
# These may be very long; only the last of several counts, and only that one is parsed.
_LISTS = frozenset({"nodelist", "exclude", "array", "dependency"})
_SIGNAL = re.compile(r"(?:(B|R|BR|RB):)?(?:SIG)?([A-Za-z0-9]+)(?:@(\d{1,9}))?$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class EarlySignal:
    """A signal before the time limit, to the batch shell alone or to the steps."""

    name: str
    before_s: int = 60
    to_shell: bool = False


@dataclass(frozen=True, kw_only=True)
class Job:
    """0 and empty texts mean not requested."""

    name: str = ""
    partition: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    min_nodes: int = 0
    max_nodes: int = 0
    ntasks: int = 0
    ntasks_per_node: int = 0
    cpus_per_task: int = 0
    min_cpus: int = 0
    cpus_per_gpu: int = 0
    memory_mb: int | None = None  # of each node; 0 = all
    memory_per_cpu_mb: int = 0
    memory_per_gpu_mb: int = 0
    gpus: Gpus = NO_GPUS
    gpus_per_node: Gpus = NO_GPUS
    gpus_per_task: Gpus = NO_GPUS
    features: str = ""
    nodelist: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    is_exclusive: bool = False
    time_s: int | None = None  # UNLIMITED, or seconds
    begin_at: float | None = None
    deadline_at: float | None = None
    dependency: Dependency | None = None
    dependency_text: str = ""
    kill_on_invalid_dep: bool | None = None
    array: Array | None = None
    array_text: str = ""
    is_held: bool = False
    requeue: bool | None = None
    export: str = ""
    chdir: str = ""
    output: str = ""
    error: str = ""
    input: str = ""
    open_mode: str = ""
    signal: EarlySignal | None = None
    comment: str = ""
    wckey: str = ""
    mail_types: tuple[str, ...] = ()
    mail_user: str = ""
    uenv: str = ""
    view: str = ""
    container_image: str = ""
    container_mounts: str = ""
    container_workdir: str = ""
    container_name: str = ""
    is_container_writable: bool = False
    has_no_home: bool = False  # inside the container
    wrap: str | None = None
    is_parsable: bool = False
    is_quiet: bool = False
    waits: bool = False
    is_test: bool = False
    clusters: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def has_container(self) -> bool:
        """Whether it says anything about a container."""
        texts = self.container_image or self.container_mounts or self.container_workdir or self.container_name
        return bool(texts) or self.is_container_writable or self.has_no_home


def merge(layers: Iterable[Iterable[Given]], *, program: str, now: float) -> Job:
    """Merges layers of options into a job, lowest precedence first.

    Raises Fault for an invalid value.
    """
    changed: dict[str, Any] = {}
    warnings: dict[str, None] = {}
    given = [each for layer in layers for each in layer]
    if len(given) > MAX_OPTIONS:
        raise error(program, f"more than {MAX_OPTIONS} options")
    last = {option.name: place for place, (option, _) in enumerate(given)}
    for place, (option, value) in enumerate(given):
        if option.fate is Fate.REFUSED and option.name != "clusters":
            raise error(program, f"--{option.name}: {option.note}")
        if option.fate is Fate.IGNORED:
            check_ignored(option.name, value, program)
            warnings[f"--{option.name} has no effect: {option.note}"] = None
            continue
        warnings |= dict.fromkeys(step_warnings(option.name, value, program))
        if option.name not in _LISTS or place == last[option.name]:
            changed |= _changes(option.name, value, program, now)
    job = Job(**changed, warnings=tuple(warnings))
    if more := _gres_warnings(job):
        job = replace(job, warnings=(*warnings, *more))
    for one, other in _CONTRARY:
        if one in last and other in last:
            raise error(program, f"--{one} and --{other} contradict each other: give one of them")
    _check_together(job, program)
    return job


def _changes(name: str, value: str, program: str, now: float) -> Mapping[str, Any]:
    """The fields that an option sets."""
    if name in _NEVER_EMPTY and not value:
        raise error(program, f"--{name}: argument required")
    if name in _TEXTS:
        return {_TEXTS[name]: value}
    if name in _FLAGS:
        return _FLAGS[name]
    return _READERS[name](value, program, now) if name in _READERS else {}


_TEXTS = {
    "job-name": "name",
    "partition": "partition",
    "account": "account",
    "qos": "qos",
    "reservation": "reservation",
    "constraint": "features",
    "export": "export",
    "chdir": "chdir",
    "output": "output",
    "error": "error",
    "input": "input",
    "comment": "comment",
    "wckey": "wckey",
    "mail-user": "mail_user",
    "uenv": "uenv",
    "view": "view",
    "container-image": "container_image",
    "container-mounts": "container_mounts",
    "container-workdir": "container_workdir",
    "container-name": "container_name",
    "wrap": "wrap",
    "clusters": "clusters",
}
# A variable that was never set must not mean that work runs on the node itself instead of in its image.
_NEVER_EMPTY = frozenset({"uenv", "view", "container-image", "container-mounts", "container-workdir", "container-name"})
_CONTRARY = (
    ("container-writable", "container-readonly"),
    ("container-mount-home", "no-container-mount-home"),
)
_FLAGS: Mapping[str, dict[str, Any]] = {
    "hold": {"is_held": True},
    "container-writable": {"is_container_writable": True},
    "no-container-mount-home": {"has_no_home": True},
    "requeue": {"requeue": True},
    "no-requeue": {"requeue": False},
    "parsable": {"is_parsable": True},
    "quiet": {"is_quiet": True},
    "wait": {"waits": True},
    "test-only": {"is_test": True},
}

_Reader = Callable[[str, str, float], dict[str, Any]]


def _count(option: str, field_name: str, least: int = 1) -> _Reader:
    def read(value: str, program: str, _now: float) -> dict[str, Any]:
        number = parse_count(value)
        if number is None or number < least:
            raise bad_number(program, option, value)
        return {field_name: number}

    return read


def _memory(option: str, field_name: str) -> _Reader:
    def read(value: str, program: str, _now: float) -> dict[str, Any]:
        megabytes = parse_memory_mb(value)
        if megabytes is None:
            raise bad_value(program, option)
        return {field_name: megabytes}

    return read


def _gpu_count(option: str, field_name: str) -> _Reader:
    def read(value: str, program: str, _now: float) -> dict[str, Any]:
        gpus = parse_gpus(value)
        if gpus is None:
            raise bad_value(program, option)
        return {field_name: gpus}

    return read


def _moment(option: str, field_name: str) -> _Reader:
    def read(value: str, program: str, now: float) -> dict[str, Any]:
        moment = parse_moment(value, now)
        if moment is None:
            raise Fault(
                f"Invalid time specification (pos=0): {value}", *bad_value(program, option).lines, code=WRONG_LINE
            )
        return {field_name: moment}

    return read


def _hosts(option: str, field_name: str) -> _Reader:
    def read(value: str, program: str, _now: float) -> dict[str, Any]:
        try:
            return {field_name: tuple(expand(value, MAX_NAMED))}
        except BadHostlist:
            raise error(program, SUBMISSION_FAILED + "Invalid node name specified") from None

    return read


def _nodes(value: str, program: str, _now: float) -> dict[str, Any]:
    found = parse_nodes(value)
    least, separator, most = value.partition("-")
    if found is None and separator and (low := parse_count(least)) and (high := parse_count(most)) and high < low:
        raise error(program, f"Maximum node count {high} is less than minimum node count {low}", code=WRONG_LINE)
    if found is None and parse_count(least) == 0:
        raise error(program, SUBMISSION_FAILED + "Node count specification invalid")
    if found is None:
        wrong = least if parse_count(least) is None else most or value
        raise error(program, f'"{wrong}" is not a valid node count', code=WRONG_LINE)
    return {"min_nodes": found[0], "max_nodes": found[1]}


def _time(value: str, program: str, _now: float) -> dict[str, Any]:
    seconds = parse_limit(value)
    if seconds is None:
        raise bad_value(program, "time")
    return {"time_s": seconds}


def _array(value: str, program: str, _now: float) -> dict[str, Any]:
    array = parse_array(value)
    if array is None:
        raise error(program, SUBMISSION_FAILED + "Invalid job array specification")
    return {"array": array, "array_text": value}


def _dependency(value: str, program: str, _now: float) -> dict[str, Any]:
    dependency = parse_dependency(value)
    if dependency is None:
        raise error(program, SUBMISSION_FAILED + "Job dependency problem")
    return {"dependency": dependency, "dependency_text": value}


def _gres(value: str, program: str, _now: float) -> dict[str, Any]:
    gpus = parse_gres(value)
    if gpus is None:
        raise error(program, SUBMISSION_FAILED + "Invalid generic resource (gres) specification")
    return {"gpus_per_node": gpus}


def _mail_type(value: str, program: str, _now: float) -> dict[str, Any]:
    types = tuple(word.strip().upper() for word in value.split(",") if word.strip())
    if not types or any(word not in MAIL_TYPES for word in types):
        raise bad_value(program, "mail-type")
    return {"mail_types": () if "NONE" in types else types}


def _open_mode(value: str, program: str, _now: float) -> dict[str, Any]:
    word = value.lower()
    if not word or not ("append".startswith(word) or "truncate".startswith(word)):
        raise bad_value(program, "open-mode")
    return {"open_mode": "append" if "append".startswith(word) else "truncate"}


def _signal(value: str, program: str, _now: float) -> dict[str, Any]:
    found = _SIGNAL.match(value)
    if found is None or parse_signal(found[2]) is None:
        raise bad_value(program, "signal")
    before_s = int(found[3]) if found[3] else 60
    return {"signal": EarlySignal(name=found[2].upper(), before_s=before_s, to_shell="B" in (found[1] or "").upper())}


def _yes_no(value: str, program: str, _now: float) -> dict[str, Any]:
    if value.lower() not in ("yes", "no"):
        raise bad_value(program, "kill-on-invalid-dep")
    return {"kill_on_invalid_dep": value.lower() == "yes"}


def _exclusive(value: str, program: str, _now: float) -> dict[str, Any]:
    if value.lower() not in ("", "user", "mcs"):
        raise bad_value(program, "exclusive")
    return {"is_exclusive": True}


_READERS: Mapping[str, _Reader] = {
    "exclusive": _exclusive,
    "nodes": _nodes,
    "time": _time,
    "array": _array,
    "dependency": _dependency,
    "gres": _gres,
    "mail-type": _mail_type,
    "open-mode": _open_mode,
    "signal": _signal,
    "kill-on-invalid-dep": _yes_no,
    "ntasks": _count("ntasks", "ntasks"),
    "ntasks-per-node": _count("ntasks-per-node", "ntasks_per_node"),
    "cpus-per-task": _count("cpus-per-task", "cpus_per_task"),
    "mincpus": _count("mincpus", "min_cpus"),
    "cpus-per-gpu": _count("cpus-per-gpu", "cpus_per_gpu"),
    "mem": _memory("mem", "memory_mb"),
    "mem-per-cpu": _memory("mem-per-cpu", "memory_per_cpu_mb"),
    "mem-per-gpu": _memory("mem-per-gpu", "memory_per_gpu_mb"),
    "gpus": _gpu_count("gpus", "gpus"),
    "gpus-per-node": _gpu_count("gpus-per-node", "gpus_per_node"),
    "gpus-per-task": _gpu_count("gpus-per-task", "gpus_per_task"),
    "begin": _moment("begin", "begin_at"),
    "deadline": _moment("deadline", "deadline_at"),
    "nodelist": _hosts("nodelist", "nodelist"),
    "exclude": _hosts("exclude", "exclude"),
}

READ = frozenset({*_TEXTS, *_FLAGS, *_READERS})


def _gres_warnings(job: Job) -> list[str]:
    return [f"--gres={name} has no effect: only GPUs are counted" for name in job.gpus_per_node.others]


def _check_together(job: Job, program: str) -> None:
    asked = (job.memory_mb is not None, bool(job.memory_per_cpu_mb), bool(job.memory_per_gpu_mb))
    if sum(asked) > 1:
        raise Fault(f"{program}: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.")
