"""The records of the agents' port on the wire, both ways: what servers and agents say to each other, as plans.

No other module copies a field between `lattice.ports.nodes` and `agent.proto`. docs/architecture/wire.md.
"""

from typing import Any

from lattice.core.model.nodes.at_hand import AtHand
from lattice.core.model.nodes.gpus import GpuSet
from lattice.core.model.nodes.health import CheckStanding, Consequence, HealthReport, Verdict
from lattice.core.model.nodes.nodes import Hardware
from lattice.core.model.nodes.observations import Beat
from lattice.core.model.nodes.specifications import Figures
from lattice.core.model.telemetry.modes import Mode, RunMode
from lattice.core.model.work.usage import Usage
from lattice.ports.nodes.agents import (
    EarlySignal,
    FinishOrder,
    Greeting,
    KnownRun,
    KnownStep,
    NamedPort,
    Order,
    PauseOrder,
    Phase,
    PmiUse,
    Readiness,
    Registration,
    Report,
    RunFiles,
    RunKey,
    SignalRunOrder,
    StartOrder,
    StartProgress,
    StepKey,
    StepReport,
    StopOrder,
    TaskEnd,
    UpdateOrder,
)
from lattice.ports.nodes.checkpoints import CheckpointOrder, CheckpointReport, CheckpointSetup
from lattice.ports.nodes.collecting import CollectingOrder, CollectOrder, ReportOrder, Share
from lattice.ports.nodes.data import DataOrder, StageOutOrder
from lattice.ports.nodes.images import (
    CachedImage,
    ComingImage,
    ContainerOrder,
    ImageOrder,
    ImagesAsk,
    MountedImage,
    NodeImagesTold,
    VariableChange,
)
from lattice.ports.nodes.measures import GroupUse, MissingFeature
from lattice.ports.nodes.probes import ProbeKind, ProbeOrder, ProbeType
from lattice.ports.nodes.steps import (
    AckOrder,
    AnyStepOrder,
    DropContainersOrder,
    EndOrder,
    LaunchOrder,
    NodesEndedOrder,
    PmiOrder,
    ResizeOrder,
    SignalOrder,
    TaskOrder,
    TerminalOrder,
)
from lattice.wire.agents.plans import Plan
from lattice.wire.agents.protocols import agent_protocol
from lattice.wire.pb import agent_pb2 as pb

RUN_KEY = Plan(RunKey, pb.RunKey)


class _StepKeyPlan(Plan[StepKey, pb.StepKey]):
    """A step's key is flat here and holds the run's key there."""

    def __init__(self) -> None:
        self.record, self.message = StepKey, pb.StepKey
        self.apart = dict.fromkeys(("number", "run"), "the run's key is a message of its own")
        self.names = {"step": "step"}
        self.read = lambda message: StepKey(message.run.number, message.run.run, message.step)
        self.write = lambda key: pb.StepKey(run=pb.RunKey(number=key.number, run=key.run), step=key.step)


STEP_KEY = _StepKeyPlan()

# Orders about runs.
RUN_FILES = Plan(RunFiles, pb.RunFiles)
EARLY_SIGNAL = Plan(EarlySignal, pb.EarlySignal)
IMAGE = Plan(ImageOrder, pb.Image)
NAMED_PORT = Plan(NamedPort, pb.NamedPort)
CONTAINER = Plan(ContainerOrder, pb.Container, IMAGE)
CHECKPOINT_SETUP = Plan(CheckpointSetup, pb.CheckpointSetup)
CHECKPOINT_RUN = Plan(CheckpointOrder, pb.CheckpointRun, RUN_KEY)
DATA_MOUNT = Plan(DataOrder, pb.RunData)
STAGE_OUT = Plan(StageOutOrder, pb.RunStageOut)
PROBE = Plan(ProbeOrder, pb.Probe, unknown={"kind": ProbeKind.READINESS, "type": ProbeType.TCP})
RUN_MODE = Plan(RunMode, pb.RunMode, unknown={"mode": Mode.PROD})
START_RUN = Plan(
    StartOrder,
    pb.StartRun,
    RUN_KEY,
    CHECKPOINT_SETUP,
    RUN_MODE,
    RUN_FILES,
    EARLY_SIGNAL,
    IMAGE,
    CONTAINER,
    NAMED_PORT,
    DATA_MOUNT,
    STAGE_OUT,
    PROBE,
    apart={
        "epoch": "the node notes it by itself: it is that of the Welcome before the order",
        **dict.fromkeys(("attempt", "failures", "streak"), "the node counts by itself what it starts again"),
    },
)

# Orders about steps.
STEP_TASK = Plan(TaskOrder, pb.StepTask)
STEP_PMI = Plan(PmiOrder, pb.StepPmi)
STEP_TERMINAL = Plan(TerminalOrder, pb.StepTerminal)
LAUNCH_STEP = Plan(LaunchOrder, pb.LaunchStep, START_RUN, STEP_TASK, STEP_PMI, STEP_TERMINAL, CONTAINER)

# What a server orders: the field of ServerMessage, and the plan of what it holds.
RUN_ORDERS: dict[str, Plan[Any, Any]] = {
    "start_run": START_RUN,
    "stop_run": Plan(StopOrder, pb.StopRun, RUN_KEY),
    "update_run": Plan(UpdateOrder, pb.UpdateRun, RUN_KEY, RUN_MODE),
    "signal_run": Plan(SignalRunOrder, pb.SignalRun, RUN_KEY),
    "finish_run": Plan(FinishOrder, pb.FinishRun, RUN_KEY),
    "pause_run": Plan(PauseOrder, pb.PauseRun, RUN_KEY),
}
STEP_ORDERS: dict[str, Plan[Any, Any]] = {
    "launch_step": LAUNCH_STEP,
    "signal_step": Plan(SignalOrder, pb.SignalStep, STEP_KEY),
    "end_step": Plan(EndOrder, pb.EndStep, STEP_KEY),
    "step_nodes_ended": Plan(NodesEndedOrder, pb.StepNodesEnded, STEP_KEY),
    "resize_step": Plan(ResizeOrder, pb.ResizeStep, STEP_KEY),
    "step_ack": Plan(AckOrder, pb.StepAck, STEP_KEY),
    "drop_containers": Plan(DropContainersOrder, pb.DropContainers, RUN_KEY),
}
COLLECTING_ORDERS: dict[str, Plan[Any, Any]] = {
    "collect": Plan(CollectOrder, pb.Collect),
    "report_to": Plan(ReportOrder, pb.ReportTo),
}
CHECKPOINT_ORDERS: dict[str, Plan[Any, Any]] = {"checkpoint_run": CHECKPOINT_RUN}
_FIELDS = {
    plan.record: (field, plan)
    for orders in (RUN_ORDERS, STEP_ORDERS, COLLECTING_ORDERS, CHECKPOINT_ORDERS)
    for field, plan in orders.items()
}

# Who is there.
_PROTOCOL = "both sides name the versions that they speak; what they agree on is no field of a message"
KNOWN_RUN = Plan(KnownRun, pb.KnownRun, RUN_KEY, unknown={"phase": Phase.RUNNING})
KNOWN_STEP = Plan(KnownStep, pb.KnownStep, STEP_KEY)
_FIGURES = "the record Figures has it"
HARDWARE = Plan(
    Hardware,
    pb.Hardware,
    apart=dict.fromkeys(("os", "cpu_speed", "virtual_memory_mb", "tmp_disk_mb"), _FIGURES),
)
FIGURES = Plan(
    Figures,
    pb.Hardware,
    renamed={"speed": "cpu_speed"},
    apart=dict.fromkeys(Hardware.__struct_fields__, "the record Hardware has it"),
)
REGISTER = Plan(
    Registration,
    pb.Register,
    HARDWARE,
    KNOWN_RUN,
    KNOWN_STEP,
    RUN_KEY,
    apart={
        "figures": "they travel in the message's hardware",
        "issued_at": "the server reads it off the credentials that the agent shows",
        "protocol": _PROTOCOL,
    },
)
WELCOME = Plan(Greeting, pb.Welcome, RUN_KEY, apart={"protocol": _PROTOCOL})

# What agents tell.
USAGE = Plan(Usage, pb.Usage, apart={"is_oom": "the report of a step says it as its cause"})
GROUP_USE = Plan(GroupUse, pb.GroupUse, RUN_KEY)
MISSING_FEATURE = Plan(MissingFeature, pb.MissingFeature)
RUN_REPORT = Plan(Report, pb.RunReport, RUN_KEY, USAGE, NAMED_PORT, unknown={"phase": Phase.STARTING})
CHECKPOINT_REPORT = Plan(CheckpointReport, pb.CheckpointReport, RUN_KEY)
READINESS = Plan(Readiness, pb.Readiness, RUN_KEY)
START_PROGRESS = Plan(StartProgress, pb.StartProgress, RUN_KEY)
TASK_END = Plan(TaskEnd, pb.TaskEnd)
PMI_USE = Plan(PmiUse, pb.StepPmiUse)
STEP_REPORT = Plan(StepReport, pb.StepReport, STEP_KEY, TASK_END, USAGE, PMI_USE)
HEARTBEAT = Plan(Beat, pb.Heartbeat)
CHECK_STANDING = Plan(
    CheckStanding,
    pb.CheckStanding,
    unknown={"verdict": Verdict.FAILED, "consequence": Consequence.WARN},
    apart={"passes": "the node alone counts them, to tell when a check has recovered"},
)
HEALTH_REPORT = Plan(HealthReport, pb.HealthReport, CHECK_STANDING)
_TICKET = {"ticket": "the link gives and takes it"}
CACHED_IMAGE = Plan(CachedImage, pb.CachedImage)
COMING_IMAGE = Plan(ComingImage, pb.ComingImage)
MOUNTED_IMAGE = Plan(MountedImage, pb.MountedImage)
VARIABLE_CHANGE = Plan(VariableChange, pb.VariableChange)
IMAGES_ASK = Plan(ImagesAsk, pb.AskImages, IMAGE, RUN_KEY, apart=_TICKET)
IMAGES_TOLD = Plan(
    NodeImagesTold, pb.ImagesTold, CACHED_IMAGE, COMING_IMAGE, MOUNTED_IMAGE, VARIABLE_CHANGE, apart=_TICKET
)
GPU_SET = Plan(GpuSet, pb.GpuSet)
AT_HAND = Plan(AtHand, pb.AtHand, GPU_SET)
GATHERED = Plan(Share, pb.Gathered)


def ready_to_order() -> None:
    """Works out how starts are written, so that the first one need not wait for that. Called when a node is there to get orders."""
    _ = START_RUN.write, LAUNCH_STEP.write


def ready_for_orders() -> None:
    """The same of the node: how starts are read, and what it reports of them is written."""
    _ = START_RUN.read, LAUNCH_STEP.read, RUN_REPORT.write, STEP_REPORT.write


def order_message(order: Order | CheckpointOrder | AnyStepOrder | CollectingOrder) -> pb.ServerMessage:
    field, plan = _FIELDS[type(order)]
    return pb.ServerMessage(**{field: plan.write(order)})


def run_order_of(message: pb.ServerMessage) -> Order | None:
    """The order about a run that the message holds, if it holds one."""
    order: Order | None = _order_of(message, RUN_ORDERS)
    return order


def step_order_of(message: pb.ServerMessage) -> AnyStepOrder | None:
    order: AnyStepOrder | None = _order_of(message, STEP_ORDERS)
    return order


def collecting_order_of(message: pb.ServerMessage) -> CollectingOrder | None:
    order: CollectingOrder | None = _order_of(message, COLLECTING_ORDERS)
    return order


def _order_of(message: pb.ServerMessage, orders: dict[str, Plan[Any, Any]]) -> Any:  # noqa: ANN401 - typed by its callers
    field = message.WhichOneof("body") or ""
    return orders[field].read(getattr(message, field)) if field in orders else None


def register_message(registration: Registration) -> pb.AgentMessage:
    message = REGISTER.write(registration)
    if registration.figures is not None:
        message.hardware.MergeFrom(FIGURES.write(registration.figures))
    message.protocol.CopyFrom(agent_protocol())
    return pb.AgentMessage(register=message)


def welcome_message(greeting: Greeting) -> pb.ServerMessage:
    message = WELCOME.write(greeting)
    message.protocol.CopyFrom(agent_protocol())
    return pb.ServerMessage(welcome=message)
