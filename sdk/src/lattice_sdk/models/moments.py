"""Times between programs and the API: `datetime` and `timedelta` here, RFC 3339 texts and seconds on the wire."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import msgspec

T = TypeVar("T")

Moment = str | datetime
Duration = str | timedelta
_PLAIN = frozenset({type(None), bool, int, float, str, tuple, list, dict})  # nearly all fields of a submission


def moment(text: str | None) -> datetime | None:
    """A text of the API as a time with its zone."""
    return datetime.fromisoformat(text) if text else None


def duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def as_text(value: str | datetime | timedelta) -> str:
    """A time or duration as the API takes it. A time without a zone is local."""
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.3f}".rstrip("0").rstrip(".") + "s"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value


def with_texts(record: T) -> T:
    """The same record with its times and durations, and those of the records in it, as texts."""
    if not isinstance(record, msgspec.Struct):
        return record
    changed: dict[str, object] = {}
    for name in record.__struct_fields__:
        old = getattr(record, name)
        if type(old) in _PLAIN:
            continue
        new = as_text(old) if isinstance(old, datetime | timedelta) else with_texts(old)
        if new is not old:
            changed[name] = new
    return msgspec.structs.replace(record, **changed) if changed else record


def texts_of(changes: Mapping[str, object]) -> dict[str, object]:
    """The same with times and durations as texts."""
    return {key: as_text(new) if isinstance(new, datetime | timedelta) else new for key, new in changes.items()}


class Timed:
    """Times of an allocation or a DAG as Python has them; None while there is none."""

    __slots__ = ()

    submitted_at: str | None
    completed_at: str | None

    @property
    def submitted(self) -> datetime | None:
        return moment(self.submitted_at)

    @property
    def ended(self) -> datetime | None:
        return moment(self.completed_at)


class Run(Timed):
    """Times and durations of an allocation as Python has them."""

    __slots__ = ()

    started_at: str | None
    walltime_s: float | None
    elapsed_s: float | None

    @property
    def started(self) -> datetime | None:
        return moment(self.started_at)

    @property
    def walltime(self) -> timedelta | None:
        return duration(self.walltime_s)

    @property
    def elapsed(self) -> timedelta | None:
        return duration(self.elapsed_s)
