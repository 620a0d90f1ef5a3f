"""`lattice launch`: run tasks on the nodes of a running allocation and wait for them to finish."""

import argparse
import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import CommandError, UsageError
from lattice.cli.flags import not_empty
from lattice.cli.input.container_flags import asked_container
from lattice.cli.launching import AttachedStep, terminal_shape
from lattice_sdk.client import new_request_id
from lattice_sdk.models.runs import ContainerOptions
from lattice_sdk.models.steps import Step, StepProgram, StepRequest

OWN = "LATTICE_ALLOC_ID"
# A pattern that contains one of these gives each task its own file; otherwise this command writes the file.
PER_TASK = ("%t", "%n", "%N")
# The server's word for "stdin comes from this command", in addition to a rank.
FED = ("all",)
SECRETS = frozenset({"LATTICE_TOKEN", "LATTICE_AGENT_TOKEN"})
PROLOGUE = "LATTICE_TASK_PROLOGUE"


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
    pmi: str = "auto"
    fence_timeout: str = ""
    cpu_bind: str = ""
    gpu_bind: str = ""
    gpus_per_task: int = 0
    task_prologue: str = ""
    image: str = ""
    mount: tuple[str, ...] = ()
    container_name: str = ""
    container_writable: bool = False
    container_workdir: str = ""
    no_home: bool = False


def fill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    parser.usage = "lattice launch [flags] COMMAND [ARG...]"
    add("--alloc", metavar="ID", help=f"allocation to run in (default: ${OWN})")
    add("-n", "--ntasks", type=int, metavar="N", help="number of tasks (default: one per node)")
    add("-N", "--nodes", type=int, metavar="N", help="number of its nodes to use (default: all)")
    add(
        "--tasks-per-node",
        "--ntasks-per-node",
        type=int,
        dest="tasks_per_node",
        metavar="K",
        help="number of tasks on each node",
    )
    add("-c", "--cpus-per-task", type=int, metavar="C", help="CPUs per task (default: 1)")
    add("-w", "--nodelist", metavar="LIST", help="use only these of its nodes: n1,n[3-5]")
    add(
        "-m",
        "--distribution",
        choices=("block", "cyclic"),
        help="block: consecutive ranks per node; cyclic: round-robin (default: block)",
    )
    add("-O", "--overcommit", action="store_true", help="allow tasks to share CPUs")
    add("-l", "--label", action="store_true", help="prefix each line with the rank")
    add("--pty", action="store_true", help="give task 0 a terminal")
    add("--env", action="append", metavar="K=V", help="set an environment variable; may be repeated")
    add(
        "--export",
        choices=("all", "none"),
        help="all: this environment; none: that of the submission (default: all inside the allocation)",
    )
    add(
        "-D",
        "--chdir",
        metavar="DIR",
        help="directory to run in (default: the current one inside the allocation, else that of the submission)",
    )
    add(
        "-o",
        "--output",
        dest="stdout",
        metavar="FILE",
        help="write stdout to this file; %%t rank, %%n %%N node, %%j id, %%s step",
    )
    add("-e", "--error", dest="stderr", metavar="FILE", help="write stderr to this file")
    add("-i", "--input", metavar="WHO", help="what reads stdin: none, all or a rank; or a file to read (default: 0)")
    add("--no-kill", action="store_true", help="keep the other tasks running when one fails")
    add(
        "--multi-prog",
        metavar="FILE",
        help="programs by rank: lines such as `0-3,7 PROGRAM ARG...`; `*` = all other ranks",
    )
    add("--time", metavar="T", help="time limit of the step: 90s, 5m, 1:30:00")
    _fill_sharing(parser)


def _fill_sharing(parser: argparse.ArgumentParser) -> None:
    """How the step shares CPUs with others, and its ranks find each other."""
    add = parser.add_argument
    add("--overlap", action="store_true", help="allow CPUs to be shared with other steps")
    add(
        "--exclusive",
        action="store_true",
        help="use CPUs no other step uses, and wait for them if necessary (the default)",
    )
    add("--immediate", action="store_true", help="fail instead of waiting for other steps")
    add(
        "--cpu-bind",
        metavar="KIND",
        help="CPUs of a task: none, cores, numa, or map:0,2 (default: cores of its own, on nodes that know them)",
    )
    add("--gpus-per-task", type=int, metavar="G", help="GPUs that each task sees (default: all of the allocation)")
    add(
        "--task-prologue",
        metavar="PROGRAM",
        help="program that each task runs first; its lines `export NAME=VALUE` and `unset NAME` change the task's environment "
        "(default: $LATTICE_TASK_PROLOGUE)",
    )
    add("--gpu-bind", metavar="KIND", help="GPUs of a task: closest to its CPUs, or none (default: closest)")
    add(
        "--pmi",
        metavar="KIND",
        help="how MPI ranks find each other: auto, pmi1, pmi2, pmix or none (default: auto)",
    )
    add("--fence-timeout", metavar="T", help="end the step if MPI ranks wait longer for each other (default: 60s)")
    _fill_container(parser)


def _fill_container(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--image",
        type=not_empty,
        metavar="REF",
        help="run the step inside a container image: as `lattice submit --image`",
    )
    add(
        "--container-name",
        type=not_empty,
        metavar="NAME[:WAY]",
        help="container that steps of the allocation share; without --image one that an earlier step began. "
        "create: it must be new; exec: a step must run in it; no_exec: beside that step (default: auto)",
    )
    add("--container-writable", action="store_true", help="let the step change files of the image")
    add("--container-workdir", metavar="DIR", help="directory to start in, inside the container (default: --chdir)")
    add(
        "--mount",
        action="append",
        metavar="SRC[:DST][:ro]",
        help="make a directory or file of the node visible in the container; may be repeated",
    )
    add("--no-home", action="store_true", help="leave the home directory out of the container")


def run(options: Options, context: Context) -> int:
    allocation = options.alloc or context.process.environment.get(OWN, "")
    if not allocation:
        raise UsageError("no allocation given", hint="use `lattice launch --alloc ID COMMAND`")
    request = _request(options, context, is_inside=allocation == context.process.environment.get(OWN))
    request_id = new_request_id()

    def launch() -> Step:
        return context.client.launch_step(allocation, request, request_id=request_id)

    step = launch()
    if context.flags.verbose:
        context.streams.complain(
            f"{step.id}: {step.tasks} tasks on {', '.join(step.nodes) or 'nodes not chosen yet'}\n"
        )
    with ExitStack() as files:
        targets = _targets(options, context, step, files)
        is_fed = request.input in FED or request.input.isdigit()
        return AttachedStep(context, allocation, step, launch).attend(
            targets, label=options.label, is_fed=is_fed or options.pty, is_terminal=options.pty
        )


def _request(options: Options, context: Context, *, is_inside: bool) -> StepRequest:
    if not options.rest and not options.multi_prog:
        raise UsageError("no command given", hint="use `lattice launch --alloc ID COMMAND`")
    if options.overlap and options.exclusive:
        raise UsageError("--overlap cannot be used with --exclusive")
    exports = options.export == "all" or (is_inside and options.export != "none")
    rows, columns = terminal_shape() if options.pty else (0, 0)
    image, container = _container(options, context)
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
        pmi=options.pmi,
        fence_timeout=options.fence_timeout,
        cpu_bind=options.cpu_bind,
        gpu_bind=options.gpu_bind,
        gpus_per_task=options.gpus_per_task,
        task_prologue=options.task_prologue or context.process.environment.get(PROLOGUE, ""),
        image=image,
        container=container,
    )


def _container(options: Options, context: Context) -> tuple[str, ContainerOptions | None]:
    wanted = asked_container(options)
    if wanted is None:
        return "", None
    from lattice.cli.input.containers import complete_container

    return complete_container(options.image, wanted, context.process.directory(), in_step=True)


def _is_per_task(pattern: str) -> bool:
    return any(word in pattern for word in PER_TASK)


def _exported(context: Context) -> dict[str, str]:
    """This process's variables, except tokens and values that a request cannot carry."""
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
            raise UsageError(f'cannot read "{pair}"', hint="use --env NAME=VALUE")
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
    """Where to write the stdout (1) and stderr (2) that this command receives."""
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
        "lattice launch --alloc a17 -n 64 ./mpi_program",
        "lattice launch --image oci:images:v1 --container-name tools --container-writable make install",
        "lattice launch -n 64 --output out.%t ./solver      (in a script: the allocation is its own)",
    ),
)
