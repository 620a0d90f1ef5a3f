"""`lattice watch`: changes of state as they happen; of named allocations until the last has ended."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, UsageError
from lattice.cli.output import show_line
from lattice_sdk.models.changes import Event
from lattice_sdk.models.records import GAP, Allocation
from lattice_sdk.streams import Watch


@dataclass(frozen=True, kw_only=True)
class Options:
    ids: tuple[str, ...] = ()
    since: int | None = None
    user: str = ""
    project: str = ""
    tag: tuple[str, ...] = ()
    what: tuple[str, ...] = ()
    alerts_only: bool = False


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
    add("--alerts-only", action="store_true", help="not supported by this version")


def run(options: Options, context: Context) -> int:
    if options.alerts_only:
        raise UsageError("--alerts-only is not supported by this version of Lattice")
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
    context.streams.write("".join(char if char.isprintable() else "?" for char in line) + "\n")
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
