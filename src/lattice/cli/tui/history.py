"""What happened to an allocation, in words."""

from lattice.cli.times import stamp_text
from lattice.slurm.text.hostlists import fold
from lattice_sdk.models.changes import Event
from lattice_sdk.models.records import Allocation

_PLAIN = {
    "submitted": "submitted",
    "eligible": "may start from now on",
    "stopping": "is being stopped",
    "requeued": "put back into the queue",
    "held": "held",
    "released": "released",
    "updated": "changed",
}


def told(event: Event) -> str:
    match event.kind:
        case "placed":
            return f"placed on {fold(event.nodes or [])}"
        case "started":
            return f"run {event.run} started" if (event.run or 0) > 1 else "started"
        case "ended":
            cause = f", {event.cause}" if event.cause and event.cause != "exit" else ""
            code = f", exit code {event.exit_code}" if event.exit_code else ""
            return f"ended: {event.state}{cause}{code}"
        case kind:
            return _PLAIN.get(kind, kind)


def history(allocation: Allocation, heard: list[Event]) -> list[tuple[str, str]]:
    """Moments and what happened then, oldest first; for what the servers no longer remember, the times of the record."""
    mine = [event for event in heard if event.id == allocation.id and event.at]
    kinds = {event.kind for event in mine}
    where = f"started on {fold(allocation.nodes)}" if allocation.nodes else "started"
    recorded = [
        ("submitted", allocation.submitted_at, "submitted"),
        ("started", allocation.started_at, where),
        ("ended", allocation.completed_at, allocation.ending or f"ended: {allocation.state}"),
    ]
    found = [(at, text) for kind, at, text in recorded if at and kind not in kinds]
    found += [(event.at or "", told(event)) for event in mine]
    return [(stamp_text(at), text) for at, text in sorted(found, key=lambda each: each[0])]
