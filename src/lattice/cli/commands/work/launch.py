"""`lattice launch`: tasks on the nodes of a running allocation, attended to until they have ended."""

import argparse
import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import CommandError, UsageError
from lattice.cli.launching import Attendance, terminal_shape
from lattice_sdk.models.steps import Step, StepProgram, StepRequest

OWN = "LATTICE_ALLOC_ID"
# A pattern with one of these names files of the tasks' own; without, we write the file.
PER_TASK = ("%t", "%n", "%N")
# The server's word for "fed from here", beside a rank.
FED = ("all",)
SECRETS = frozenset({"LATTICE_TOKEN", "LATTICE_AGENT_TOKEN"})


@dataclass(frozen=True, kw_only=True)
class Options:
    rest: tuple[str, ...] = ()
    alloc: str = ""
    ntasks: int = 0
    nodes: int = 0
    tasks_per_node: int = 0
    cpus_per_task: int = 1
    nodelist: str = ""
    distribution: str = "block"
    overcommit: bool = False
    label: bool = False
    pty: bool = False
    env: tuple[str, ...] = ()
    export: str = ""
    chdir: str = ""
    stdout: str = ""
    stderr: str = ""
    input: str = "0"
    no_kill: bool = False
    multi_prog: str = ""
    time: str = ""
    overlap: bool = False
    exclusive: bool = False
    immediate: bool = False


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    parser.usage = "lattice launch [flags] COMMAND [arguments]"
    add("--alloc", metavar="ID", help=f"the allocation ({OWN}, inside one)")
    add("-n", "--ntasks", type=int, metavar="N", help="so many tasks (one per node)")
    add("-N", "--nodes", type=int, metavar="N", help="on so many of its nodes (all)")
    add("--tasks-per-node", "--ntasks-per-node", type=int, dest="tasks_per_node", metavar="K", help="so many on each")
    add("-c", "--cpus-per-task", type=int, metavar="C", help="CPUs for each task (1)")
    add("-w", "--nodelist", metavar="LIST", help="on these nodes of it: n1,n[3-5]")
    add("-m", "--distribution", choices=("block", "cyclic"), help="consecutive ranks on a node, or dealt round (block)")
    add("-O", "--overcommit", action="store_true", help="let tasks share CPUs")
    add("-l", "--label", action="store_true", help="the rank before each line")
    add("--pty", action="store_true", help="a terminal for task 0")
    add("--env", action="append", metavar="K=V", help="a variable for the tasks")
    add("--export", choices=("all", "none"), help="this environment, or the one submitted (all inside the allocation)")
    add(
        "-D",
        "--chdir",
        metavar="DIR",
        help="where the tasks start (here, inside the allocation; else where it was submitted)",
    )
    add(
        "-o",
        "--output",
        dest="stdout",
        metavar="FILE",
        help="output to a file; %%t rank, %%n %%N node, %%j id, %%s step",
    )
    add("-e", "--error", dest="stderr", metavar="FILE", help="stderr to another file")
    add("-i", "--input", metavar="WHO", help="who reads stdin: none, all, a rank (0); or a file")
    add("--no-kill", action="store_true", help="let the others go on when a task fails")
    add("--multi-prog", metavar="FILE", help="which ranks run what: lines of `0-3,7 PROGRAM ...`, `*` for the others")
    add("--time", metavar="T", help="end it after this time: 90s, 5m, 1:30:00")
    add("--overlap", action="store_true", help="share CPUs with other steps")
    add("--exclusive", action="store_true", help="CPUs of its own, waiting for them if need be; the default")
    add("--immediate", action="store_true", help="fail rather than wait for other steps")


def run(options: Options, context: Context) -> int:
    allocation = options.alloc or context.process.environment.get(OWN, "")
    if not allocation:
        raise UsageError("no allocation was named", hint="lattice launch --alloc ID COMMAND")
    request = _request(options, context, is_inside=allocation == context.process.environment.get(OWN))
    step = context.client.launch_step(allocation, request)
    if context.flags.verbose:
        context.streams.complain(f"{step.id}: {step.tasks} tasks on {', '.join(step.nodes) or 'nodes to come'}\n")
    with ExitStack() as files:
        targets = _targets(options, context, step, files)
        is_fed = request.input in FED or request.input.isdigit()
        return Attendance(context, allocation, step).attend(
            targets, label=options.label, is_fed=is_fed or options.pty, is_terminal=options.pty
        )


def _request(options: Options, context: Context, *, is_inside: bool) -> StepRequest:
    if not options.rest and not options.multi_prog:
        raise UsageError("nothing to run was named", hint="lattice launch --alloc ID COMMAND")
    if options.overlap and options.exclusive:
        raise UsageError("--overlap and --exclusive contradict each other")
    exports = options.export == "all" or (is_inside and options.export != "none")
    rows, columns = terminal_shape() if options.pty else (0, 0)
    return StepRequest(
        argv=[] if options.multi_prog else list(options.rest),
        programs=_programs(options.multi_prog) if options.multi_prog else [],
        tasks=options.ntasks,
        nodes=options.nodes,
        tasks_per_node=options.tasks_per_node,
        cpus_per_task=options.cpus_per_task,
        node_list=[options.nodelist] if options.nodelist else [],
        distribution=options.distribution,
        overcommit=options.overcommit,
        environment={**(_exported(context) if exports else {}), **_given(options.env)},
        inherit_environment=not exports,
        cwd=options.chdir or (context.process.directory() if is_inside else ""),
        input=options.input,
        output=options.stdout if _is_per_task(options.stdout) else "",
        error=options.stderr if _is_per_task(options.stderr) else "",
        pty=options.pty,
        rows=rows,
        columns=columns,
        no_kill=options.no_kill,
        overlap=options.overlap,
        immediate=options.immediate,
        time=options.time,
    )


def _is_per_task(pattern: str) -> bool:
    return any(word in pattern for word in PER_TASK)


def _exported(context: Context) -> dict[str, str]:
    """This process's variables, without tokens and what no request could carry."""
    variables = context.process.environment.items()
    return {
        name: value
        for name, value in variables
        if name and name.isprintable() and _is_text(value) and name not in SECRETS
    }


def _is_text(value: str) -> bool:
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)


def _given(pairs: tuple[str, ...]) -> dict[str, str]:
    given = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not name or not separator:
            raise UsageError(f'cannot read "{pair}"', hint="write --env NAME=VALUE")
        given[name] = value
    return given


def _programs(path: str) -> list[StepProgram]:
    from lattice.cli.input.multi_prog import read_programs

    try:
        with open(path) as file:
            return read_programs(file.read(), path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def _targets(options: Options, context: Context, step: Step, files: ExitStack) -> dict[int, BinaryIO]:
    """Where stdout (1) and stderr (2) go that come here."""
    out, err = context.streams.stdout, context.streams.stderr
    if options.stdout and not _is_per_task(options.stdout):
        out = err = _opened(options.stdout, step, files)
    if options.stderr and not _is_per_task(options.stderr):
        err = _opened(options.stderr, step, files)
    return {1: out, 2: err}


def _opened(pattern: str, step: Step, files: ExitStack) -> BinaryIO:
    path = pattern
    for word, text in (("%J", step.id), ("%j", step.allocation), ("%s", str(step.step)), ("%%", "%")):
        path = path.replace(word, text)
    try:
        return files.enter_context(open(os.path.expanduser(path), "wb"))
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from None


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    takes_rest=True,
    examples=(
        "lattice launch --alloc a17 -n 4 hostname",
        "lattice launch --alloc a17 --tasks-per-node=2 --label ./solver input.dat",
        "lattice launch --alloc a17 --pty bash",
        "lattice launch -n 64 --output out.%t ./solver      (in a script: the allocation is its own)",
    ),
)
