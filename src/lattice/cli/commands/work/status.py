"""`lattice status`: show allocations, by default the user's own."""

import argparse
from dataclasses import dataclass

import msgspec

from lattice.cli.arranged import LIST_FORMATS, allow_list_formats
from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.each import for_each, names_several
from lattice.cli.errors import OK, UsageError
from lattice.cli.input.selection import Selection, add_selection, selected
from lattice.cli.output import chosen_columns, encoded_yaml, sheet, show_line, show_list, sorted_rows, structured
from lattice.cli.recent import remember
from lattice.cli.times import parse_duration_s
from lattice.cli.views.allocations import COLUMNS, COLUMNS_OF_ALL, allocation_pairs, request_pairs, script_text
from lattice.cli.views.explanations import explanation_pairs
from lattice.cli.views.usage import live_pairs
from lattice_sdk.errors import NotFound
from lattice_sdk.models.records import FAILED, Allocation, AllocationFilter, Explanation
from lattice_sdk.models.runs import LiveUsage

ONE_PAGE = 10000
REFRESH_S = 5.0
RUNNING = ("Running", "Checkpointing")
SHORTEST_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Options(Selection):
    ids: tuple[str, ...] = ()
    count: bool = False
    script: bool = False
    watch: bool = False
    interval: float = REFRESH_S


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("ids", nargs="*", metavar="ID", help="show only these, including archived ones; a17_[3-7,9] = tasks of a group")
    add_selection(add)
    allow_list_formats(parser)
    add("--script", action="store_true", help="print what was submitted: the script, or the command")
    add("--count", action="store_true", help="show only the number in each state")
    add("--watch", action="store_true", help="refresh until interrupted")
    add("--interval", type=parse_duration_s, metavar="S", help="refresh interval in seconds (default: 5)")


def run(options: Options, context: Context) -> int:
    if not options.watch:
        return _show(options, context)
    if options.interval < SHORTEST_S:
        raise UsageError(f"--interval {options.interval:g} is too short", hint=f"the minimum is {SHORTEST_S:g} second")
    while True:
        if context.streams.stdout.isatty():
            context.streams.write("\x1b[H\x1b[2J")
        _show(options, context)
        context.streams.stdout.flush()
        context.clock.pause(options.interval)


def _show(options: Options, context: Context) -> int:
    if context.output in LIST_FORMATS and (options.script or options.count or context.flags.verbose):
        raise UsageError(f"-o {context.output} is for lists", hint="leave out --script, --count and --verbose")
    if options.script:
        return _show_scripts(options, context)
    if options.count:
        return _show_count(options, context)
    if options.ids and not options.tasks and not any(names_several(name) for name in options.ids):
        return _show_named(options, context)
    groups = options.ids or ("",)
    found = [a for group in groups for a in _found(options, group, context)]
    found.sort(key=lambda allocation: (allocation.is_terminal, allocation.number))
    remember(context, allocations=(allocation.id for allocation in found))
    ended = [allocation for allocation in found if allocation.is_terminal]
    if not ended or not _is_folded(options, context):
        _print(found, options, context)
        return OK
    active = [allocation for allocation in found if not allocation.is_terminal]
    if active:
        _print(active, options, context)
    context.say(f"{len(ended)} ended in the last 5 min: lattice history")
    return OK


def _is_folded(options: Options, context: Context) -> bool:
    """Whether what has ended is only counted: for a person who asked for nothing in particular."""
    is_particular = options.ids or options.state or options.watch or options.columns or options.sort
    is_for_eyes = context.streams.stdout.isatty() and context.output in {"table", "wide"}
    return is_for_eyes and not is_particular and not context.flags.quiet


def _show_scripts(options: Options, context: Context) -> int:
    """The script as it was submitted, byte for byte, or the command as a shell would take it."""
    from lattice.cli.input.again import details_of

    if not options.ids:
        raise UsageError("--script needs an ID")
    found, code = for_each(options.ids, lambda name: context.client.get_allocation(name, details=True), context)
    for allocation in found:
        context.streams.write(script_text(details_of(allocation)))
    return code


def _show_named(options: Options, context: Context) -> int:
    if context.flags.verbose and not options.watch:
        return _show_in_full(options, context)
    found, code = for_each(options.ids, context.client.get_allocation, context)
    if len(options.ids) > 1 or options.watch or (found and not structured(context, found[0])):
        _print(found, options, context)
    return code


def _show_in_full(options: Options, context: Context) -> int:
    """Each allocation in full, and why it is pending."""
    found, code = for_each(options.ids, lambda name: _with_explanation(name, context), context)
    plain = [
        {**msgspec.to_builtins(allocation), "explanation": why, **({"live": uses} if uses is not None else {})}
        for allocation, why, uses in found
    ]
    if found and structured(context, plain[0] if len(options.ids) == 1 else plain):
        return code
    pages = (
        sheet(
            [
                *allocation_pairs(allocation, context.clock.now()),
                *(live_pairs(uses) if uses is not None else ()),
                *_failed_tasks(allocation, context),
                *request_pairs(allocation),
                *_reasons(allocation, why, context.clock.now()),
            ]
        )
        for allocation, why, uses in found
    )
    context.streams.write("\n".join(pages))
    return code


def _failed_tasks(allocation: Allocation, context: Context) -> list[tuple[str, str]]:
    """Which tasks of a group failed, as `--task-group` takes them."""
    counts = allocation.task_counts
    if counts is None or not counts.failed:
        return []
    from lattice.cli.input.again import index_ranges, task_indices

    return [("Failed tasks", index_ranges(task_indices(allocation.id, context, states=(FAILED,))))]


def _reasons(allocation: Allocation, why: Explanation, now: float) -> list[tuple[str, str]]:
    """Of what has ended the sheet has said it."""
    return [] if allocation.is_terminal else explanation_pairs(why, now)


def _with_explanation(name: str, context: Context) -> tuple[Allocation, Explanation, LiveUsage | None]:
    allocation = context.client.get_allocation(name, details=True)
    return allocation, context.client.explain(name), _live_usage(allocation, context)


def _live_usage(allocation: Allocation, context: Context) -> LiveUsage | None:
    """What it uses now; None where it does not run, or where the server is of a release that cannot say it."""
    if allocation.state not in RUNNING or allocation.task_counts is not None:
        return None
    try:
        return context.client.live_usage(allocation.id)
    except NotFound:
        return None


def _print(found: list[Allocation], options: Options, context: Context) -> None:
    if options.watch and context.output in {"json", "yaml"}:
        show_line(context, found)
    else:
        columns = COLUMNS_OF_ALL if options.all else COLUMNS
        rows = sorted_rows(options, found, columns)
        chosen = chosen_columns(options, columns)
        show_list(context, rows, chosen, name=lambda allocation: allocation.id, headers=not options.no_headers)


def _found(options: Options, group: str, context: Context) -> list[Allocation]:
    wanted = _filter(options, group, context)
    if options.limit is None:
        return list(context.client.iter_allocations(wanted, page_size=ONE_PAGE))
    return context.client.list_allocations(wanted, limit=max(1, options.limit)).items


def _filter(options: Options, group: str, context: Context) -> AllocationFilter:
    wanted = selected(options, context, is_anyone=bool(group))
    return msgspec.structs.replace(wanted, group=group, is_archive_included=bool(group))


def _show_count(options: Options, context: Context) -> int:
    counts = context.client.count_allocations(_filter(options, "", context))
    if context.flags.quiet and context.output in {"table", "wide"}:
        context.streams.write(f"{counts.total}\n")
    elif not structured(context, counts):
        context.streams.write(encoded_yaml({**counts.states, "total": counts.total}))
    return OK


COMMAND = Command(
    options=Options,
    has_vcluster=True,
    dashed=frozenset({"--sort"}),
    fill=fill,
    run=run,
    examples=(
        "lattice status",
        "lattice status a17 a18 -o json",
        "lattice status a17 --verbose",
        "lattice status a17 --script",
        "lattice status --state=running,pending --all",
        "lattice status --columns=id,name,elapsed --sort=-elapsed -o csv",
        "lattice status --watch",
    ),
)
