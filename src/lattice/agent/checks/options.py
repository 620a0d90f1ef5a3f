"""Which checks a node has: the built-in ones, changed and joined by what a file and a directory of programs say.

The file is TOML or JSON, one table per check. A table with `argv` is a program of the site; one without changes a built-in check
or a program of the directory. Whatever is wrong is said with the name of the table, before the agent starts.
"""

import json
import math
import os
import pwd
import tomllib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lattice.agent.checks.programs import SiteProgram
from lattice.core.model.nodes.health import CheckRule, Consequence
from lattice.wire.agents.health import MAX_CHECKS, NAME

LEAST_PERIOD_S = 1.0
LEAST_TIMEOUT_S = 0.1


class UnusableChecks(ValueError):
    """The description of the checks cannot be used; the text says why."""


class BuiltinOptions(Struct, frozen=True, kw_only=True):
    """The options of the built-in checks; each check reads its own."""

    paths: tuple[str, ...] = ()
    least_free_mb: int = 64
    least_free_percent: float = 0.0
    warn_free_percent: float = 5.0
    most_uncorrected: int = 0
    most_corrected_per_hour: int = 100
    expected: int | None = None
    most_offset_s: float = 5.0
    names: tuple[str, ...] = ()
    with_firmware: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


class CheckTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of the file; None = as it is without it."""

    enabled: bool = True
    argv: tuple[str, ...] = ()
    user: str = ""
    period_s: float | None = None
    timeout_s: float | None = None
    consequence: Consequence | None = None
    required_for_ready: bool | None = None
    failures: int | None = None
    passes: int | None = None
    paths: tuple[str, ...] | None = None
    least_free_mb: int | None = None
    least_free_percent: float | None = None
    warn_free_percent: float | None = None
    most_uncorrected: int | None = None
    most_corrected_per_hour: int | None = None
    expected: int | None = None
    most_offset_s: float | None = None
    names: tuple[str, ...] | None = None
    with_firmware: tuple[str, ...] | None = None
    hosts: tuple[str, ...] | None = None


class Check(Struct, frozen=True, kw_only=True):
    """One check of this node: built in, or a program."""

    rule: CheckRule
    program: SiteProgram | None = None
    options: BuiltinOptions = BuiltinOptions()


def _builtin(
    name: str, consequence: Consequence, period_s: float, *, ready: bool = False, timeout_s: float = 10.0
) -> Check:
    rule = CheckRule(
        name=name, period_s=period_s, timeout_s=timeout_s, consequence=consequence, required_for_ready=ready
    )
    return Check(rule=rule)


# Checks that need a target are off until it is configured: `NEEDS`.
DEFAULTS: dict[str, Check] = {
    check.rule.name: check
    for check in (
        _builtin("disk_space", Consequence.DEGRADE, 60.0, ready=True),
        _builtin("memory_errors", Consequence.DRAIN, 300.0),
        _builtin("gpu_count", Consequence.DEGRADE, 60.0, ready=True),
        _builtin("gpu_errors", Consequence.DRAIN, 300.0, timeout_s=30.0),
        _builtin("clock_offset", Consequence.WARN, 300.0),
        _builtin("mounts", Consequence.DEGRADE, 60.0, ready=True),
        _builtin("network", Consequence.DEGRADE, 60.0, ready=True),
        _builtin("nics", Consequence.DEGRADE, 60.0, ready=True),
        _builtin("fingerprint", Consequence.WARN, 300.0, ready=True),
    )
}
NEEDS = {"mounts": "paths", "network": "hosts"}
_PERTINENT = {
    "disk_space": ("paths", "least_free_mb", "least_free_percent", "warn_free_percent"),
    "memory_errors": ("most_uncorrected", "most_corrected_per_hour"),
    "gpu_count": ("expected",),
    "gpu_errors": ("most_uncorrected",),
    "clock_offset": ("most_offset_s",),
    "mounts": ("paths",),
    "network": ("hosts",),
    "nics": ("names", "with_firmware"),
    "fingerprint": (),
}


def choose_checks(file: Path | None, directory: Path | None) -> tuple[Check, ...]:
    """All checks of the node, by name. Raises UnusableChecks."""
    tables = read_tables(file) if file is not None else {}
    found = dict(DEFAULTS) | (_programs_in(directory) if directory is not None else {})
    for name, table in tables.items():
        before = found.get(name)
        if table.argv:
            if name in DEFAULTS:
                raise UnusableChecks(f"[{name}]: the name of a built-in check; call the program's table something else")
            before = Check(rule=CheckRule(name=name), program=SiteProgram(argv=table.argv))
        if before is None:
            known = ", ".join(sorted(found))
            raise UnusableChecks(f"[{name}]: no such check, and no argv to make it one; there are {known}")
        found[name] = _changed(before, table)
    off = {name for name, table in tables.items() if not table.enabled}
    chosen = [check for name, check in sorted(found.items()) if name not in off and _is_of_use(check)]
    if len(chosen) > MAX_CHECKS:
        raise UnusableChecks(f"{len(chosen)} checks; at most {MAX_CHECKS} are run")
    return tuple(chosen)


def _is_of_use(check: Check) -> bool:
    need = NEEDS.get(check.rule.name)
    return need is None or bool(getattr(check.options, need))


def read_tables(file: Path) -> dict[str, CheckTable]:
    try:
        text = file.read_text()
        whole: Any = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise UnusableChecks(f"{file}: {error}") from error
    if not isinstance(whole, dict):
        raise UnusableChecks(f"{file}: expected one table per check")
    tables = {}
    for name, table in whole.items():
        if not NAME.fullmatch(name):
            raise UnusableChecks(
                f"{file}: {name[:60]!r} cannot be the name of a check: up to 40 letters, digits, - and _"
            )
        try:
            tables[name] = msgspec.convert(table, CheckTable)
        except msgspec.ValidationError as error:
            raise UnusableChecks(f"{file}: [{name}]: {error}") from error
    return tables


def _programs_in(directory: Path) -> dict[str, Check]:
    try:
        entries = sorted(directory.iterdir())
    except OSError as error:
        raise UnusableChecks(f"{directory}: {error.strerror}") from error
    found = {}
    for entry in entries:
        if entry.name.startswith(".") or not entry.is_file() or not os.access(entry, os.X_OK):
            continue
        name = entry.stem
        if not NAME.fullmatch(name) or name in DEFAULTS or name in found:
            raise UnusableChecks(f"{entry}: {name!r} is taken, or cannot be the name of a check")
        found[name] = Check(rule=CheckRule(name=name), program=SiteProgram(argv=(str(entry.absolute()),)))
    return found


def _changed(check: Check, table: CheckTable) -> Check:
    name, rule = check.rule.name, check.rule
    given = {field: value for field in _fields(BuiltinOptions) if (value := getattr(table, field)) is not None}
    strange = sorted(set(given) - set(_PERTINENT.get(name, ())))
    if strange:
        raise UnusableChecks(f"[{name}]: {', '.join(strange)} means nothing to this check")
    for field, value in given.items():
        if isinstance(value, int | float):
            _at_least(name, field, value, 0)
    if table.user and check.program is None:
        raise UnusableChecks(f"[{name}]: a built-in check has no user of its own")
    words = {
        "period_s": _at_least(name, "period_s", table.period_s, LEAST_PERIOD_S),
        "timeout_s": _at_least(name, "timeout_s", table.timeout_s, LEAST_TIMEOUT_S),
        "failures_needed": _at_least(name, "failures", table.failures, 1),
        "passes_needed": _at_least(name, "passes", table.passes, 1),
        "consequence": table.consequence,
        "required_for_ready": table.required_for_ready,
    }
    rule = replace(rule, **{field: value for field, value in words.items() if value is not None})
    program = check.program
    if program is not None and table.user:
        program = replace(program, user=_account(name, table.user))
    for host in table.hosts or ():
        place, _, port = host.rpartition(":")
        if not place or not port.isdigit():
            raise UnusableChecks(f"[{name}]: {host!r} is not host:port")
    return Check(rule=rule, program=program, options=replace(check.options, **given))


def _fields(kind: type[Struct]) -> tuple[str, ...]:
    return kind.__struct_fields__


def _at_least(name: str, field: str, value: float | None, least: float) -> float | None:
    if value is not None and not (math.isfinite(value) and value >= least):
        raise UnusableChecks(f"[{name}]: {field} is {value:g}; at least {least:g} is wanted")
    return value


def _account(name: str, user: str) -> str:
    try:
        uid = pwd.getpwnam(user).pw_uid
    except KeyError:
        raise UnusableChecks(f"[{name}]: there is no user {user!r} on this node") from None
    if os.geteuid() not in (0, uid):
        raise UnusableChecks(f"[{name}]: an agent that is not root cannot run it as {user!r}")
    return user
