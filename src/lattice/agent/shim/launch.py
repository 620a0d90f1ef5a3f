"""What a start asks for: the one record that the shim makes of a request.

The agent may be newer or older than the shim: names in requests change only with `PROTOCOL` in `table.py`.
"""

from __future__ import annotations

import os
import resource

from lattice.agent.shim.confinement.devices import MAX_RULES, Rule, parse_rule
from lattice.agent.shim.confinement.memory_policy import parse_policy
from lattice.agent.shim.limits import MAX_CPUS, MAX_MEMORY_MB, MAX_PIDS, Limits
from lattice.agent.shim.namespace import mounts_of

DEFAULT_PATH = b"/usr/local/bin:/usr/bin:/bin"
DEFAULT_GRACE_S = 30.0
MAX_ID = (1 << 32) - 2
MAX_NUMBER = (1 << 63) - 1
MAX_S = 1e9
MAX_CPU = (1 << 16) - 1
MAX_SIGNAL = 64
TARGETS = frozenset({"all", "steps", "entrypoint"})

Early = tuple[int, float, str]


class Launch:
    """A checked request to start a run, or a task of a step; ValueError says what cannot be meant.

    `stdout`, `stderr` and `stdin` are files of the user's choice; an empty `stderr` goes where `stdout` goes, if that is named.
    `early` is a signal, how many seconds before the limit it is sent, and to whom: `all`, the `steps`, or the `entrypoint` alone.
    """

    __slots__ = (
        "append",
        "argv",
        "candidates",
        "cgroup",
        "cpus",
        "cwd",
        "early",
        "env",
        "gid",
        "grace_s",
        "groups",
        "holds",
        "is_probed",
        "is_sealed",
        "limits",
        "memory_policy",
        "mounts",
        "namespace",
        "rlimits",
        "stderr",
        "stdin",
        "stdout",
        "uid",
        "umask",
        "walltime_s",
    )

    def __init__(self, request: dict[str, object]) -> None:
        self.argv = [_encode(word) for word in _texts(request, "argv")]
        if not self.argv or not self.argv[0]:
            raise ValueError("argv is empty")
        self.env = {_encode(name): _encode(value) for name, value in mapping(request, "env").items()}
        self.cwd = _encode(request.get("cwd") or "/")
        self.uid = integer(request, "uid", os.geteuid(), MAX_ID)
        self.gid = integer(request, "gid", os.getegid(), MAX_ID)
        self.umask = integer(request, "umask", 0o022, 0o777)
        self.groups = _integers(request, "groups", MAX_ID)
        self.cpus = _integers(request, "cpus", MAX_CPU)
        self.cgroup = str(request.get("cgroup") or "")
        self.limits = limits_of(request)
        self.rlimits = _rlimits(mapping(request, "limits"))
        self.memory_policy = parse_policy(request.get("memory_policy"))
        self.mounts = mounts_of(request)
        self.is_sealed = bool(request.get("sealed"))  # in a container: without capabilities and some system calls
        self.holds = bool(request.get("holds"))  # nothing is executed: the run is there for steps until it is stopped
        self.is_probed = bool(request.get("probed"))  # commands are run beside it, as it is run
        self.namespace = -1  # a descriptor of the file system that the process sees, once it is made; -1 = the host's
        self.grace_s = seconds(request, "grace_s", DEFAULT_GRACE_S)
        self.walltime_s = seconds(request, "walltime_s", 0.0)
        files = mapping(request, "files")
        self.stdout, self.stderr, self.stdin = (path(files, name) for name in ("stdout", "stderr", "stdin"))
        self.append = files.get("mode") == "append"
        self.early = _early(mapping(request, "early"))
        if os.geteuid() != 0 and self.uid != os.geteuid():
            raise ValueError(f"cannot run as uid {self.uid}: the agent is not root but uid {os.geteuid()}")
        self.candidates = find_candidates(self.argv[0], self.env.get(b"PATH") or DEFAULT_PATH)

    def of_task(self, asked: dict[str, object]) -> Launch:
        """The same for one task of a step: arguments, variables and CPUs of its own. What all tasks share was checked before."""
        task = Launch.__new__(Launch)
        for name in Launch.__slots__:
            setattr(task, name, getattr(self, name))
        own = {_encode(name): _encode(value) for name, value in mapping(asked, "env").items()}
        task.env = {**self.env, **own}
        task.cpus = _integers(asked, "cpus", MAX_CPU) or self.cpus
        if asked.get("argv"):
            task.argv = [_encode(word) for word in _texts(asked, "argv")]
        if not task.argv[0]:
            raise ValueError("argv is empty")
        if task.argv is not self.argv or b"PATH" in own:
            task.candidates = find_candidates(task.argv[0], task.env.get(b"PATH") or DEFAULT_PATH)
        return task

    @property
    def are_joined(self) -> bool:
        """Whether stderr goes to the file of stdout."""
        return bool(self.stdout) and self.stderr in (b"", self.stdout)


def _early(asked: dict[str, object]) -> Early | None:
    if not asked:
        return None
    return integer(asked, "signal", 0, MAX_SIGNAL), seconds(asked, "before_s", 0.0), target(asked)


def target(request: dict[str, object]) -> str:
    """Whom a signal is for."""
    said = str(request.get("to") or "all")
    if said not in TARGETS:
        raise ValueError(f"no such target of a signal: {said}")
    return said


def mapping(request: dict[str, object], key: str) -> dict[str, object]:
    value = request.get(key) or {}
    if not isinstance(value, dict):
        raise ValueError(f"{key} is not an object")
    return value


def path(files: dict[str, object], key: str) -> bytes:
    text = files.get(key) or ""
    if not isinstance(text, str) or "\0" in text:
        raise ValueError(f"{key} is not the name of a file")
    return text.encode("utf-8", "surrogateescape")


def integer(request: dict[str, object], key: str, default: int, most: int = MAX_NUMBER) -> int:
    value = request.get(key)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"{key} is not a number from 0 to {most}: {value!r}")
    return value


def _integers(request: dict[str, object], key: str, most: int) -> list[int]:
    values = request.get(key) or []
    if not isinstance(values, list):
        raise ValueError(f"{key} is not a list")
    return [integer({key: value}, key, 0, most) for value in values]


def seconds(request: dict[str, object], key: str, default: float) -> float:
    value = request.get(key)
    if value is None:
        return default
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= MAX_S:
        raise ValueError(f"{key} is not a number of seconds: {value!r}")
    return float(value)


def limits_of(request: dict[str, object]) -> Limits:
    """What the run may take, as the request says it; agents from before `limits` name the memory alone."""
    asked = mapping(request, "limits")
    cpus = asked.get("cpus") or 0.0
    if not isinstance(cpus, int | float) or isinstance(cpus, bool) or not 0 <= cpus <= MAX_CPUS:
        raise ValueError(f"limits.cpus is not a number of CPUs: {cpus!r}")
    return Limits(
        memory_mb=integer(request, "memory_mb", 0, MAX_MEMORY_MB),
        cpus=float(cpus),
        pids=integer(asked, "pids", 0, MAX_PIDS),
        cpuset=tuple(_integers(asked, "cpuset", MAX_CPU)),
        devices=_devices(asked),
        io=(integer(asked, "read_bps", 0), integer(asked, "write_bps", 0)),
    )


def _devices(asked: dict[str, object]) -> tuple[Rule, ...] | None:
    rules = asked.get("devices")
    if rules is None:
        return None
    if not isinstance(rules, list) or len(rules) > MAX_RULES:
        raise ValueError(f"limits.devices is not a list of at most {MAX_RULES}")
    return tuple(parse_rule(rule) for rule in rules)


def _rlimits(asked: dict[str, object]) -> list[tuple[int, tuple[int, int]]]:
    """Numbers of resources, each with its soft and hard limit; -1 = unlimited."""
    limits = []
    for name, pair in mapping(asked, "rlimits").items():
        number = getattr(resource, f"RLIMIT_{name.upper()}", None)
        if number is None or not isinstance(pair, list) or len(pair) != 2:
            raise ValueError(f"limits.rlimits has no pair of limits for {name!r}")
        soft, hard = (-1 if value == -1 else integer({name: value}, name, 0) for value in pair)
        limits.append((number, (soft, hard)))
    return limits


def _texts(request: dict[str, object], key: str) -> list[str]:
    value = request.get(key)
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ValueError(f"{key} is not a list of strings")
    return value


def _encode(text: object) -> bytes:
    if not isinstance(text, str):
        raise ValueError(f"not a string: {text!r}")
    if "\0" in text:
        raise ValueError("a string contains a NUL character")
    return text.encode("utf-8", "surrogateescape")


def find_candidates(program: bytes, path: bytes) -> list[bytes]:
    """Where to look for a program, in the run's own PATH; relative entries mean its directory."""
    if b"/" in program:
        return [program]
    return [(folder or b".") + b"/" + program for folder in path.split(b":")]
