"""Who differs from what: declared baselines, majorities with a memory, several vClusters and kinds of nodes."""

from collections.abc import Mapping

from lattice.core.model.nodes.drift import (
    Baseline,
    Difference,
    Judgement,
    Peers,
    differences,
    is_sensitive,
    judge,
    kind_of,
)
from lattice.core.model.nodes.nodes import Hardware, Node, NodeState
from lattice.core.model.site.tenants import SENSITIVE, Vcluster

CPU = Hardware(cpus=64, memory_mb=1000)
GPU = Hardware(cpus=64, memory_mb=1000, gpus=4, gpu_type="GH200", unified_memory=True)
PEERS = Peers("default", kind_of(CPU))


def nodes(
    count: int, hardware: Hardware = CPU, prefix: str = "n", state: NodeState = NodeState.READY
) -> dict[str, Node]:
    names = [f"{prefix}{number:03d}" for number in range(count)]
    return {name: Node(id=name, hardware=hardware, state=state) for name in names}


def judged(
    machine: Mapping[str, Node],
    prints: Mapping[str, str],
    remembered: Mapping[Peers, str] | None = None,
    baselines: Mapping[str, Baseline] | None = None,
    vclusters: tuple[Vcluster, ...] = (Vcluster(name="default"),),
) -> Judgement:
    by_name = {vcluster.name: vcluster for vcluster in vclusters}
    return judge(machine, by_name, baselines or {}, prints, remembered or {})


def differing(judgement: Judgement) -> list[str]:
    return [name for name, verdict in judgement.verdicts.items() if verdict.differs]


def prints(machine: Mapping[str, Node], new: int, *, old: str = "a", fresh: str = "b") -> dict[str, str]:
    """The first `new` nodes have the fresh one."""
    return {name: fresh if place < new else old for place, name in enumerate(sorted(machine))}


def test_the_one_that_is_unlike_the_others_differs() -> None:
    machine = nodes(4)
    judgement = judged(machine, prints(machine, 1))
    assert differing(judgement) == ["n000"]
    assert judgement.verdicts["n000"] == ("default", "a", True)
    assert judgement.verdicts["n001"] == ("default", "a", False)


def test_two_halves_differ_from_nobody_before_there_was_a_majority() -> None:
    machine = nodes(4)
    assert judged(machine, prints(machine, 2)).verdicts == {}


def test_a_rolling_update_turns_the_baseline_once() -> None:
    machine = nodes(100)
    remembered: Mapping[Peers, str] = {}
    turns = []
    for done in range(101):
        judgement = judged(machine, prints(machine, done), remembered)
        if judgement.majorities != remembered:
            turns.append((done, judgement.majorities[PEERS]))
        remembered = judgement.majorities
        assert len(differing(judgement)) <= 55
    assert turns == [(0, "a"), (55, "b")]


def test_a_few_that_go_back_and_forth_turn_nothing() -> None:
    machine = nodes(100)
    remembered: Mapping[Peers, str] = {PEERS: "a"}
    for done in (49, 51, 50, 54, 46, 54):
        remembered = judged(machine, prints(machine, done), remembered).majorities
        assert remembered == {PEERS: "a"}


def test_a_majority_is_one_of_all_nodes_in_service_not_of_those_that_spoke() -> None:
    machine = nodes(10)
    assert judged(machine, {"n000": "b"}).majorities == {}
    down = nodes(20, prefix="x", state=NodeState.DOWN)
    assert judged({**machine, **down}, prints(machine, 0)).majorities == {PEERS: "a"}


def test_what_nobody_is_any_more_is_not_expected_of_anybody() -> None:
    machine = nodes(4)
    prints_ = prints(machine, 2, old="c")
    assert judged(machine, prints_, {PEERS: "a"}).verdicts == {}
    assert judged(machine, {"n000": "b"}, {PEERS: "a"}).majorities == {PEERS: "a"}  # too few have spoken


def test_nodes_of_another_kind_are_not_compared() -> None:
    machine = {**nodes(6), **nodes(3, GPU, "g")}
    found = {name: "g" if name.startswith("g") else "a" for name in machine}
    judgement = judged(machine, found)
    assert differing(judgement) == []
    assert judgement.majorities == {PEERS: "a", Peers("default", kind_of(GPU)): "g"}


def test_a_declared_baseline_counts_whatever_the_majority() -> None:
    machine = nodes(3)
    declared = {"default": Baseline(vcluster="default", fingerprint="b")}
    assert differing(judged(machine, prints(machine, 1), baselines=declared)) == ["n001", "n002"]


def test_a_node_is_judged_by_the_vclusters_that_name_it_sensitive_ones_first() -> None:
    machine = nodes(4)
    own = ("n000", "n001")
    vclusters = (
        Vcluster(name="default"),
        Vcluster(name="batch", nodes=own),
        Vcluster(name="hospital", scheduler=SENSITIVE, nodes=own),
    )
    baselines = {name: Baseline(vcluster=name, fingerprint="x") for name in ("batch", "hospital")}
    judgement = judged(machine, prints(machine, 0), baselines=baselines, vclusters=vclusters)
    assert {name: verdict.vcluster for name, verdict in judgement.verdicts.items() if verdict.differs} == {
        "n000": "hospital",
        "n001": "hospital",
    }
    assert judgement.verdicts["n002"] == ("default", "a", False)


def test_who_differs_in_one_of_several_vclusters_differs() -> None:
    machine = nodes(2)
    vclusters = (Vcluster(name="one"), Vcluster(name="two"))
    baselines = {"one": Baseline(vcluster="one", fingerprint="a"), "two": Baseline(vcluster="two", fingerprint="z")}
    judgement = judged(machine, prints(machine, 0), baselines=baselines, vclusters=vclusters)
    assert judgement.verdicts["n000"] == ("two", "z", True)


def test_a_node_that_said_nothing_is_not_judged() -> None:
    machine = nodes(3)
    assert set(judged(machine, {"n000": "a", "n001": "a"}).verdicts) == {"n000", "n001"}


def test_differences_name_what_is_missing_on_either_side() -> None:
    assert differences({"bios": "1", "kernel": "6.1"}, {"kernel": "6.2", "nic": "3"}) == (
        Difference(component="bios", expected="1"),
        Difference(component="kernel", expected="6.1", actual="6.2"),
        Difference(component="nic", actual="3"),
    )


def test_a_node_in_use_by_a_sensitive_vcluster_is_sensitive() -> None:
    vclusters = {"hospital": Vcluster(name="hospital", scheduler=SENSITIVE)}
    node = Node(id="n1", hardware=CPU)
    assert not is_sensitive(node, vclusters)
    assert is_sensitive(Node(id="n1", hardware=CPU, vcluster="hospital"), vclusters)
