"""`lattice watch`: changes of state as they happen; of named allocations until the last has ended."""

import argparse
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, UsageError
from lattice.cli.output import printable, show_line
from lattice_sdk.errors import LatticeError
from lattice_sdk.models.changes import Event
from lattice_sdk.models.records import GAP, Allocation
from lattice_sdk.streams import Watch

LAST_CHANGE_S = 5.0  # the end of the work may be seen a little later than that of its figures


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()
    since: int | None = None
    user: str = ""
    project: str = ""
    tag: tuple[str, ...] = ()
    what: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    alerts_only: bool = False
    history: str = ""


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("ids", nargs="*", metavar="ID", help="watch only these allocations, groups or DAGs, until all have finished")
    add("--since", type=int, metavar="INDEX", help="start after this log index")
    add("--user", metavar="NAME", help="watch only work of this user")
    add("--project", metavar="NAME", help="watch only work of this project")
    add("--tag", action="append", metavar="KEY=VALUE", help="watch only work with this tag; may be repeated")
    add(
        "--what",
        action="append",
        metavar="KIND",
        help="watch only this kind: allocation, dag, node, tenant, project, vcluster, service, ...; may be repeated",
    )
    add(
        "--metrics",
        action="append",
        default=[],
        metavar="NAME,...",
        help="of one allocation: also these metrics as they are measured, and alerts; may be repeated",
    )
    add("--alerts-only", action="store_true", help="of one allocation: only alerts about what it uses")
    add(
        "--history",
        default="",
        metavar="TIME",
        help="with --metrics: begin with the figures of the last TIME, as in 10m",
    )


def run(options: Options, context: Context) -> int:
    if options.metrics or options.alerts_only:
        return _with_figures(options, context)
    if options.history:
        raise UsageError("--history needs --metrics", hint="use `lattice watch ID --metrics=NAME --history=10m`")
    # The stream is opened before the states are read: no change falls between the two.
    stream = context.client.watch(
        options.ids,
        since=options.since,
        user=options.user,
        tenant=context.flags.tenant or "",
        project=options.project,
        tags=options.tag,
        what=options.what,
    )
    try:
        return _follow(stream, options.ids, context)
    finally:
        stream.close()


def _with_figures(options: Options, context: Context) -> int:
    """Figures and alerts of one allocation beside its changes of state, or alerts alone."""
    from lattice.cli.commands.telemetry.top import show_event

    if len(options.ids) != 1:
        raise UsageError(
            "--metrics and --alerts-only need one allocation", hint="use `lattice watch ID --metrics=NAME`"
        )
    if options.metrics and options.alerts_only:
        raise UsageError("--metrics and --alerts-only exclude each other")
    if options.history and not options.metrics:
        raise UsageError("--history needs --metrics", hint="use `lattice watch ID --metrics=NAME --history=10m`")
    figures = context.client.stream_metrics(
        options.ids[0], options.metrics, alerts_only=options.alerts_only, history=options.history
    )
    if options.alerts_only:
        try:
            for event in figures:
                show_event(event, context)
        finally:
            figures.close()
        return OK
    second = context.connect()
    states = second.watch(options.ids, since=options.since)
    beside = Thread(target=_quietly, args=(states, options.ids, context), daemon=True)
    beside.start()
    try:
        for event in figures:
            show_event(event, context)
        beside.join(LAST_CHANGE_S)
    finally:
        figures.close()
        states.stop()
        second.close()
    return OK


def _quietly(states: Watch, ids: tuple[str, ...], context: Context) -> None:
    """In a thread of its own: what goes wrong with one stream goes wrong with the other, which says it."""
    with suppress(LatticeError, OSError):
        _follow(states, ids, context)


def _follow(stream: Watch, ids: tuple[str, ...], context: Context) -> int:
    living = _show_present(ids, context)
    if ids and not living:
        return OK
    for event in stream:
        if event.kind == GAP and ids:
            living = _show_present(tuple(sorted(living)), context)
        else:
            _show(event, context)
            living -= {event.id} if event.is_terminal else set()
        if ids and not living:
            break
    return OK


def _show_present(ids: tuple[str, ...], context: Context) -> set[str]:
    """Show how things stand; those that have not ended."""
    found = [_present(name, context) for name in ids]
    for event in found:
        _show(event, context)
    return {event.id for event in found if not event.is_terminal}


def _present(name: str, context: Context) -> Event:
    if name[:1] != "d":
        return _as_event(context.client.get_allocation(name))
    dag = context.client.get_dag(name)
    at = dag.completed_at or dag.submitted_at
    return Event(index=0, kind="now", what="dag", at=at, id=dag.id, number=dag.number, name=dag.name, state=dag.state)


def _as_event(allocation: Allocation) -> Event:
    return Event(
        index=0,
        kind="now",
        at=allocation.completed_at or allocation.started_at or allocation.submitted_at,
        id=allocation.id,
        number=allocation.number,
        name=allocation.name,
        state=allocation.state,
        reason=allocation.reason or None,
        cause=allocation.cause,
        exit_code=allocation.exit_code,
    )


def _show(event: Event, context: Context) -> None:
    if context.output in {"json", "yaml"}:
        show_line(context, event)
        return
    figures = [
        event.name or "",
        event.cause or "",
        f"exit code {event.exit_code}" if event.exit_code else "",
        event.reason or "",
        f"on {','.join(event.nodes)}" if event.nodes else "",
    ]
    rest = "  ".join(figure for figure in figures if figure)
    line = f"{event.at or '-'}  {event.id:<10} {event.kind:<10} {event.state:<10} {rest}".rstrip()
    context.streams.write(printable(line) + "\n")
    context.streams.stdout.flush()


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=(
        "lattice watch",
        "lattice watch a17",
        "lattice watch --project=lhc --tag=stage=train",
        "lattice watch --what=node",
        "lattice watch --since=4711 -o json",
    ),
)
