"""`lattice service update|history|rollback`: what a service runs, and what it ran before."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, CommandError, UsageError
from lattice.cli.input.probes import parse_probe
from lattice.cli.input.scripts import load_script
from lattice.cli.input.submission import parse_pair
from lattice.cli.output import Column, show_list, structured
from lattice_sdk.models.runs import ContainerOptions
from lattice_sdk.registry.models import Revision, Revisions, Rollout
from lattice_sdk.registry.revisions import ServiceChanges

POLL_S = 20.0
_SUBMIT = "submit another service with it, and cancel this one when that is ready; both may expose the same name"
_UPDATE = "`lattice update` changes it"
# What an update does not change: a revision is what instances run, on the nodes and within the limits that the service has.
FIXED = {
    **dict.fromkeys(("-N", "--nodes", "--cpus", "--memory", "--gpus", "--exclusive", "--constraint"), _SUBMIT),
    **dict.fromkeys(("--nodelist", "--exclude", "--topology", "--scratch", "--data-mount", "--mount"), _SUBMIT),
    **dict.fromkeys(("--expose", "--service", "--reactive", "--requeue", "--max-requeue", "--checkpoint"), _SUBMIT),
    **dict.fromkeys(("--min-nodes", "--max-nodes", "--scale-metric", "--scale-target"), _SUBMIT),
    **dict.fromkeys(("--scale-up-window", "--scale-down-window", "--scale-down-threshold"), _SUBMIT),
    **dict.fromkeys(("--scale-interval", "--scale-cooldown", "--project", "--chdir"), _SUBMIT),
    **dict.fromkeys(("--walltime", "--priority", "--name", "--tag", "--untag"), _UPDATE),
}


@dataclass(frozen=True, kw_only=True)
class UpdateOptions:
    id: str = ""
    tail: tuple[str, ...] | None = None
    script: str = ""
    env: tuple[str, ...] = ()
    unset_env: tuple[str, ...] = ()
    image: str = ""
    uenv: str = ""
    view: str = ""
    tools_uenv: str = ""
    liveness_probe: str | None = None
    readiness_probe: str | None = None
    startup_probe: str | None = None
    drain: str | None = None
    note: str = ""
    max_unavailable: int = 1
    ready_within: str | None = None
    no_wait: bool = False
    request_id: str = ""


@dataclass(frozen=True, kw_only=True)
class RollbackOptions:
    id: str = ""
    to: int = 0
    max_unavailable: int = 1
    ready_within: str | None = None
    no_wait: bool = False
    request_id: str = ""


@dataclass(frozen=True, kw_only=True)
class HistoryOptions:
    id: str = ""


def _fill_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="allocation of the service")


def _fill_way(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--max-unavailable",
        type=int,
        metavar="N",
        help="instances that may be unavailable at the same time (default: 1)",
    )
    add(
        "--ready-within",
        metavar="TIME",
        help="take the update back when an instance is not ready after this time (default: 2m)",
    )
    add("--no-wait", action="store_true", help="return when the update has begun")
    add("--request-id", metavar="TEXT", help="make repeating this command harmless")


def fill_update(parser: argparse.ArgumentParser) -> None:
    parser.usage = "lattice service update [flags] ID [-- COMMAND [ARG...]]"
    parser.description = (
        "Changes what a service runs. Instances are replaced on their nodes one after the other, the next when the last is ready."
        " When one is not ready in time, all go back to what they ran before, and the command fails with the reason."
    )
    _fill_id(parser)
    add = parser.add_argument
    add("--script", metavar="FILE", help="run this script instead")
    add("--env", action="append", metavar="NAME=VALUE", help="set an environment variable; may be repeated")
    add("--unset-env", action="append", metavar="NAME", help="remove an environment variable; may be repeated")
    add("--image", metavar="IMAGE", help="run inside another container image")
    add("--uenv", metavar="REF[:MOUNT],...", help="mount other images")
    add("--view", metavar="[UENV:]VIEW,...", help="apply views of the images, in this order")
    add("--tools-uenv", metavar="REF[:MOUNT],...", help="mount further images, such as debuggers and profilers")
    for kind in ("liveness", "readiness", "startup"):
        add(f"--{kind}-probe", metavar="PROBE", help=f"another {kind} probe, as in `lattice submit`")
    add("--drain", metavar="TIME", help="wait this long for requests in flight before a stop")
    add("--note", metavar="TEXT", help="line for the history (default: names of what changes)")
    _fill_way(parser)


def fill_history(parser: argparse.ArgumentParser) -> None:
    parser.description = "Lists the revisions of a service, the newest first, and how its last update ended."
    _fill_id(parser)


def fill_rollback(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Takes back an update that is in progress. Otherwise runs an earlier revision again, instance by instance."
    )
    _fill_id(parser)
    parser.add_argument("--to", type=int, metavar="REVISION", help="revision to run again (default: the previous one)")
    _fill_way(parser)


def run_update(options: UpdateOptions, context: Context) -> int:
    changes = _changes(options, context)
    begun = context.client.update_service(options.id, changes, request_id=options.request_id)
    return _followed(begun, context, waits=not options.no_wait)


def run_rollback(options: RollbackOptions, context: Context) -> int:
    begun = context.client.roll_back_service(
        options.id,
        to=options.to,
        max_unavailable=options.max_unavailable,
        ready_within=options.ready_within,
        request_id=options.request_id,
    )
    return _followed(begun, context, waits=not options.no_wait, is_asked_back=True)


def run_history(options: HistoryOptions, context: Context) -> int:
    found = context.client.list_revisions(options.id)
    if structured(context, found):
        return OK
    show_list(context, found.revisions, COLUMNS, name=lambda each: str(each.revision))
    if found.rollout is not None and context.output not in {"csv", "name"}:
        context.say(_standing(found.rollout))
    return OK


def _changes(options: UpdateOptions, context: Context) -> ServiceChanges:
    if options.tail and options.script:
        raise UsageError("a command and --script exclude each other", hint="give one of the two")
    uenv, tools_uenv = options.uenv, options.tools_uenv
    image, container = options.image, None
    if uenv or tools_uenv or options.view:
        from lattice.cli.input.images import complete_images

        uenv, tools_uenv = complete_images(uenv, options.view, tools_uenv, context.process.directory())
    if image:
        from lattice.cli.input.containers import complete_container

        image, container = complete_container(image, ContainerOptions(), context.process.directory())
    return ServiceChanges(
        entrypoint=list(options.tail) if options.tail else None,
        script=load_script(options.script, context.process) if options.script else None,
        environment=dict(parse_pair(text, "--env") for text in options.env),
        unset_environment=tuple(options.unset_env),
        uenv=uenv,
        view=options.view,
        tools_uenv=tools_uenv,
        image=image,
        container=container,
        liveness_probe=parse_probe(options.liveness_probe, "--liveness-probe"),
        readiness_probe=parse_probe(options.readiness_probe, "--readiness-probe"),
        startup_probe=parse_probe(options.startup_probe, "--startup-probe"),
        drain=options.drain,
        max_unavailable=options.max_unavailable,
        ready_within=options.ready_within,
        note=options.note,
    )


def _followed(found: Revisions, context: Context, *, waits: bool, is_asked_back: bool = False) -> int:
    """Follows the update until it is over; fails when it was taken back and no user asked for that."""
    said = ""
    while waits and found.rollout is not None and found.rollout.is_open:
        said = _say(found.rollout, context, said)
        found = context.client.list_revisions(found.id, timeout_s=POLL_S)
    rollout = found.rollout
    failed = waits and rollout is not None and rollout.state != "done" and not is_asked_back
    if not structured(context, found) and rollout is not None and not failed:
        context.streams.write(f"{found.id}: {_standing(rollout)}\n")
    if rollout is not None and failed:
        if rollout.is_open:
            raise CommandError(f"{found.id} has ended while it was updated")
        raise CommandError(
            f"{found.id} was not updated to revision {rollout.target}: {rollout.reason}",
            hint=f"it runs revision {rollout.revision} again",
        )
    return OK


def _say(rollout: Rollout, context: Context, said: str) -> str:
    line = _standing(rollout)
    if line != said and not context.flags.quiet:
        context.streams.complain(f"{line}\n")
    return line


def _standing(rollout: Rollout) -> str:
    counts = f"{rollout.updated} of {rollout.size} instances have it, {rollout.ready} ready"
    match rollout.state:
        case "rolling":
            return f"updating to revision {rollout.revision}: {counts}"
        case "taking_back":
            return f"taking revision {rollout.target} back ({rollout.reason}): {counts}"
        case "taken_back":
            return f"revision {rollout.target} was taken back ({rollout.reason}); revision {rollout.revision} runs"
        case _:
            return f"revision {rollout.revision} runs: {counts}"


COLUMNS: tuple[Column[Revision], ...] = (
    Column("REVISION", lambda each: str(each.revision)),
    Column("STATE", lambda each: each.state.replace("_", " ")),
    Column("BY", lambda each: each.by),
    Column("AT", lambda each: each.at or ""),
    Column("CHANGE", lambda each: each.note),
    Column("REASON", lambda each: each.reason),
)

UPDATE = Command(
    options=UpdateOptions,
    fill=fill_update,
    run=run_update,
    takes_tail=True,
    fixed=FIXED,
    examples=(
        "lattice service update a17 -- ./server --model=v2",
        "lattice service update a17 --env=MODEL=v2 --max-unavailable=2",
    ),
)
HISTORY = Command(
    lists=True, options=HistoryOptions, fill=fill_history, run=run_history, examples=("lattice service history a17",)
)
ROLLBACK = Command(
    options=RollbackOptions,
    fill=fill_rollback,
    run=run_rollback,
    examples=("lattice service rollback a17", "lattice service rollback a17 --to=2"),
)
