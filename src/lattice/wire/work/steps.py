"""Steps on the wire: what a launch asks for, and what is shown of a step."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from lattice.core.model.ids import allocation_id
from lattice.core.model.units import BadUnit, parse_duration_s
from lattice.core.model.work.binding import GPU_BINDINGS, BadBinding, check_cpu_binding
from lattice.core.model.work.efficiency import finite
from lattice.core.model.work.layout import Distribution, Layout, TaskRequest
from lattice.core.model.work.steps import MAX_TASKS, StepRecord, is_terminal, step_id
from lattice.core.model.work.usage import NO_USAGE
from lattice.ports.nodes.steps import LaunchRequest, Program, StepView
from lattice.wire.bounds import Argument, Short, TaskList
from lattice.wire.text.node_names import node_names
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import check_argument, check_environment, check_line, check_path
from lattice.wire.text.times import rfc3339
from lattice.wire.work.submissions import IMAGE_NAMES, NO_OPTIONS, ContainerOptions
from lattice.wire.work.usage import RunUsageView, usage_view

MAX_ARGUMENTS = 10_000
MAX_PROGRAMS = 1000
MAX_NAMED = 4 * MAX_TASKS
MAX_CELLS = 10_000
MAX_GPUS = 1024
MAX_FENCE_S = 86_400
PMI_KINDS = ("auto", "pmi1", "pmi2", "pmix", "none")
NAMED_KINDS = "auto, pmi1, pmi2, pmix or none"
_RANKS = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")

StepState = Literal["waiting", "running", "ended"]


class ProgramFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The program of some ranks: `ranks` as `0-3,7`; `%t` in an argument stands for the rank."""

    ranks: TaskList
    argv: list[Argument]


class StepSubmission(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step to launch. `input`: `none`, `all`, a rank, or a file; `output`, `error`: files written on the nodes, with patterns such as `%t`."""

    id: str
    request_id: str = ""
    argv: list[Argument] = []
    programs: list[ProgramFields] = []
    tasks: int = 0
    nodes: int = 0
    tasks_per_node: int = 0
    cpus_per_task: int = 1
    node_list: list[str] = []
    distribution: Distribution = Distribution.BLOCK
    overcommit: bool = False
    environment: dict[str, Argument] = {}
    inherit_environment: bool = True
    cwd: str = ""
    input: str = "0"
    output: str = ""
    error: str = ""
    pty: bool = False
    rows: int = 0
    columns: int = 0
    no_kill: bool = False
    overlap: bool = False
    immediate: bool = False
    time: Short = ""
    pmi: Short = "auto"
    fence_timeout: Short = ""
    cpu_bind: TaskList = ""
    gpu_bind: Short = ""
    gpus_per_task: int = 0
    task_prologue: str = ""  # path of a program that each task runs before its own, as the user
    image: str = ""  # the tasks run inside this container image, of the step alone
    container: ContainerOptions = NO_OPTIONS  # without `image`, its `name` is that of one that earlier steps began


class NodeRanks(Struct, frozen=True, kw_only=True):
    """The tasks on one node; `ranks` as `0-3,7`."""

    node: str
    tasks: int
    ranks: str


class StepInfo(Struct, frozen=True, kw_only=True):
    """`codes` counts the tasks of an ended step by exit code, as a shell would report it."""

    id: str
    allocation: str
    step: int
    run: int
    state: StepState
    name: str
    tasks: int
    nodes: tuple[str, ...]
    layout: tuple[NodeRanks, ...]
    started_at: str | None
    ended_at: str | None
    exit_code: int | None
    lost: int
    message: str
    cpu_s: float
    peak_memory_mb: int
    codes: dict[str, int]
    launch_id: str
    usage: RunUsageView
    cause: Literal["", "oom"]
    is_terminal: bool
    read_only: bool = False  # a terminal of somebody else, which the caller may watch
    watchers: tuple[str, ...] = ()  # whom its owner has shared it with; told to the owner alone


def launch_request(fields: StepSubmission, launch_id: str) -> LaunchRequest:
    """The checked request. Raises BadField."""
    if not fields.argv and not fields.programs:
        raise BadField("argv", "is empty", hint="name a program to run")
    if fields.pty and (fields.output or fields.error):
        raise BadField("pty", "a terminal cannot be written to files", hint="leave output and error out")
    return LaunchRequest(
        launch_id=launch_id,
        argv=_arguments(fields.argv, "argv") if fields.argv else (),
        task_request=_task_request(fields),
        programs=_programs(fields),
        env=check_environment(fields.environment),
        inherit=fields.inherit_environment,
        cwd=check_path(fields.cwd, "cwd"),
        stdin=_input(fields.input),
        stdout=check_line(fields.output, "output", 4096),
        stderr=check_line(fields.error, "error", 4096),
        pty=fields.pty,
        rows=_between(fields.rows, "rows", 0, MAX_CELLS),
        columns=_between(fields.columns, "columns", 0, MAX_CELLS),
        no_kill=fields.no_kill,
        overlap=fields.overlap,
        immediate=fields.immediate,
        time_s=float(_seconds(fields.time, "time")),
        pmi=_pmi(fields.pmi),
        fence_timeout_s=float(
            _between(_seconds(fields.fence_timeout, "fence_timeout"), "fence_timeout", 0, MAX_FENCE_S)
        ),
        cpu_bind=_cpu_bind(fields.cpu_bind),
        gpu_bind=_gpu_bind(fields.gpu_bind),
        gpus_per_task=_between(fields.gpus_per_task, "gpus_per_task", 0, MAX_GPUS),
        task_prologue=check_line(fields.task_prologue, "task_prologue", 4096),
    )


def _pmi(word: str) -> str:
    if word in PMI_KINDS:
        return word
    raise BadField("pmi", f'"{word[:60]}" is not known', hint=f"use {NAMED_KINDS}")


def _cpu_bind(kind: str) -> str:
    try:
        return check_cpu_binding(kind)
    except BadBinding as error:
        raise BadField("cpu_bind", str(error)) from None


def _gpu_bind(kind: str) -> str:
    if kind and kind not in GPU_BINDINGS:
        raise BadField("gpu_bind", f'"{kind[:40]}" is not known', hint="use none or closest")
    return kind


def _task_request(fields: StepSubmission) -> TaskRequest:
    names = fields.node_list
    tasks = _between(fields.tasks, "tasks", 0, MAX_TASKS)
    return TaskRequest(
        # A terminal is for one task; others would run beside it unseen.
        tasks=tasks or (1 if fields.pty and not fields.tasks_per_node else 0),
        nodes=_between(fields.nodes, "nodes", 0, MAX_TASKS),
        tasks_per_node=_between(fields.tasks_per_node, "tasks_per_node", 0, MAX_TASKS),
        cpus_per_task=_between(fields.cpus_per_task, "cpus_per_task", 1, MAX_TASKS),
        node_list=node_names(names, "node_list") if names else (),
        distribution=fields.distribution,
        overcommit=fields.overcommit,
    )


def _seconds(text: str, field: str) -> int:
    try:
        return parse_duration_s(text) if text else 0
    except BadUnit as error:
        raise BadField(field, str(error)) from None


def _arguments(words: list[str], field: str) -> tuple[str, ...]:
    if len(words) > MAX_ARGUMENTS:
        raise BadField(field, "has too many words", current=f"{len(words):,}", limit=f"{MAX_ARGUMENTS:,}")
    if not words or not words[0]:
        raise BadField(field, "is empty", hint="name a program to run")
    return tuple(check_argument(word, f"{field}[{place}]") for place, word in enumerate(words))


def _programs(fields: StepSubmission) -> tuple[Program, ...]:
    if len(fields.programs) > MAX_PROGRAMS:
        raise BadField("programs", "has too many entries", limit=f"{MAX_PROGRAMS:,}")
    programs = tuple(
        Program(
            ranks=_spans(program.ranks, f"programs[{place}].ranks"),
            argv=_arguments(program.argv, f"programs[{place}].argv"),
        )
        for place, program in enumerate(fields.programs)
    )
    named = sum(last - first + 1 for program in programs for first, last in program.ranks)
    if named > MAX_NAMED:
        raise BadField("programs", "name too many ranks", current=f"{named:,}", limit=f"{MAX_NAMED:,}")
    return programs


def _spans(text: str, field: str) -> tuple[tuple[int, int], ...]:
    spans = []
    for piece in text.split(","):
        match = _RANKS.fullmatch(piece.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last >= MAX_TASKS:
            raise BadField(field, f'cannot read "{text[:60]}"', hint="write 0-3,7")
        spans.append((first, last))
    return tuple(spans)


def _input(text: str) -> str:
    if not text:
        raise BadField("input", "is empty", hint="none, all, a rank, or the name of a file")
    return check_line(text, "input", 4096)


def _between(value: int, field: str, least: int, most: int) -> int:
    if not least <= value <= most:
        raise BadField(field, f"{value} is not possible", limit=f"from {least} to {most:,}")
    return value


def step_info(view: StepView) -> StepInfo:
    """A step that is not recorded yet."""
    name = allocation_id(view.number)
    layout = view.layout
    state: StepState = "ended" if view.has_ended else "running" if layout else "waiting"
    return StepInfo(
        id=step_id(name, view.step),
        allocation=name,
        step=view.step,
        run=view.run,
        state=state,
        name=view.name,
        tasks=view.tasks,
        nodes=layout.nodes if layout else (),
        layout=layout_view(layout) if layout and layout.size else (),
        started_at=rfc3339(view.started_at) if layout else None,
        ended_at=rfc3339(view.ended_at) if view.has_ended else None,
        exit_code=view.exit_code if view.has_ended else None,
        lost=view.lost,
        message="; ".join(filter(None, ("; ".join(view.failures) or view.message, view.pmi))),
        cpu_s=0.0,
        peak_memory_mb=0,
        codes={},
        launch_id=view.launch_id,
        usage=usage_view(NO_USAGE),
        cause="",
        is_terminal=view.is_terminal,
    )


def recorded_info(number: int, record: StepRecord) -> StepInfo:
    name = allocation_id(number)
    return StepInfo(
        id=step_id(name, record.step),
        allocation=name,
        step=record.step,
        run=record.run,
        state="ended",
        name=record.name,
        tasks=record.tasks,
        nodes=record.nodes,
        layout=(),
        started_at=rfc3339(record.started_at),
        ended_at=rfc3339(record.ended_at),
        exit_code=record.exit_code,
        lost=record.lost,
        message=record.message,
        cpu_s=finite(record.cpu_s),
        peak_memory_mb=record.peak_memory_mb,
        codes={str(code): count for code, count in record.codes},
        launch_id=record.launch_id,
        usage=usage_view(record.usage),
        cause="oom" if record.usage.is_oom else "",
        is_terminal=is_terminal(record.launch_id),
    )


def recorded_view(number: int, record: StepRecord) -> StepView:
    """A step that is over and recorded, in the shape of one that is not."""
    count = len(record.nodes)
    return StepView(
        number=number,
        run=record.run,
        step=record.step,
        launch_id=record.launch_id,
        name=record.name,
        layout=Layout(nodes=record.nodes, counts=(0,) * count) if count else None,
        tasks=record.tasks,
        started_at=record.started_at,
        closed_nodes=record.nodes,
        has_ended=True,
        ended_at=record.ended_at,
        exit_code=record.exit_code,
        lost=record.lost,
        message=record.message,
        failures=tuple(record.message.split("; ")) if record.exit_code and record.message else (),
        is_terminal=is_terminal(record.launch_id),
    )


def layout_view(layout: Layout) -> tuple[NodeRanks, ...]:
    return tuple(
        NodeRanks(node=node, tasks=len(ranks), ranks=folded(ranks))
        for node, ranks in zip(layout.nodes, layout.ranks(), strict=True)
    )


def folded(ranks: Sequence[int]) -> str:
    """`0-3,7`."""
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and spans[-1][1] == rank - 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def refuse_images(environment: Mapping[str, str], field: str = "environment") -> None:
    """Raises BadField for an image of a step, which would otherwise become a variable and be ignored."""
    for name in IMAGE_NAMES:
        if name in environment:
            raise BadField(f"{field}.{name}", "a step has the images of its allocation", hint="leave it out")
