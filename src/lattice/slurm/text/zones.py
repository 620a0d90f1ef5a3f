"""The caller's time zone: Slurm's commands print and read local times of the caller, not of the server.

Programs send it as a variable, in the forms of `TZ`: a name of the zone database, or a rule such as `CET-1CEST,M3.5.0,M10.5.0/3`.
"""

import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from io import BytesIO
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

VARIABLE = "LATTICE_TIME_ZONE"
MAX_NAME = 128

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*", re.ASCII)
_ABBREVIATION = r"(?:[A-Za-z]{3,10}|<[A-Za-z0-9+-]{3,10}>)"
_OFFSET = r"[+-]?\d{1,2}(?::\d{2}){0,2}"
_DATE = rf",(?:M\d{{1,2}}\.\d\.\d|J?\d{{1,3}})(?:/{_OFFSET})?"
_RULE = re.compile(
    rf"(?P<standard>{_ABBREVIATION}){_OFFSET}(?P<summer>{_ABBREVIATION}(?:{_OFFSET})?(?P<dates>{_DATE}{_DATE})?)?",
    re.ASCII,
)
_DEFAULT_DATES = ",M3.2.0,M11.1.0"  # what the C library takes for a rule that names none

# None = the zone of this process.
_zone: ContextVar[tzinfo | None] = ContextVar("zone", default=None)


@contextmanager
def zone_of(environment: Mapping[str, str]) -> Iterator[None]:
    """Times are those of the caller's zone inside, and of this process where the caller names none."""
    name = environment.get(VARIABLE, environment.get("TZ"))
    token = _zone.set(None if name is None else named_zone(name))
    try:
        yield
    finally:
        _zone.reset(token)


def local(seconds: float) -> datetime:
    """Raises ValueError or OverflowError for what no calendar has."""
    zone = _zone.get()
    return datetime.fromtimestamp(seconds, zone) if zone is not None else datetime.fromtimestamp(seconds).astimezone()


def in_zone(moment: datetime) -> float:
    """Seconds since 1970 of a wall-clock time without a zone."""
    zone = _zone.get()
    return (moment if zone is None else moment.replace(tzinfo=zone)).timestamp()


def zone_key() -> tzinfo | None:
    """What tells answers for callers of different zones apart."""
    return _zone.get()


@lru_cache(maxsize=64)
def named_zone(name: str) -> tzinfo:
    """UTC for what is unknown, as in the C library."""
    name = name.removeprefix(":").rpartition("zoneinfo/")[2]
    if len(name) > MAX_NAME:
        return UTC
    if _NAME.fullmatch(name):
        try:
            return ZoneInfo(name)
        except (OSError, ValueError, ZoneInfoNotFoundError):
            pass  # a rule, or nothing
    found = _RULE.fullmatch(name)
    if found is None:
        return UTC
    rule = name + (_DEFAULT_DATES if found["summer"] and not found["dates"] else "")
    try:
        return ZoneInfo.from_file(BytesIO(_file_of(rule)), key=name)
    except ValueError:
        return UTC


def _file_of(rule: str) -> bytes:
    """A file of the zone database that knows nothing but a rule."""
    head = struct.pack(">4sc15x6l", b"TZif", b"2", 0, 0, 0, 0, 1, 4)
    kind = struct.pack(">lbb4s", 0, 0, 0, b"UTC\0")
    return (head + kind) * 2 + f"\n{rule}\n".encode()
