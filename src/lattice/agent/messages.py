"""What the agent says and hears, between its state and the plans of `lattice.wire.agents.messages`."""

from collections.abc import Iterable

import msgspec

from lattice.agent.machine.state import Acknowledged, SendReport, Stimulus, Welcomed
from lattice.config.release import installed_release
from lattice.core.model.nodes.nodes import Hardware
from lattice.core.model.nodes.specifications import NO_FIGURES, Figures
from lattice.ports.nodes.agents import KnownRun, KnownStep, Registration, RunKey
from lattice.wire.agents.messages import RUN_KEY, RUN_REPORT, WELCOME, register_message, run_order_of
from lattice.wire.pb import agent_pb2 as pb


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says of itself when it registers."""

    node_id: str
    address: str
    boot_id: str
    cpus: int
    memory_mb: int
    gpus: int
    gpu_type: str
    group: str
    features: tuple[str, ...]
    unified_memory: bool = False
    cxl_memory_mb: int = 0
    power_w: int = 0
    figures: Figures = NO_FIGURES
    runs_as_root: bool
    agent_user: str
    collector_address: str = ""
    metrics_address: str = ""

    @property
    def hardware(self) -> Hardware:
        return Hardware(**{name: getattr(self, name) for name in Hardware.__struct_fields__})


def stimulus_of(message: pb.ServerMessage) -> Stimulus | None:
    """What the message asks of the agent's state; None for those about steps and output, and for unknown ones."""
    match message.WhichOneof("body"):
        case "welcome":
            return Welcomed(greeting=WELCOME.read(message.welcome))
        case "report_ack":
            ack = message.report_ack
            return Acknowledged(key=RUN_KEY.read(ack.key), seq=ack.seq, instance=ack.instance)
        case _:
            return run_order_of(message)


def register(
    facts: NodeFacts,
    runs: tuple[KnownRun, ...],
    known: tuple[Iterable[KnownStep], Iterable[RunKey]] = ((), ()),
    epoch: int = 0,
    process: int = 0,
) -> pb.AgentMessage:
    return register_message(
        Registration(
            node_id=facts.node_id,
            hardware=facts.hardware,
            figures=facts.figures,
            address=facts.address,
            boot_id=facts.boot_id,
            agent_version=installed_release(),
            runs=runs,
            steps=tuple(known[0]),
            containers=tuple(sorted(known[1])),
            epoch=epoch,
            takes_batches=True,
            runs_as_root=facts.runs_as_root,
            agent_user=facts.agent_user,
            collector_address=facts.collector_address,
            metrics_address=facts.metrics_address,
            process=process,
        )
    )


def confirmed(session: int) -> pb.AgentMessage:
    return pb.AgentMessage(confirmed=pb.Confirmed(session=session))


def report(told: SendReport, now_boot_s: float) -> pb.AgentMessage:
    report = told.report
    if told.started_boot_s:
        report = msgspec.structs.replace(report, elapsed_s=max(0.0, now_boot_s - told.started_boot_s))
    return pb.AgentMessage(run_report=RUN_REPORT.write(report))


def output_chunk(
    reader: int,
    offset: int,
    data: bytes = b"",
    marks: Iterable[tuple[int, int]] = (),
    *,
    eof: bool = False,
    error: str = "",
) -> pb.AgentMessage:
    chunk = pb.OutputChunk(reader=reader, offset=offset, data=data, eof=eof, error=error)
    for mark in marks:
        chunk.marks.extend(mark)
    return pb.AgentMessage(output_chunk=chunk)
