"""What runs and steps use while they run: asked by a server, measured by the shim, with the devices that this agent gave them."""

from collections.abc import Callable

from lattice.agent.runs.devices import DeviceTable
from lattice.agent.shim_client import GroupFigures, ShimMessage
from lattice.ports.nodes.agents import GroupUse, RunKey
from lattice.wire.agents.messages import GROUP_USE, RUN_KEY
from lattice.wire.pb import agent_pb2 as pb

Ask = Callable[[dict[str, object], Callable[[ShimMessage], None] | None], None]


def answer_measure(asked: pb.Measure, devices: DeviceTable, ask: Ask, post: Callable[[pb.AgentMessage], None]) -> None:
    """Asks the shim and answers; a shim of a release that cannot measure answers that there is nothing."""
    body: dict[str, object] = {"op": "measure"}
    if asked.HasField("key"):
        key = RUN_KEY.read(asked.key)
        body |= {"number": key.number, "run": key.run}

    def answered(answer: ShimMessage) -> None:
        groups = [GROUP_USE.write(use_of(figures, devices)) for figures in answer.groups]
        post(pb.AgentMessage(measured=pb.Measured(ticket=asked.ticket, groups=groups)))

    ask(body, answered)


def use_of(figures: GroupFigures, devices: DeviceTable) -> GroupUse:
    key = RunKey(figures.number, figures.run)
    given = devices.of(key)
    return GroupUse(
        key=key,
        step=figures.step,
        cpu_s=figures.cpu_s,
        throttled_s=figures.throttled_s,
        memory_mb=figures.memory_mb,
        peak_memory_mb=figures.peak_memory_mb,
        read_bytes=figures.read_bytes,
        written_bytes=figures.written_bytes,
        pids=figures.pids,
        peak_pids=figures.peak_pids,
        cpus=given.cpus if given is not None else (),
        gpus=given.gpus or () if given is not None else (),
    )
