"""The loop that compares nodes with their baseline: what it notes, when it gives up, and what the scheduler hears."""

from lattice.control.nodes.conformance import Conformance
from lattice.core.machine.commands import (
    ApproveNode,
    DownNode,
    DrainNode,
    NoteDrift,
    RaiseLevel,
    SetBaseline,
    SetSetting,
    SetVcluster,
    UndrainNode,
    UnsetBaseline,
)
from lattice.core.model.nodes.conformance import fingerprint
from lattice.core.model.nodes.drift import Baseline, Difference
from lattice.core.model.nodes.nodes import DownCause, NodeState
from lattice.core.model.site.tenants import SENSITIVE, Vcluster
from lattice.testing import scenario
from tests.unit.control.reports import Reports
from tests.unit.control.world import World

OLD = {"kernel": "6.1", "nic.firmware": "22"}
NEW = {"kernel": "6.1", "nic.firmware": "23"}
HOUR_S = 3600


class Watched:
    """Nodes that are alike, and the loop over them."""

    def __init__(self, *names: str) -> None:
        self.world = World()
        self.names = names
        self.reports = Reports()
        self.changes = 0

    async def begin(self) -> "Watched":
        await self.world.prepare(*self.names)
        for name in self.names:
            self.reports.say(name, OLD)
        self.loop = self.new_loop()
        await self.loop.look()
        return self

    def new_loop(self) -> Conformance:
        return Conformance(self.world.replica, self.world.clock, self.reports, self._changed)

    def _changed(self) -> None:
        self.changes += 1

    async def do(self, command: object) -> None:
        await self.world.replica.propose(command, actor="ada")  # type: ignore[arg-type]

    async def make_sensitive(self, *names: str) -> None:
        vcluster = Vcluster(name="hospital", scheduler=SENSITIVE, nodes=names)
        await self.do(SetVcluster(vcluster=vcluster, create=True))
        await self.loop.look()

    async def drifts(self, node: str, parts: dict[str, str] | None = None) -> None:
        self.reports.say(node, parts or NEW)
        await self.loop.look()

    def state_of(self, node: str) -> NodeState:
        return self.world.node(node).state

    @property
    def drifted(self) -> list[str]:
        return sorted(self.world.state.drift.drifts)


@scenario
async def test_a_node_that_changes_is_noted_with_what_changed_and_avoided() -> None:
    watched = await Watched("n1", "n2", "n3").begin()
    changes = watched.changes
    await watched.drifts("n2")
    drift = watched.world.state.drift.drifts["n2"]
    assert drift.differences == (Difference(component="nic.firmware", expected="22", actual="23"),)
    assert (drift.expected, drift.actual) == (fingerprint(OLD), fingerprint(NEW))
    assert watched.loop.standing().drifted == {"n2"}
    assert watched.state_of("n2") is NodeState.READY
    assert watched.changes > changes


@scenario
async def test_a_second_look_says_nothing_new() -> None:
    watched = await Watched("n1", "n2", "n3").begin()
    await watched.drifts("n2")
    before, changes = len(watched.world.replica.proposed), watched.changes
    await watched.loop.look()
    assert (len(watched.world.replica.proposed), watched.changes) == (before, changes)


@scenario
async def test_a_node_that_is_right_again_is_used_as_before() -> None:
    watched = await Watched("n1", "n2", "n3").begin()
    await watched.drifts("n2")
    await watched.drifts("n2", OLD)
    assert watched.drifted == []
    assert watched.loop.standing().drifted == frozenset()


@scenario
async def test_a_sensitive_node_that_drifted_stays_one_when_it_is_taken_from_the_sensitive_vcluster() -> None:
    watched = await Watched("n1", "n2", "n3", "n4").begin()
    await watched.make_sensitive("n2", "n3", "n4")
    await watched.drifts("n2")
    vcluster = Vcluster(name="hospital", scheduler=SENSITIVE, nodes=("n3", "n4"))
    await watched.do(SetVcluster(vcluster=vcluster))
    await watched.loop.look()
    assert watched.world.state.drift.drifts["n2"].is_sensitive
    before = len(watched.world.replica.proposed)
    await watched.loop.look()
    assert len(watched.world.replica.proposed) == before
    await watched.drifts("n2", OLD)
    assert (watched.state_of("n2"), watched.drifted) == (NodeState.DRAINED, ["n2"])


@scenario
async def test_a_node_that_grew_silent_keeps_its_drift() -> None:
    watched = await Watched("n1", "n2", "n3", "n4").begin()
    await watched.drifts("n2")
    watched.reports.forget("n2")
    await watched.loop.look()
    assert watched.drifted == ["n2"]


@scenario
async def test_an_ordinary_node_is_down_after_a_day_and_back_by_undrain_once_it_is_right() -> None:
    watched = await Watched("n1", "n2", "n3").begin()
    await watched.drifts("n2")
    watched.world.clock.pass_s(24 * HOUR_S - 1)
    await watched.loop.look()
    assert watched.state_of("n2") is NodeState.READY
    watched.world.clock.pass_s(1)
    await watched.loop.look()
    assert watched.world.node("n2").down_cause is DownCause.DRIFT
    before = len(watched.world.replica.proposed)
    await watched.loop.look()
    assert len(watched.world.replica.proposed) == before
    await watched.do(UndrainNode(node="n2", is_heard=True))
    assert watched.state_of("n2") is NodeState.DOWN
    await watched.drifts("n2", OLD)
    await watched.do(UndrainNode(node="n2", is_heard=True))
    assert watched.state_of("n2") is NodeState.BOOTING


@scenario
async def test_a_node_that_came_back_from_silence_with_its_time_over_is_given_up_then() -> None:
    watched = await Watched("n1", "n2", "n3").begin()
    await watched.drifts("n2")
    await watched.do(DownNode(node="n2", reason="silent"))
    await watched.do(DrainNode(node="n2"))
    watched.world.clock.pass_s(25 * HOUR_S)
    await watched.loop.look()
    assert watched.world.state.drift.drifts["n2"].escalated_at


@scenario
async def test_work_on_a_node_given_up_ends_before_the_node_is_down() -> None:
    watched = await Watched("n1", "n2", "n3").begin()
    number = await watched.world.running("n2")
    await watched.drifts("n2")
    watched.world.clock.pass_s(25 * HOUR_S)
    await watched.loop.look()
    assert watched.state_of("n2") is NodeState.DRAINING
    await watched.loop.look()
    await watched.world.ended(number, "n2")
    await watched.loop.look()
    assert watched.world.node("n2").down_cause is DownCause.DRIFT


@scenario
async def test_a_sensitive_node_drains_at_once_and_is_given_up_after_four_hours() -> None:
    watched = await Watched("n1", "n2", "n3").begin()
    await watched.make_sensitive("n1", "n2", "n3")
    await watched.drifts("n2")
    assert watched.state_of("n2") is NodeState.DRAINED
    watched.world.clock.pass_s(4 * HOUR_S)
    await watched.loop.look()
    assert watched.world.node("n2").down_cause is DownCause.DRIFT


@scenario
async def test_an_ordinary_drift_turns_strict_when_its_node_becomes_sensitive() -> None:
    watched = await Watched("n1", "n2", "n3").begin()
    await watched.do(SetBaseline(baseline=Baseline(vcluster="default", fingerprint=fingerprint(OLD))))
    await watched.drifts("n2")
    await watched.do(
        SetVcluster(vcluster=Vcluster(name="hospital", scheduler=SENSITIVE, nodes=("n1", "n2", "n3")), create=True)
    )
    await watched.loop.look()
    assert watched.world.state.drift.drifts["n2"].is_sensitive
    assert watched.state_of("n2") is NodeState.DRAINED


@scenario
async def test_sensitive_work_may_not_use_what_differs_or_is_unknown() -> None:
    watched = await Watched("n1", "n2", "n3", "n4", "n5").begin()
    await watched.make_sensitive("n1", "n2", "n3", "n4", "n5")
    assert watched.loop.standing().excluded == {}
    watched.reports.forget("n3")
    await watched.drifts("n2")
    assert watched.loop.standing().excluded == {"hospital": {"n2", "n3"}}


@scenario
async def test_a_declared_baseline_bars_nodes_of_which_nothing_is_known() -> None:
    watched = await Watched("n1", "n2").begin()
    await watched.make_sensitive("n1", "n2")
    watched.reports.forget("n1")
    watched.reports.forget("n2")
    await watched.do(SetBaseline(baseline=Baseline(vcluster="hospital", fingerprint=fingerprint(OLD))))
    await watched.loop.look()
    assert watched.loop.standing().excluded == {"hospital": {"n1", "n2"}}


@scenario
async def test_a_declared_baseline_makes_the_others_differ_and_its_end_forgives_them() -> None:
    watched = await Watched("n1", "n2", "n3").begin()
    parts = tuple(sorted(NEW.items()))
    await watched.do(SetBaseline(baseline=Baseline(vcluster="default", fingerprint=fingerprint(NEW), components=parts)))
    await watched.loop.look()
    assert watched.drifted == ["n1", "n2", "n3"]
    assert watched.world.state.drift.drifts["n1"].differences[0].expected == "23"
    await watched.do(UnsetBaseline(vcluster="default"))
    await watched.loop.look()
    assert watched.drifted == []


@scenario
async def test_a_new_leader_goes_on_with_the_baseline_of_the_old_one() -> None:
    watched = await Watched("n1", "n2", "n3", "n4").begin()
    await watched.drifts("n1")
    await watched.drifts("n2")
    assert watched.drifted == ["n1", "n2"]
    again = watched.new_loop()
    await again.look()
    assert watched.drifted == ["n1", "n2"]
    assert again.verdict("n3") is not None
    assert again.verdict("n3") == watched.loop.verdict("n3")


@scenario
async def test_a_new_leader_judges_nobody_before_most_have_spoken() -> None:
    watched = await Watched("n1", "n2", "n3", "n4").begin()
    watched.reports = Reports()
    watched.reports.say("n1", NEW)
    await watched.new_loop().look()
    assert watched.drifted == []


@scenario
async def test_the_wait_ends_when_a_time_limit_is_over() -> None:
    watched = await Watched("n1", "n2", "n3").begin()
    assert watched.loop.pause_s() == 15.0
    await watched.do(SetSetting(key="conformance.drift_remediation_timeout_s", value="10"))
    await watched.drifts("n2")
    watched.world.clock.pass_s(4)
    assert watched.loop.pause_s() == 6.0


@scenario
async def test_what_the_view_tells() -> None:
    watched = await Watched("n1", "n2", "n3").begin()
    await watched.drifts("n2")
    view = watched.loop
    assert view.components_of(fingerprint(NEW)) == NEW
    assert view.components_of("f" * 64) == {}
    assert view.components("n1") == OLD
    assert view.fingerprints()["n2"] == fingerprint(NEW)
    assert list(view.majorities().values()) == [fingerprint(OLD)]
    assert view.refresh("n1")
    assert watched.reports.asked == ["n1"]
    proposed = [each for each in watched.world.replica.proposed if isinstance(each, NoteDrift)]
    assert [each.node for each in proposed] == ["n2"]


@scenario
async def test_a_sensitive_node_that_changes_without_a_baseline_has_drifted_until_it_is_approved() -> None:
    watched = await Watched("n1").begin()
    await watched.do(RaiseLevel(level=2))
    await watched.make_sensitive("n1")
    assert watched.world.state.drift.accepted["n1"].fingerprint == fingerprint(OLD)
    await watched.drifts("n1")
    assert (watched.drifted, watched.state_of("n1")) == (["n1"], NodeState.DRAINED)
    assert watched.world.state.drift.drifts["n1"].differences == (
        Difference(component="nic.firmware", expected="22", actual="23"),
    )
    assert watched.loop.standing().excluded == {"hospital": frozenset({"n1"})}
    await watched.do(ApproveNode(node="n1", is_heard=True))
    await watched.loop.look()
    await watched.loop.look()
    assert (watched.drifted, watched.state_of("n1")) == ([], NodeState.READY)
    assert watched.world.state.drift.accepted["n1"].components == tuple(sorted(NEW.items()))
    assert watched.loop.standing().excluded == {}
    await watched.drifts("n1", OLD)
    assert watched.drifted == ["n1"]


@scenario
async def test_one_of_several_sensitive_nodes_may_be_approved_though_the_others_are_the_majority() -> None:
    watched = await Watched("n1", "n2", "n3").begin()
    await watched.do(RaiseLevel(level=2))
    await watched.make_sensitive("n1", "n2", "n3")
    await watched.drifts("n1")
    await watched.do(ApproveNode(node="n1", is_heard=True))
    await watched.loop.look()
    assert (watched.drifted, watched.loop.standing().excluded) == ([], {})


@scenario
async def test_what_a_node_was_is_forgotten_with_its_sensitive_use_or_a_declared_baseline() -> None:
    watched = await Watched("n1", "n2").begin()
    await watched.do(RaiseLevel(level=2))
    await watched.make_sensitive("n1", "n2")
    await watched.do(SetVcluster(vcluster=Vcluster(name="hospital", scheduler=SENSITIVE, nodes=("n2",)), create=False))
    await watched.loop.look()
    assert list(watched.world.state.drift.accepted) == ["n2"]
    await watched.do(SetBaseline(baseline=Baseline(vcluster="hospital", fingerprint=fingerprint(OLD))))
    await watched.loop.look()
    assert watched.world.state.drift.accepted == {}
    await watched.do(UnsetBaseline(vcluster="hospital"))
    await watched.loop.look()
    assert list(watched.world.state.drift.accepted) == ["n2"]
