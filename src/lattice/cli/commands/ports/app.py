"""`lattice app` and `lattice notebook`: applications that are used in a browser, in allocations of their own."""

import argparse
import secrets
from dataclasses import dataclass, replace

from lattice.cli.command import Command, Values
from lattice.cli.commands.work import submit
from lattice.cli.context import Context, Process
from lattice.cli.errors import INTERRUPTED, OK, CommandError, UsageError
from lattice.cli.input.submission import SubmitOptions
from lattice.cli.output import Column, show_list
from lattice.cli.ports.application import TAG, await_answer, await_place, await_start, running
from lattice.cli.ports.catalogue import KEY, Recipe, load, script_of
from lattice.cli.ports.forwarder import HERE, Forward, Forwarder
from lattice.cli.recent import remember

JUPYTER = "jupyter"
SHELL = "/bin/sh"


@dataclass(frozen=True, kw_only=True)
class AppOptions(SubmitOptions):
    """The flags of a submission, and what is about the application."""

    recipe: str = ""
    new: bool = False
    local: int = 0


def fill(parser: argparse.ArgumentParser) -> None:
    submit.fill_flags(parser)
    parser.usage = "lattice app run [flags] NAME"
    parser.description = (
        "Runs an application in an allocation, waits until it answers and makes it reachable on this machine. "
        "Ctrl-C leaves it running: the same command comes back to it. `lattice app list` names the applications."
    )
    _fill_own(parser)


def fill_notebook(parser: argparse.ArgumentParser) -> None:
    submit.fill_flags(parser)
    parser.usage = "lattice notebook [flags]"
    parser.description = (
        "Runs Jupyter in an allocation, waits until it answers and prints a URL for it on this machine. "
        "Ctrl-C leaves it running: the same command comes back to it."
    )
    _fill_own(parser)


def _fill_own(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("application")
    group.add_argument("--new", action="store_true", help="start another one although one runs")
    group.add_argument(
        "--local", type=_local, metavar="PORT", default=argparse.SUPPRESS, help="port of this machine (default: any)"
    )


def _local(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 6 and int(text) <= 65_535:
        return int(text)
    raise argparse.ArgumentTypeError(f'"{text}" is not a port')


def complete(values: Values, _parser: argparse.ArgumentParser, process: Process) -> Values:
    words, tail = values.pop("rest"), values.pop("tail")
    if len(words) != 1 or tail:
        raise UsageError("name one application behind the flags", hint="lattice app run --walltime=2h jupyter")
    return _completed(values, words[0], process)


def complete_notebook(values: Values, _parser: argparse.ArgumentParser, process: Process) -> Values:
    if values.pop("rest") or values.pop("tail"):
        raise UsageError("a notebook takes no command", hint="use `lattice submit -- COMMAND`")
    return _completed(values, JUPYTER, process)


def _completed(values: Values, name: str, process: Process) -> Values:
    recipe = find(name, process)
    return {**values, "recipe": name, "command": (SHELL, "-c", script_of(recipe)), "default_name": name}


def find(name: str, process: Process) -> Recipe:
    recipes = load(process.environment)
    if name not in recipes:
        raise UsageError(f'no application "{name[:60]}"', hint=f"known: {', '.join(recipes)}")
    return recipes[name]


def run(options: AppOptions, context: Context) -> int:
    _refuse(options)
    recipe = find(options.recipe, context.process)
    found = None if options.new else running(context, options.recipe)
    if found is None:
        with submit.flags_named(options):
            found = submit.submitted(_named(options, recipe), context)
        if found is None:
            raise CommandError("nothing was submitted")
        remember(context, allocations=[found.id])
        context.note(f"{options.recipe} is {found.id}")
    else:
        context.note(f"going back to {found.id}; --new starts another one")
    try:
        allocation = await_start(found.id, recipe, context)
        place = await_place(allocation, recipe, context)
        await_answer(allocation, place, recipe, context)
    except KeyboardInterrupt:
        context.streams.complain(f"\nlattice: {found.id} continues; `lattice cancel {found.id}` ends it\n")
        return INTERRUPTED
    forwarder = Forwarder(context, [Forward(allocation=found.id, port=place.port, local=options.local)])
    try:
        (port, _), *_ = forwarder.ports
        names = {"{token}": place.token, "{id}": found.id, "{port}": str(place.port)}
        context.streams.write(f"http://{HERE}:{port}{_filled(recipe.path, names)}\n")
        if recipe.say:
            context.streams.write(f"{_filled(recipe.say, names)}\n")
        keep = " --keep-path" if recipe.keep_path else ""
        context.note(f"through the gateway of the cluster, if it has one: lattice open {found.id} {place.port}{keep}")
        context.streams.stdout.flush()
        forwarder.serve()
    except KeyboardInterrupt:
        context.streams.complain(f"\nlattice: {found.id} keeps running; `lattice cancel {found.id}` ends it\n")
        return OK
    finally:
        forwarder.close()
    return OK


def _named(options: AppOptions, recipe: Recipe) -> AppOptions:
    """The submission with what it is found by: the tag by later commands, the key by the terminal that reads port and token.
    The flag for idle work comes before what the recipe says."""
    tag, key = f"{TAG}={options.recipe}", f"{KEY}={secrets.token_hex(8)}"
    idle = options.idle_end if options.idle_end is not None else recipe.idle or None
    return replace(options, tag=(*options.tag, tag), env=(*options.env, key), idle_end=idle)


def _filled(text: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(name, value)
    return text


def _refuse(options: AppOptions) -> None:
    given = {
        "--wait": options.wait,
        "--dry-run": options.dry_run,
        "--task-group": options.task_group is not None,
        "--per-node": options.per_node is not None,
    }
    for flag, is_given in given.items():
        if is_given:
            raise UsageError(f"{flag} cannot be used with an application", hint=f"use `lattice submit {flag}`")


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    pass


@dataclass(frozen=True)
class App:
    name: str
    help: str
    programs: tuple[str, ...]


COLUMNS: tuple[Column[App], ...] = (
    Column("NAME", lambda app: app.name),
    Column("PROGRAM", lambda app: " or ".join(app.programs)),
    Column("WHAT", lambda app: app.help),
)


def run_list(_options: ListOptions, context: Context) -> int:
    recipes = load(context.process.environment)
    apps = [App(name, recipe.help, tuple(recipe.programs)) for name, recipe in recipes.items()]
    show_list(context, apps, COLUMNS, name=lambda app: app.name)
    return OK


RUN = Command(
    options=AppOptions,
    has_vcluster=True,
    fill=fill,
    run=run,
    complete=complete,
    takes_tail=True,
    takes_rest=True,
    examples=("lattice app run --walltime=2h tensorboard", "lattice app run --gpus=1 --local=8888 jupyter"),
)
NOTEBOOK = Command(
    options=AppOptions,
    has_vcluster=True,
    fill=fill_notebook,
    run=run,
    complete=complete_notebook,
    takes_tail=True,
    takes_rest=True,
    examples=("lattice notebook --walltime=2h", "lattice notebook --gpus=1 --walltime=8h --local=8888"),
)
LIST = Command(lists=True, options=ListOptions, fill=lambda _parser: None, run=run_list, examples=("lattice app list",))
