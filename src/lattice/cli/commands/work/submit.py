"""`lattice submit`: a script with its directives, or a command line."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from lattice.cli.command import Command, Values
from lattice.cli.context import Context, Process
from lattice.cli.ending import ending_code, ending_text
from lattice.cli.errors import OK, UsageError
from lattice.cli.flags import ALLOWED_IN_SCRIPTS, Flags, not_empty
from lattice.cli.input.blame import in_flags
from lattice.cli.input.directives import Directive, read_directives
from lattice.cli.input.scripts import STDIN, load_script
from lattice.cli.input.submission import SubmitOptions, build_submission, name_after
from lattice.cli.output import structured
from lattice.cli.progress import await_end
from lattice.cli.recent import remember
from lattice.cli.views.explanations import outlook_text
from lattice_sdk.errors import ApiError
from lattice_sdk.models.records import Allocation, Explanation, Submission

NOT_YET = (
    "--network-domain",
    "--sensitive",
    "--site",
    "--telemetry",
    "--pmi",
)
JOINED = ("depends_on", "constraint", "data_mount", "env", "expose", "mount", "notify_to", "stage_out", "tag")
NOT_IN_SCRIPTS = frozenset(Flags.__struct_fields__) - ALLOWED_IN_SCRIPTS | {
    "wait",
    "dry_run",
    "request_id",
    "words",
    "help",
}


class NotSupported(argparse.Action):
    """A flag that is planned but not implemented: refused, never ignored."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> NoReturn:
        raise UsageError(f"{option_string} is not supported by this version of Lattice")


def fill(parser: argparse.ArgumentParser) -> None:
    parser.usage = "lattice submit [flags] SCRIPT [ARG...]\n       lattice submit [flags] -- COMMAND [ARG...]"
    parser.add_argument(
        "words", nargs="*", metavar="SCRIPT", help="batch script, followed by its arguments; - reads it from stdin"
    )
    fill_flags(parser)


def fill_flags(parser: argparse.ArgumentParser) -> None:
    """Everything but what to run."""
    _fill_what(parser.add_argument_group("what runs"))
    _fill_resources(parser.add_argument_group("where it runs"))
    _fill_lifecycle(parser.add_argument_group("when and how long it runs"))
    _fill_service(parser.add_argument_group("services"))
    rows = "\n".join(", ".join(NOT_YET[at : at + 6]) for at in range(0, len(NOT_YET), 6))
    later = parser.add_argument_group("not supported by this version", rows)
    for flag in NOT_YET:
        later.add_argument(flag, nargs="?", action=NotSupported, help=argparse.SUPPRESS)


def _fill_data(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--data-mount",
        action="append",
        metavar="SRC:TARGET[:ro|rw][:hot|direct]",
        help="mount data: s3://BUCKET/PREFIX, file:///PATH; hot = as a copy made before the start; may be repeated",
    )
    add(
        "--stage-out",
        action="append",
        metavar="SRC:DEST",
        help="copy SRC of the scratch directory to the directory DEST when the work has ended; may be repeated",
    )


def _fill_container(group: argparse._ArgumentGroup) -> None:
    _fill_data(group)
    add = group.add_argument
    add(
        "--image",
        type=not_empty,
        metavar="REF",
        help="run inside a container image: oci:DIRECTORY:TAG, the path of a squashfs file, or name/version:tag",
    )
    add(
        "--mount",
        action="append",
        metavar="SRC:DST[:ro]",
        help="make a directory or file of the node visible in the container; may be repeated",
    )
    add("--container-writable", action="store_true", help="keep changes to the image in memory until the run ends")
    add("--container-workdir", metavar="DIR", help="directory to start in, inside the container (default: --chdir)")
    add("--no-home", action="store_true", help="leave the home directory out of the container")
    add("--container-name", type=not_empty, metavar="NAME", help="name of the container, by which steps can call it")


def _fill_images(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--uenv",
        type=not_empty,
        metavar="REF[:MOUNT],...",
        help="mount images: name/version:tag, the path of a squashfs file, or either with @sha256:DIGEST",
    )
    add("--view", type=not_empty, metavar="[UENV:]VIEW,...", help="apply views of the images, in this order")
    add(
        "--scratch",
        type=not_empty,
        metavar="SIZE",
        help="size of the scratch directory on each node ($LATTICE_SCRATCH), such as 20G",
    )
    add(
        "--tools-uenv",
        type=not_empty,
        metavar="REF[:MOUNT],...",
        help="mount further images, such as debuggers and profilers",
    )


def _fill_what(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--name", metavar="NAME", help="name of the allocation (default: name of the script or program)")
    add("--project", metavar="NAME", help="project to charge")
    add("--tag", action="append", metavar="KEY=VALUE", help="attach a label; may be repeated")
    add("--env", action="append", metavar="NAME=VALUE", help="set an environment variable; may be repeated")
    add(
        "--export",
        metavar="WHAT",
        help="variables to pass on: ALL, NONE or NAME,NAME (default: NONE, or `export` in the configuration file)",
    )
    _fill_images(group)
    _fill_container(group)
    add("--chdir", metavar="DIR", help="directory to run in (default: the current one)")
    add("--task-group", metavar="TASKS", help="run one task per index: 0-99, 1,3,5-9, 0-99:2, 0-99%%20")
    add("--stdout", metavar="FILE", help="also write stdout to this file: %%j number, %%x name, %%a index, %%N node")
    add(
        "--stderr",
        "--error",
        dest="stderr",
        metavar="FILE",
        help="write stderr to this file (default: the file of --stdout)",
    )
    add("--stdin", "--input", dest="stdin", metavar="FILE", help="read stdin from this file (default: empty)")
    add(
        "--open-mode",
        choices=("truncate", "append"),
        metavar="MODE",
        help="truncate or append output files (default: truncate)",
    )
    add("--summary", action="store_true", help="end stderr with one line: outcome, duration, resources used")
    add("--per-node", action="store_true", help="run it on every node")
    add("--no-per-node", dest="per_node", action="store_false", help="run it on the first node only")
    add(
        "--notify",
        metavar="EVENTS",
        help="notify on begin, end, fail, requeue, time-limit-near, alert, all or none (comma-separated)",
    )
    add(
        "--notify-to",
        action="append",
        metavar="WHERE",
        help="send notifications to mail:ADDRESS or webhook:URL (default: yours)",
    )
    add(
        "--expose",
        action="append",
        metavar="[NAME:]PORT[,share=WHO]",
        help="name a port (0: the node chooses it, see $LATTICE_PORT_NAME) and share it: tenant, or USER,USER; may be repeated",
    )
    add("--request-id", metavar="ID", help="idempotency key: submitting again with the same ID has no effect")
    add("--dry-run", action="store_true", help="show what would happen and when it would start, without submitting")
    add("--wait", action="store_true", help="wait for it to finish and exit with its exit code")


def _fill_resources(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("-N", "--nodes", metavar="N", help="number of nodes: 4, or a range 2-8 (default: 1)")
    add(
        "--constraint",
        action="append",
        metavar="LIST",
        help="node requirements, e.g. gpu_type=GH200,gpu_count=4,memory_gb>=512,nvme",
    )
    add("--topology", metavar="HINT", help="network placement: tight or any")
    add("--cpus", type=int, metavar="N", help="CPUs per node, if nodes are shared")
    add("--memory", metavar="SIZE", help="memory per node, e.g. 4G")
    add(
        "--memory-policy",
        metavar="POLICY",
        help="where it comes from: local, interleave, preferred[:N], bind[:N] (NUMA)",
    )
    add("--gpus", type=int, metavar="N", help="GPUs per node")
    add("--exclusive", action="store_true", help="take whole nodes even if nodes are shared")
    add("--nodelist", metavar="NODES", help="use only these nodes: n1,n[3-5]")
    add("--exclude", metavar="NODES", help="do not use these nodes")


def _fill_lifecycle(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--walltime", metavar="TIME", help="time limit: 90s, 30m, 24h, HH:MM:SS (default: that of the vCluster)")
    add(
        "--signal",
        metavar="SIG@N",
        help="send a signal N seconds before the walltime limit; B:USR1@90 = only to the script",
    )
    add("--begin", metavar="TIME", help="do not start before: RFC 3339, 16:30 or now+2h")
    add(
        "--depends-on",
        action="append",
        metavar="LIST",
        help="start after others: a1:success,a2?a3:any (',' = and, '?' = or)",
    )
    add("--mutex", metavar="NAME", help="run at most one of your allocations with this name at a time")
    add("--deadline", metavar="TIME", help="cancel it if it cannot finish by this time: RFC 3339, 16:30 or now+2h")
    add(
        "--keep-on-invalid-dependency",
        action="store_true",
        help="keep it pending if its dependency can never be satisfied",
    )
    add("--hold", action="store_true", help="hold it until `lattice release`")
    add("--priority", metavar="CLASS", help="priority: low, normal or high")
    add("--preemption-class", dest="priority", metavar="N", help="0 to 10; higher is harder to preempt (default: 5)")
    add("--no-preempt", action="store_true", help="never preempt it; needs class 7 or higher")
    add(
        "--requeue",
        metavar="POLICY",
        help="when to requeue it: never, on_node_failure, on_walltime (or node failure), always (default: on_node_failure)",
    )
    add("--max-requeue", type=int, metavar="N", help="requeue it at most N times")
    add(
        "--lifecycle",
        choices=("bounded", "unbounded", "reactive"),
        metavar="TYPE",
        help="bounded, unbounded or reactive (default: bounded)",
    )
    add(
        "--service",
        dest="lifecycle",
        action="store_const",
        const="unbounded",
        help="run until cancelled; same as --lifecycle=unbounded",
    )
    add(
        "--idle-end",
        metavar="T",
        help="cancel it after this long without input, step or use of a CPU, as in 2h; terminals tell 5 minutes before",
    )
    add("--on-quota", choices=("reject", "queue"), metavar="WHAT", help="if it exceeds a quota: reject or queue")
    _fill_scaling(group)
    _fill_checkpoints(group)


def _fill_scaling(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--reactive",
        dest="lifecycle",
        action="store_const",
        const="reactive",
        help="service whose number of nodes follows its load; same as --lifecycle=reactive",
    )
    add("--min-nodes", type=int, metavar="N", help="of a reactive service: it begins with N nodes and never has fewer")
    add("--max-nodes", type=int, metavar="N", help="of a reactive service: it never has more than N nodes")
    add(
        "--scale-metric",
        metavar="METRIC",
        help="cpu_utilization, gpu_utilization, memory_used, request_rate, request_latency_p99, in_flight, or one of the site's store",
    )
    add("--scale-target", metavar="VALUE", help="add a node while the metric is above it, as in 80%%, 20, 100ms or 8G")
    add("--scale-up-window", metavar="TIME", help="add a node after this long above the target (default: 2m)")
    add("--scale-down-window", metavar="TIME", help="remove a node after this long below the threshold (default: 5m)")
    add(
        "--scale-down-threshold",
        type=float,
        metavar="PART",
        help="threshold for removing nodes, as a part of the target (default: 0.5)",
    )
    add("--scale-interval", metavar="TIME", help="time between two evaluations (default: 60s)")
    add("--scale-cooldown", metavar="TIME", help="shortest time between two steps, and after the start (default: 3m)")


def _fill_checkpoints(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--checkpoint",
        metavar="HOW",
        help="ask it for checkpoints: auto, manual or none, by signal, shmem or grpc, or both as in manual,shmem",
    )
    add("--checkpoint-signal", metavar="SIG", help="signal that asks for a checkpoint (default: USR1)")
    add(
        "--checkpoint-port",
        type=int,
        metavar="PORT",
        help="with grpc: the work listens there (default: it registers at LATTICE_CHECKPOINT_SOCKET)",
    )
    add(
        "--resume-from",
        metavar="ID[:N]",
        help="begin with the newest complete checkpoint of your work ID, or with its N-th",
    )


def _fill_service(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--restart",
        choices=("always", "on-failure", "never"),
        metavar="WHEN",
        help="start an instance that ended again: always, on-failure or never (default: always)",
    )
    for kind, what in (
        ("liveness", "restart an instance that fails it"),
        ("readiness", "send requests only to instances that pass it"),
        ("startup", "begin with the other probes when it has passed"),
    ):
        add(
            f"--{kind}-probe",
            metavar="PROBE",
            help=f"{what}: tcp:PORT, http:PORT/PATH or exec:COMMAND[,period=30,delay=10,timeout=5,failures=3]",
        )
    add(
        "--drain",
        metavar="TIME",
        help="wait this long for requests in flight before a stop (default: 30s)",
    )


def complete(values: Values, parser: argparse.ArgumentParser, process: Process) -> Values:
    """Find out what to run. Flags on the command line override those in the script."""
    words, tail = values.pop("rest"), values.pop("tail")
    if not words:
        if not tail:
            raise UsageError("nothing to run", hint="use `lattice submit SCRIPT` or `lattice submit -- COMMAND`")
        return {**values, "command": tail, "default_name": name_after(tail[0])}
    path = words[0]
    script = load_script(path, process)
    title = "stdin" if path == STDIN else path
    directives = read_directives(script, title)
    is_batch = directives.foreign > 0 and not directives.found
    _warn(title, directives.late, 0 if is_batch else directives.foreign, process)
    if not values.get("quiet"):
        _note_flags(words[1:], parser, process)
    given = [(_given(each, title, parser), each) for each in directives.found]
    merged = _merged([*(layer for layer, _ in given), values])
    places = {name: _place(title, each) for layer, each in given for name in layer}
    return {
        **merged,
        "places": {name: place for name, place in places.items() if name not in values},
        "script": script,
        "script_args": words[1:],
        "default_name": path if is_batch and path != STDIN else "" if is_batch else name_after(title),
        "is_batch": is_batch,
    }


def _given(directive: Directive, title: str, parser: argparse.ArgumentParser) -> Values:
    place = _place(title, directive)
    try:
        values = vars(parser.parse_intermixed_args(directive.words))
    except UsageError as error:
        raise UsageError(f"{place}: {error}", hint=error.hint) from None
    if values.pop("words", None):
        raise UsageError(f"{place}: a directive may contain only options", hint="quote values that contain spaces")
    for name in values:
        if name in NOT_IN_SCRIPTS:
            raise UsageError(f"{place}: --{name.replace('_', '-')} is only allowed on the command line")
    return values


def _place(title: str, directive: Directive) -> str:
    return f"{title}, line {directive.line}"


def _merged(layers: list[Values]) -> Values:
    merged: Values = {}
    for layer in layers:
        joined = {key: [*merged.get(key, []), *layer[key]] for key in JOINED if key in layer}
        merged = {**merged, **layer, **joined}
    return merged


def _warn(title: str, late: list[int], foreign: int, process: Process) -> None:
    if late:
        lines = ", ".join(map(str, late))
        process.streams.complain(f"warning: {title}: ignoring #LATTICE lines after the first command (line {lines})\n")
    if foreign:
        process.streams.complain(f"warning: {title}: ignoring #SBATCH lines: the script has #LATTICE lines\n")


def _note_flags(arguments: list[str], parser: argparse.ArgumentParser, process: Process) -> None:
    """Flags after the script belong to the script, which may surprise the user."""
    known = {option for action in parser._actions for option in action.option_strings if option.startswith("--")}
    ours = [word.partition("=")[0] for word in arguments if word.partition("=")[0] in known]
    if ours:
        process.streams.complain(
            f"note: {ours[0]} comes after the script name and is passed to the script; put flags of `lattice submit` before it\n"
        )


def run(options: SubmitOptions, context: Context) -> int:
    if options.dry_run and not options.is_batch:
        return _dry_run(options, context)
    allocation = submitted(options, context)
    return OK if allocation is None else finish(allocation, options, context)


def submitted(options: SubmitOptions, context: Context) -> Allocation | None:
    """The new allocation; None when a script with #SBATCH lines led to none."""
    if options.is_batch:
        from lattice.cli.slurm.batch_script import submit_batch_script

        number = submit_batch_script(options, context)
        return context.client.get_allocation(number) if number else None
    with flags_named(options):
        submission = build_submission(options, context)
        allocation = context.client.submit(submission, request_id=options.request_id)
    tell_of_submission(allocation, context)
    if context.streams.stderr.isatty():
        from lattice.cli.input.preflight import warn_of_surprises

        warn_of_surprises(options, submission, allocation, context)
        if not context.flags.quiet:
            from lattice.cli.input.advice import advise_from_the_past

            advise_from_the_past(allocation, context)
    return allocation


@contextmanager
def flags_named(options: SubmitOptions) -> Iterator[None]:
    """A refusal names the flag, or the line of the script, and not the field of the request."""
    try:
        yield
    except (UsageError, ApiError) as error:
        error.args = (in_flags(str(error), options.places),)
        raise


def finish(allocation: Allocation, options: SubmitOptions, context: Context) -> int:
    """Say what was submitted, and wait for its end if that was asked for."""
    remember(context, allocations=[allocation.id])
    is_told = not options.wait and structured(context, allocation)
    if not is_told and context.output in {"table", "wide"}:
        quiet = context.flags.quiet
        context.streams.write(f"{allocation.id}\n" if quiet else f"Submitted allocation {allocation.id}\n")
        context.streams.stdout.flush()
    return _await_end(allocation, context) if options.wait else OK


def _dry_run(options: SubmitOptions, context: Context) -> int:
    with flags_named(options):
        return show_dry_run(build_submission(options, context), options, context)


def show_dry_run(submission: Submission, options: SubmitOptions, context: Context) -> int:
    if options.wait:
        raise UsageError("--wait cannot be used with --dry-run: nothing is submitted")
    outlook = context.client.dry_run(submission)
    tell_of_submission(outlook, context)
    if not structured(context, outlook):
        context.streams.write(outlook_text(outlook, context.clock.now()))
        if outlook.rank is not None and not context.flags.quiet:
            _show_ways_out(submission, outlook, context)
    return OK


def _show_ways_out(submission: Submission, outlook: Explanation, context: Context) -> None:
    from lattice.cli.input.ways_out import ways_out_before

    for text in ways_out_before(submission, outlook.predicted_start, context):
        context.streams.write(f"It {text}\n")


def tell_of_submission(answer: Allocation | Explanation, context: Context) -> None:
    """Print the server's warnings, and the vCluster if a site rule chose it."""
    for warning in answer.warnings or ():
        context.warn(warning)
    if answer.chosen_by:
        context.note(f"vCluster {answer.vcluster} was chosen by {answer.chosen_by}")


def _await_end(allocation: Allocation, context: Context) -> int:
    try:
        ended = await_end(allocation.id, context)
    except KeyboardInterrupt:
        context.note(f"stopped waiting; {allocation.id} is still running")
        raise
    if not structured(context, ended):
        context.say(ending_text(ended))
    return ending_code(ended)


COMMAND = Command(
    options=SubmitOptions,
    has_vcluster=True,
    fill=fill,
    run=run,
    complete=complete,
    takes_tail=True,
    takes_rest=True,
    examples=(
        "lattice submit --nodes=4 --walltime=24h train.sh",
        "lattice submit --constraint=gpu_type=GH200 -- torchrun train.py",
        "lattice submit --task-group=0-99%20 sweep.sh",
        "lattice submit --uenv=prgenv-gnu/24.11:v1 --view=default -- make -j run",
        "lattice submit --wait -q -- hostname",
        "lattice submit --notify=end,fail --notify-to=mail:ada@example.org train.sh",
        "lattice submit --dry-run --nodes=64 --walltime=12h train.sh",
    ),
)
