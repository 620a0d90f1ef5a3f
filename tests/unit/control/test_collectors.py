"""The server's side of collectors: who is told what, whose word counts, and what a lost collector costs."""

from collections.abc import Iterable

from lattice.control.collectors.tree import CollectorSettings, CollectorTree
from lattice.core.model.nodes.observations import Beat, Observations
from lattice.ports.nodes.collecting import CollectingOrder, CollectOrder, ReportOrder, Share
from lattice.wire.agents.collecting import seal
from lattice.wire.pb import agent_pb2 as pb
from tests.unit.control.world import World

INTERVAL_S, TIMEOUT_S = 10.0, 30.0


class Links:
    def __init__(self) -> None:
        self.sent: list[tuple[str, CollectingOrder]] = []
        self.deaf: set[str] = set()

    def order_collecting(self, node: str, order: CollectingOrder) -> bool:
        if node not in self.deaf:
            self.sent.append((node, order))
        return node not in self.deaf


class Site:
    """Nodes that have a stream; those called c... could be collectors."""

    def __init__(self, collectors: str, *nodes: str, fan_out: int = 64) -> None:
        world = World()
        self.clock = world.clock
        self.state = world.replica.state
        self.state.settings |= {"node.collectors": collectors, "node.collector_fan_out": str(fan_out)}
        self.links = Links()
        self.observations = Observations()
        self.heard: list[tuple[str, int, float]] = []
        self.tree = CollectorTree(
            world.replica,
            self.links,
            self.observations,
            world.clock,
            CollectorSettings(interval_s=INTERVAL_S, timeout_s=TIMEOUT_S),
            self._hear,
        )
        self.open(*nodes)
        self.tree.plan()

    def _hear(self, node: str, session: int, beat: Beat, *, age_s: float = 0.0) -> bool:
        self.heard.append((node, beat.seq, age_s))
        return self.observations.hear(node, self.clock.monotonic_s() - age_s, beat)

    def open(self, *nodes: str) -> None:
        for node in nodes:
            self.observations.join(node, self.clock.monotonic_s())
            self.tree.opened(node, 1, f"{node}:7000" if node.startswith("c") else "", INTERVAL_S)

    def told(self, node: str) -> ReportOrder:
        return next(o for name, o in reversed(self.links.sent) if name == node and isinstance(o, ReportOrder))

    def gathers(self, node: str) -> set[str]:
        """The nodes whose tickets the collector was given last."""
        order = next(o for name, o in reversed(self.links.sent) if name == node and isinstance(o, CollectOrder))
        nodes = {name for name, _ in self.links.sent}
        tickets = dict(zip(order.members, order.tickets, strict=True))
        found = set()
        for name in nodes:
            told = [o for who, o in self.links.sent if who == name and isinstance(o, ReportOrder)]
            if told and tickets.get(told[-1].member) == told[-1].ticket:
                found.add(name)
        assert len(found) == len(tickets)
        return found

    def share(self, collector: str, beats: Iterable[tuple[str, int]], age_ms: int = 0) -> Share:
        rows = [(self.told(node), pb.Heartbeat(seq=seq).SerializeToString()) for node, seq in beats]
        return Share(
            collector=collector,
            members=[told.member for told, _ in rows],
            ages_ms=[age_ms for _ in rows],
            beats=[seal(told.key, beat) for told, beat in rows],
        )

    def bring_all(self, *collectors: str, seq: int) -> None:
        """A round of each of these."""
        for collector in collectors:
            nodes = [*self.gathers(collector), collector]
            plain = [(node, seq) for node in nodes if node == collector or not node.startswith("c")]
            self.tree.take(collector, [self.share(collector, plain)])


def test_without_collectors_nobody_is_told_anything() -> None:
    site = Site("", "c1", "n1")
    assert site.links.sent == []
    assert site.tree.standings() == []


def test_nodes_are_shared_out_evenly_and_collectors_hear_of_them_before_they_come() -> None:
    site = Site("c[1-2],c9", "n1", "c1", "n2", "c2", "n3", "n4")
    assert [len(site.gathers(name)) for name in ("c1", "c2")] == [2, 2]
    places = {(name, type(order)): place for place, (name, order) in enumerate(site.links.sent)}
    for node in ("n1", "n2", "n3", "n4"):
        collector = site.told(node).collector
        assert places[collector, ReportOrder] < places[collector, CollectOrder] < places[node, ReportOrder]
    told = site.told("n1")
    assert (told.address, told.interval_s) == (f"{told.collector}:7000", INTERVAL_S)
    top = site.told("c1")
    assert (top.collector, bool(top.key)) == ("", True)
    sent = len(site.links.sent)
    site.tree.plan()
    assert len(site.links.sent) == sent  # nothing changed, nobody is told


def test_sealed_heartbeats_of_the_share_are_heard_with_their_age() -> None:
    site = Site("c1", "c1", "n1")
    site.clock.pass_s(20)
    site.tree.take("c1", [site.share("c1", [("n1", 5), ("c1", 2)], age_ms=1500)])
    assert site.heard == [("n1", 5, 1.5), ("c1", 2, 1.5)]
    observation = site.observations.get("n1")
    assert observation is not None
    assert site.clock.monotonic_s() - observation.last_heard == 1.5
    assert site.observations.via == {"n1": "c1", "c1": ""}
    assert site.tree.counts["taken"] == 2
    site.tree.heard_directly("n1")
    assert "n1" not in site.observations.via


def test_what_a_collector_may_not_say_is_refused_and_counted() -> None:
    site = Site("c[1-2]", "c1", "c2", "n1", "n2")
    other = {"c1": "c2", "c2": "c1"}[site.told("n1").collector]
    own = site.told("n1").collector
    good = site.share(own, [("n1", 1)])
    site.tree.take(other, [Share(collector=other, members=good.members, ages_ms=[0], beats=good.beats)])
    site.tree.take(other, [good])  # in another's name
    site.tree.take("n2", [good])  # no collector at all
    site.tree.take(own, [Share(collector="c9", members=[1], ages_ms=[0], beats=[b""])])
    site.tree.take(own, [Share(collector=own, members=[12345], ages_ms=[0], beats=good.beats)])
    assert site.tree.counts["refused"] == 5
    beat = pb.Heartbeat(seq=9).SerializeToString()
    for forged in (seal(b"a key of its own", beat), b"", b"short", good.beats[0][:-1]):
        site.tree.take(own, [Share(collector=own, members=good.members, ages_ms=[0], beats=[forged])])
    nonsense = seal(site.told("n1").key, b"\xff\xff\xff")
    site.tree.take(own, [Share(collector=own, members=good.members, ages_ms=[0], beats=[nonsense])])
    assert site.tree.counts["forged"] == 5
    assert site.heard == []


def test_a_collector_that_floods_the_server_is_heard_a_few_times_only() -> None:
    site = Site("c1", "c1", "n1")
    share = site.share("c1", [("n1", 1)])
    taken = [site.tree.take("c1", [share]) for _ in range(50)]
    assert taken == [True] * 20 + [False] * 30
    assert site.tree.counts["surplus"] == 30
    site.clock.pass_s(5)
    assert site.tree.take("c1", [share])
    huge = Share(collector="c1", members=[1] * 1000, ages_ms=[0] * 1000, beats=[b""] * 1000)
    assert site.tree.take("c1", [huge])
    assert site.tree.counts["refused"] == 1000


def test_a_collector_that_is_told_to_bring_more_often_is_heard_as_often() -> None:
    site = Site("c1", "c1")
    site.state.settings["node.heartbeat_interval_s"] = "0.5"
    taken = 0
    for _ in range(100):
        site.clock.pass_s(0.5)
        taken += site.tree.take("c1", [])
    assert taken >= 99


def test_a_lost_collector_costs_its_nodes_nothing_and_they_are_shared_out_again() -> None:
    site = Site("c[1-3]", "c1", "c2", "c3", *(f"n{number}" for number in range(9)))
    lost = site.gathers("c1")
    assert len(lost) == 3
    kept = {node: site.told(node) for node in (f"n{number}" for number in range(9)) if node not in lost}
    before = {node: site.told(node) for node in lost}
    site.clock.pass_s(25)
    site.tree.closed("c1")
    site.tree.plan()
    assert {len(site.gathers("c2")), len(site.gathers("c3"))} == {4, 5}
    for node in lost:
        observation = site.observations.get(node)
        assert observation is not None
        assert observation.last_heard == site.clock.monotonic_s()
        assert site.told(node).collector in ("c2", "c3")
    assert all(site.told(node) == order for node, order in kept.items())
    # What is still under way under the former assignment does not count.
    late = before[next(iter(lost))]
    beat = seal(late.key, pb.Heartbeat(seq=50).SerializeToString())
    site.tree.take("c2", [Share(collector="c2", members=[late.member], ages_ms=[0], beats=[beat])])
    assert (site.heard, site.tree.counts["refused"]) == ([], 1)


def test_a_collector_that_returns_gets_a_share_again_and_few_nodes_move() -> None:
    site = Site("c[1-2]", "c1", "c2", *(f"n{number}" for number in range(8)))
    site.tree.closed("c1")
    site.tree.plan()
    assert len(site.gathers("c2")) == 8
    before = {f"n{number}": site.told(f"n{number}") for number in range(8)}
    site.open("c1")
    site.tree.plan()
    assert (len(site.gathers("c1")), len(site.gathers("c2"))) == (4, 4)
    assert sum(site.told(node) != order for node, order in before.items()) == 4


def test_a_collector_that_brings_nothing_is_set_aside_until_it_is_heard_again() -> None:
    site = Site("c[1-2]", "c1", "c2", "n1", "n2")
    for seq in range(1, 21):
        site.clock.pass_s(1)
        site.tree.look(site.clock.monotonic_s())
        site.bring_all("c2", seq=seq)
    assert site.tree.suspended == set()
    site.clock.pass_s(1)
    site.tree.look(site.clock.monotonic_s())
    assert site.tree.suspended == {"c1"}
    assert site.tree.counts["lost"] == 1
    site.tree.plan()
    assert site.gathers("c2") == {"n1", "n2"}
    assert site.gathers("c1") == set()
    assert site.told("c1").interval_s == 0  # to say once that it is there, and to wait
    site.tree.heard_directly("c1")
    site.tree.plan()
    assert (len(site.gathers("c1")), len(site.gathers("c2"))) == (1, 1)
    assert site.told("c1").interval_s == INTERVAL_S
    site.state.settings["node.collectors"] = "c2"
    site.tree.look(site.clock.monotonic_s())
    site.tree.plan()
    assert site.gathers("c2") == {"n1", "n2", "c1"}


def test_only_its_own_heartbeat_says_that_a_collector_lives() -> None:
    site = Site("c[1-3]", "c1", "c2", "c3", "n1", fan_out=1)
    below = next(name for name in ("c2", "c3") if site.told(name).collector == "c1")
    recorded = site.share(below, [(below, 1)])
    for seq in range(1, 25):
        site.clock.pass_s(1)
        site.tree.look(site.clock.monotonic_s())
        # The one above, or whoever brings it something, says that the other goes on; and repeats what it said once.
        empty = Share(collector=below, members=[], ages_ms=[], beats=[])
        site.tree.take("c1", [empty, recorded, site.share("c1", [("c1", seq)])])
    assert below in site.tree.suspended


def test_a_heartbeat_counts_once_in_a_message() -> None:
    site = Site("c1", "c1", "n1")
    good = site.share("c1", [("n1", 1)])
    many = Share(collector="c1", members=[*good.members] * 2, ages_ms=[0, 0], beats=[b"forged", *good.beats])
    site.tree.take("c1", [many, many])
    assert (site.tree.counts["forged"], site.tree.counts["refused"]) == (1, 3)


def test_a_node_that_its_collector_says_nothing_of_is_asked_itself_before_it_is_silent() -> None:
    site = Site("c1", "c1", "n1", "n2")
    for seq in range(1, 27):
        site.clock.pass_s(1)
        site.tree.take("c1", [site.share("c1", [("n2", seq), ("c1", seq)])])
        site.tree.look(site.clock.monotonic_s())
    assert site.tree.unreported.unheard_through == {"n1": "c1"}
    assert site.tree.counts["unreported_node"] == 1
    site.tree.plan()
    assert (site.told("n1").collector, site.told("n1").interval_s) == ("", INTERVAL_S)
    assert site.gathers("c1") == {"n2"}
    site.tree.plan()
    assert site.gathers("c1") == {"n2"}  # not at the next change either
    for seq in range(27, 400):  # and is tried again some day
        site.clock.pass_s(1)
        site.tree.take("c1", [site.share("c1", [("n2", seq), ("c1", seq)])])
        site.observations.touch("n1", site.clock.monotonic_s())
        site.tree.look(site.clock.monotonic_s())
    site.tree.plan()
    assert site.gathers("c1") == {"n1", "n2"}


def test_nobody_has_gone_astray_when_the_server_was_held_up_or_the_collector_is_another() -> None:
    site = Site("c[1-2]", "c1", "c2", "n1", "n2")
    site.clock.pass_s(60)
    site.tree.look(site.clock.monotonic_s())
    assert site.tree.unreported.count == 0
    for seq in range(1, 27):
        site.clock.pass_s(1)
        site.tree.take("c1", [site.share("c1", [("c1", seq)])])
        site.tree.take("c2", [site.share("c2", [("c2", seq)])])
        site.tree.look(site.clock.monotonic_s())
    assert site.tree.unreported.count == 2
    site.tree.closed("c1")
    site.tree.plan()
    assert len(site.tree.unreported.unheard_through) == 1  # the other one's collector is gone
    site.open("n1", "n2")
    assert not site.tree.unreported.unheard_through


def test_a_server_that_was_held_up_blames_no_collector() -> None:
    site = Site("c1", "c1", "n1")
    site.clock.pass_s(60)
    site.tree.look(site.clock.monotonic_s())
    assert site.tree.suspended == set()


def test_no_collectors_any_more_means_that_every_node_reports_itself() -> None:
    site = Site("c1", "c1", "n1")
    site.state.settings["node.collectors"] = ""
    site.tree.look(site.clock.monotonic_s())
    site.tree.plan()
    assert site.gathers("c1") == set()
    for node in ("c1", "n1"):
        told = site.told(node)
        assert (told.collector, told.key, told.interval_s) == ("", b"", INTERVAL_S)
    assert site.tree.standings() == []


def test_a_collector_without_members_is_told_to_stop_as_well() -> None:
    site = Site("c[1-2]", "c1", "c2", "n1")
    idle = next(name for name in ("c1", "c2") if not site.gathers(name))
    other = {"c1": "c2", "c2": "c1"}[idle]
    site.state.settings["node.collectors"] = other
    site.links.deaf = {idle}
    site.tree.plan()
    site.links.deaf = set()
    site.tree.plan()
    order = next(o for name, o in reversed(site.links.sent) if name == idle and isinstance(o, CollectOrder))
    assert order.interval_s == 0
    assert site.gathers(other) == {"n1", idle}
    assert site.told(idle).collector == other


def test_a_new_interval_is_told_to_all() -> None:
    site = Site("c1", "c1", "n1")
    site.state.settings["node.heartbeat_interval_s"] = "5"
    site.tree.plan()
    assert (site.told("n1").interval_s, site.told("c1").interval_s) == (5, 5)
    site.state.settings["node.heartbeat_interval_s"] = "0"  # once, on request: nothing to gather
    site.tree.plan()
    assert (site.told("n1").collector, site.told("n1").interval_s) == ("", 0)


def test_a_new_interval_reaches_nodes_that_have_no_collector() -> None:
    site = Site("", "n1")
    site.state.settings["node.heartbeat_interval_s"] = "3"
    site.tree.look(site.clock.monotonic_s())
    site.tree.plan()
    assert (site.told("n1").collector, site.told("n1").interval_s) == ("", 3)


def test_nodes_that_report_once_and_wait_are_asked_well_before_their_time_out() -> None:
    site = Site("", "n1")
    site.state.settings["node.heartbeat_interval_s"] = "0"
    site.tree.plan()
    asked = 0
    for _ in range(60):
        site.clock.pass_s(1)
        site.links.sent.clear()
        site.tree.look(site.clock.monotonic_s())
        asked += len(site.links.sent)
        assert all(o == ReportOrder(generation=o.generation, interval_s=0.0) for _, o in site.links.sent)
    assert asked == 5


def test_more_collectors_than_the_limit_stand_above_each_other() -> None:
    site = Site("c[1-3]", "c1", "c2", "c3", "n1", "n2", "n3", fan_out=2)
    through = {row.collector: row.through for row in site.tree.standings()}
    assert through == {"c1": "", "c2": "", "c3": "c1"}
    low = site.told("c3")
    assert (low.collector, low.address) == ("c1", "c1:7000")
    assert "c3" in site.gathers("c1")
    (node,) = site.gathers("c3")
    share = site.share("c3", [(node, 1), ("c3", 1)])
    site.tree.take("c2", [share])
    assert site.heard == []
    site.tree.take("c1", [share])
    assert [name for name, _, _ in site.heard] == [node, "c3"]
    assert site.observations.via == {node: "c3", "c3": "c1"}
    site.tree.closed("c1")
    site.tree.take("c3", [site.share("c3", [(node, 2)])])  # it brings its share itself
    assert site.heard[-1][:2] == (node, 2)
    site.tree.plan()
    assert {row.collector: row.through for row in site.tree.standings()} == {"c2": "", "c3": ""}


def test_a_collector_that_becomes_a_plain_member_of_the_same_one_is_heard_in_its_share() -> None:
    site = Site("c[1-3]", "c1", "c2", "c3", fan_out=2)
    assert site.told("c3").collector == "c1"
    site.state.settings["node.collectors"] = "c1"
    site.tree.plan()
    site.tree.take("c1", [site.share("c1", [("c3", 1), ("c2", 1)])])
    assert [name for name, _, _ in site.heard] == ["c3", "c2"]


def test_who_cannot_be_told_now_is_told_at_the_next_plan() -> None:
    site = Site("c1", "c1")
    site.links.deaf = {"n1", "c1"}
    site.open("n1")
    site.tree.plan()
    site.links.deaf = set()
    site.tree.plan()
    assert site.gathers("c1") == {"n1"}
    assert site.told("n1").collector == "c1"


def test_a_new_leader_begins_with_an_empty_tree() -> None:
    site = Site("c1", "c1", "n1")
    site.tree.reset()
    assert site.tree.standings() == []
    site.tree.take("c1", [site.share("c1", [("n1", 1)])])
    assert site.heard == []
