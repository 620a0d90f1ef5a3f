"""What nodes say they have at hand reaches the choice among equal nodes, over real streams; a new stream has to say it again."""

from lattice.core.machine.commands import SubmitAllocation
from lattice.core.machine.state import State
from lattice.core.model.nodes.at_hand import image_key
from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.work.allocations import Request
from lattice.ports.nodes.images import ContainerOrder, ImageOrder
from lattice.wire.pb import agent_pb2 as pb
from lattice.wire.work.payloads import Work, encode_work
from tests.integration.control.rig import FakeAgent, Rig, served

DIGEST = "0123456789abcdef" * 4
IMAGE = ImageOrder(reference="tools/1:v1", digest=DIGEST, source="/images/tools")
NODES = ("n1", "n2", "n3")


def agent(rig: Rig, node: str) -> FakeAgent:
    made = FakeAgent(node, rig.endpoint)
    hardware = pb.Hardware(cpus=4, memory_mb=4096, features=["uenv", "container"])
    made.register = pb.Register(node_id=node, hardware=hardware, boot_id="boot")
    return made


async def submit(rig: Rig, work: Work, feature: str) -> int:
    request = Request(features=(feature,))
    command = SubmitAllocation(
        name="test",
        user="ada",
        account="ada",
        tenant="default",
        vcluster="default",
        request=request,
        payload=encode_work(work),
    )
    return await rig.do(command)


def nodes_of(state: State, number: int) -> tuple[str, ...]:
    return state.allocations[number].nodes


def test_work_goes_where_its_image_is_while_the_node_says_so() -> None:
    async def test(rig: Rig) -> None:
        first, second, third = (agent(rig, node) for node in NODES)
        async with first.connected(), second.connected():
            async with third.connected():
                await rig.until(lambda state: all(_is_ready(state, node) for node in NODES))
                await third.send(at_hand=pb.AtHand(images=[image_key(DIGEST)]))
                await third.until(lambda: rig.at_hand.having(image_key(DIGEST)) == {"n3"})
                number = await submit(rig, Work(argv=("true",), images=(IMAGE,)), "uenv")
                await rig.until(lambda state: nodes_of(state, number) == ("n3",))
                await second.send(at_hand=pb.AtHand(images=[image_key(DIGEST)]))
                await second.until(lambda: "n2" in rig.at_hand.having(image_key(DIGEST)))
                boxed = await submit(rig, Work(argv=("true",), container=ContainerOrder(image=IMAGE)), "container")
                await rig.until(lambda state: nodes_of(state, boxed) == ("n2",))
                plain = await rig.submit()
                await rig.until(lambda state: nodes_of(state, plain) == ("n1",))
            async with agent(rig, "n3").connected():
                await first.until(lambda: rig.at_hand.having(image_key(DIGEST)) == {"n2"})

    served(test)


def test_what_no_node_has_at_hand_is_left_out() -> None:
    async def test(rig: Rig) -> None:
        one = agent(rig, "n1")
        async with one.connected():
            sets = [pb.GpuSet(gbps=float("nan")), *(pb.GpuSet(gbps=450.0, near=2, nics=1) for _ in range(40))]
            await one.send(at_hand=pb.AtHand(images=range(1000), gpu_sets=sets))
            await one.until(lambda: bool(rig.at_hand.gpu_sets().kinds))
            (told,) = rig.at_hand.gpu_sets().kinds
            assert (len(told), told[0].gbps, told[1].gbps) == (16, 0.0, 450.0)
            assert [key for key in range(1000) if rig.at_hand.having(key)] == list(range(128))

    served(test)


def _is_ready(state: State, node: str) -> bool:
    record = state.nodes.get(node)
    return record is not None and record.state is NodeState.READY
