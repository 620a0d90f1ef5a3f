"""How health checks look."""

from collections.abc import Sequence

from lattice.cli.output import Column
from lattice_sdk.models.health import NodeCheck, NodeVitals

_SHOWN_FIRST = {"failed": 0, "pending": 1, "warned": 2}


def consequence_text(check: NodeCheck) -> str:
    return f"{check.consequence}, not Ready without it" if check.required_for_ready else check.consequence


CHECK_COLUMNS: tuple[Column[NodeCheck], ...] = (
    Column("CHECK", lambda check: check.name),
    Column("VERDICT", lambda check: check.verdict),
    Column("TEXT", lambda check: check.text),
    Column("CONSEQUENCE", consequence_text),
    Column("IN A ROW", lambda check: str(check.failures or ""), is_wide=True),
    Column("AGE", lambda check: f"{check.since_s:.0f} s", is_wide=True),
    Column("TOOK", lambda check: f"{check.duration_s:.3f} s", is_wide=True),
)


def vitals_text(vitals: NodeVitals | None) -> str:
    if vitals is None:
        return ""
    hot = f"{vitals.temperature_c:.0f} °C" if vitals.temperature_c else ""
    gpus = f"{vitals.gpus} GPUs answer" if vitals.gpus else ""
    return ", ".join(filter(None, (hot, gpus, f"{vitals.memory_errors} memory errors")))


def checks_text(checks: Sequence[NodeCheck]) -> str:
    """On one line: what is wrong, in its own words, and how many are not."""
    troubled = sorted((c for c in checks if c.verdict in _SHOWN_FIRST), key=lambda c: (_SHOWN_FIRST[c.verdict], c.name))
    fine = len(checks) - len(troubled)
    said = [f"{check.name} {check.verdict}{f' ({check.text})' if check.text else ''}" for check in troubled]
    return "; ".join([*said, *([f"{fine} passed"] if fine else [])])
