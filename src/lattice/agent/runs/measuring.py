"""What runs and steps use while they run: asked by a server, measured by the shim, with the devices that this agent gave them."""

from collections.abc import Callable, Sequence

from msgspec.structs import asdict

from lattice.agent.runs.devices import DeviceTable
from lattice.agent.shim_client import GroupFigures, ShimMessage
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.measures import GroupUse, MissingFeature
from lattice.wire.agents.messages import GROUP_USE, MISSING_FEATURE, RUN_KEY
from lattice.wire.pb import agent_pb2 as pb

Ask = Callable[[dict[str, object], Callable[[ShimMessage], None] | None], None]


def answer_measure(
    asked: pb.Measure,
    devices: DeviceTable,
    ask: Ask,
    post: Callable[[pb.AgentMessage], None],
    missing: Sequence[MissingFeature] = (),
) -> None:
    """Asks the shim and answers; a shim of a release that cannot measure answers that there is nothing."""
    body: dict[str, object] = {"op": "measure"}
    if asked.HasField("key"):
        key = RUN_KEY.read(asked.key)
        body |= {"number": key.number, "run": key.run}

    def answered(answer: ShimMessage) -> None:
        groups = [GROUP_USE.write(use_of(figures, devices)) for figures in answer.groups]
        lacks = [] if asked.HasField("key") else [MISSING_FEATURE.write(each) for each in missing]
        post(pb.AgentMessage(measured=pb.Measured(ticket=asked.ticket, groups=groups, missing=lacks)))

    ask(body, answered)


def use_of(figures: GroupFigures, devices: DeviceTable) -> GroupUse:
    measured = asdict(figures)
    key = RunKey(measured.pop("number"), measured.pop("run"))
    given = devices.of(key)
    if given is None:
        return GroupUse(key=key, **measured)
    return GroupUse(key=key, cpus=given.cpus, gpus=given.gpus or (), **measured)
