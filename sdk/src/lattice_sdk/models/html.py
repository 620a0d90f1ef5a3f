"""Records as notebooks show them: a small table, without style sheets or scripts."""

from collections.abc import Iterable
from datetime import datetime, timedelta

_MARK = {"Completed": "#1a7f37", "Failed": "#cf222e", "Cancelled": "#8250df", "Running": "#0969da"}


class Shown:
    """Shown by notebooks as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        members = getattr(self, "allocations", ())
        head = table((), facts(self))
        if not members:
            return head
        return head + table(("name", "id", "state", "needs"), ((m.ref, m.id, m.state, m.depends_on) for m in members))


def facts(record: object) -> list[tuple[str, str]]:
    """What is worth a line, of an allocation, a group or a DAG."""

    def text(name: str) -> str:
        return str(getattr(record, name, None) or "")

    lines = [
        ("id", text("id")),
        ("name", text("name")),
        ("state", text("state")),
        ("done", _done(getattr(record, "task_counts", None) or getattr(record, "counts", None))),
        ("reason", text("reason") if text("state") == "Pending" else ""),
        ("end", text("ending")),
        ("nodes", ", ".join(getattr(record, "nodes", ()))),
        ("elapsed", _clock(getattr(record, "elapsed", None))),
        ("submitted", _local(getattr(record, "submitted", None))),
        ("ended", _local(getattr(record, "ended", None))),
    ]
    return [(label, value) for label, value in lines if value]


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """An HTML table; every text is escaped."""
    from html import escape

    top = "".join(f"<th>{escape(head)}</th>" for head in heads)
    body = "".join(f"<tr>{''.join(_cell(escape(value)) for value in row)}</tr>" for row in rows)
    return f"<table>{f'<tr>{top}</tr>' if top else ''}{body}</table>"


def _cell(text: str) -> str:
    colour = _MARK.get(text)
    return f'<td style="color:{colour}">{text}</td>' if colour else f"<td>{text}</td>"


def _done(counts: object) -> str:
    if counts is None:
        return ""
    completed, failed, cancelled, running, size = (
        int(getattr(counts, name)) for name in ("completed", "failed", "cancelled", "running", "size")
    )
    broken = f", {failed} failed" if failed else ""
    return f"{completed + failed + cancelled}/{size}, {running} running{broken}"


def _clock(elapsed: timedelta | None) -> str:
    return "" if elapsed is None else str(elapsed).partition(".")[0]


def _local(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"
