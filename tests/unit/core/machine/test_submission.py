"""Submissions: what is refused, with which words, and what is remembered."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine.levels import NEWEST, OLDEST
from lattice.core.machine.outcomes import Accepted, Rejected
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.site.tenants import SENSITIVE, Demands, NodeSharing, OnQuota, Project, Tenant, Vcluster
from lattice.core.model.work.allocations import AllocationState, Hold, Lifecycle, Request, RequeuePolicy
from lattice.core.model.work.asked import Asked
from tests.unit.core.machine.world import World


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"tenant": "nobody"}, "not_found", 'unknown tenant "nobody"'),
        ({"vcluster": "moon"}, "not_found", 'unknown vCluster "moon"'),
        ({"nodes": 0}, "invalid", "at least 1"),
        ({"request": Request(nodes=3, max_nodes=2)}, "invalid", "range must rise"),
        ({"request": Request(cpus=-1)}, "invalid", "negative"),
        ({"preemption_class": 11}, "invalid", "between 0 and 10"),
        ({"max_requeue": 101}, "invalid", "between 0 and 100"),
        ({"walltime_s": -5}, "invalid", "positive"),
        ({"idle_end_s": -5}, "invalid", "positive"),
        ({"tasks": ((5, 1, 1),)}, "invalid", "must rise"),
        ({"tasks": ((0, 200_000, 1),)}, "invalid", "at most 100000 tasks"),
        ({"nodes": 4}, "infeasible", "not enough nodes"),
        ({"request": Request(gpu_type="GH200")}, "infeasible", "not enough nodes"),
        ({"request": Request(nodes=3, exclude=("n1",))}, "infeasible", "not enough nodes"),
        ({"request": Request(nodes=2, node_list=("n1",))}, "infeasible", "not enough nodes"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, object], code: str, words: str) -> None:
    world = World()
    refusal = world.refused(world.submission(**changes))
    assert refusal.code == code
    assert words in refusal.message
    assert world.state.next_number == 1


def test_an_infeasible_request_is_told_what_there_is() -> None:
    refusal = World().refused(World().submission(request=Request(nodes=2, gpus=1, features=("nvme",))))
    assert (refusal.current, refusal.limit) == ("0 of 3 nodes match", "0 nodes")
    assert refusal.requested == "2 nodes with gpus=1, features=nvme"


def test_a_machine_without_nodes_accepts_everything() -> None:
    world = World(nodes=0)
    assert world[world.submit(nodes=50)].state is AllocationState.PENDING


def test_unknown_names_come_with_the_known_ones() -> None:
    world = World()
    assert world.refused(world.submission(tenant="x")).hint == "Known: physics."
    world.must(cmd.SetProject(project=Project(tenant="physics", name="higgs"), create=True))
    assert world.refused(world.submission(project="x")).hint == "Known: higgs."
    assert world[world.submit(project="higgs")].project == "higgs"


def test_limits_of_the_vcluster_hold() -> None:
    world = World(max_nodes=2, max_walltime_s=7200, tenants=("physics",))
    assert "at most 2 nodes" in world.refused(world.submission(nodes=3)).message
    refusal = world.refused(world.submission(walltime_s=9000))
    assert (refusal.requested, refusal.limit) == ("02:30:00", "02:00:00")
    assert world[world.submit()].walltime_s == 3600
    world.must(cmd.SetTenant(tenant=Tenant(name="ml"), create=True))
    assert world.refused(world.submission(tenant="ml")).code == "forbidden"


def test_what_a_slurm_command_asks_for_waits_where_others_are_refused() -> None:
    world = World()
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="batch", max_walltime_s=60)))
    number = world.submit(request=Request(nodes=99), walltime_s=3600, asked=Asked(partition="main", ntasks=4))
    assert world[number].state is AllocationState.PENDING
    assert world[number].asked == Asked(partition="main", ntasks=4)
    assert world.refused(world.submission(walltime_s=3600)).code == "infeasible"


def test_the_longest_walltime_holds_where_there_is_no_usual_one() -> None:
    world = World()
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="batch", max_walltime_s=60)))
    assert world[world.submit()].walltime_s == 60


def test_services_have_no_default_walltime_and_start_on_every_node() -> None:
    world = World()
    record = world[world.submit(lifecycle=Lifecycle.UNBOUNDED)]
    assert (record.walltime_s, record.per_node) == (0, True)


def test_a_tenant_has_a_highest_class_and_a_queue_limit_per_user() -> None:
    world = World()
    world.must(cmd.SetTenant(tenant=Tenant(name="physics", max_class=5, max_pending_per_user=2)))
    assert world.refused(world.submission(preemption_class=6)).limit == "class 5"
    world.submit()
    refusal = world.refused(world.submission(tasks=((0, 1, 1),)))
    assert (refusal.current, refusal.requested) == ("1 pending", "2 more")
    world.submit(user="bob")


def test_a_hard_quota_refuses_what_does_not_fit_now_and_may_be_told_to_queue() -> None:
    world = World()
    world.must(cmd.SetTenant(tenant=Tenant(name="physics", max_nodes=2)))
    running = world.running("n1")
    refusal = world.refused(world.submission(nodes=2))
    assert (refusal.current, refusal.requested, refusal.limit) == ("1 nodes in use", "2 additional nodes", "2 nodes")
    assert refusal.message == 'allocation rejected: tenant "physics" would exceed max_nodes quota'
    assert world.refused(world.submission(nodes=3, queue_on_quota=True)).limit == "2 nodes", "it can never fit"
    waiting = world.submit(nodes=2, queue_on_quota=True)
    place = cmd.PlaceAllocation(number=waiting, run=1, shares=(Share(node="n2"), Share(node="n3")))
    assert world.refused(place).code == "quota"
    world.ended(running, "n1")
    world.must(place)
    world.must(cmd.SetTenant(tenant=Tenant(name="physics", max_nodes=1, on_quota=OnQuota.QUEUE)))
    assert world.state.use_of("physics").nodes == 2, "a smaller quota takes nothing away"
    world.submit()


def test_the_number_of_concurrent_allocations_is_a_hard_quota_too() -> None:
    world = World()
    world.must(cmd.SetTenant(tenant=Tenant(name="physics", max_concurrent_allocations=1)))
    world.running("n1")
    assert world.refused(world.submission()).limit == "1 allocations"
    world.must(cmd.SetTenant(tenant=Tenant(name="physics", max_concurrent_allocations=0)))
    assert world.refused(world.submission(queue_on_quota=True)).limit == "0 allocations"


def test_users_and_projects_have_limits_when_placed() -> None:
    world = World()
    world.must(cmd.SetTenant(tenant=Tenant(name="physics", max_running_per_user=1)))
    world.must(cmd.SetProject(project=Project(tenant="physics", name="p", max_nodes=1), create=True))
    world.running("n1", project="p")
    second = world.submit()
    refusal = world.refused(cmd.PlaceAllocation(number=second, run=1, shares=(Share(node="n2"),)))
    assert (refusal.code, refusal.limit) == ("quota", "1 running")
    third = world.submit(user="bob", project="p")
    refusal = world.refused(cmd.PlaceAllocation(number=third, run=1, shares=(Share(node="n2"),)))
    assert (refusal.current, refusal.limit) == ("1 nodes in use", "1 nodes")


def test_shares_never_exceed_a_node_and_stay_in_one_vcluster() -> None:
    world = World(nodes=1, node_sharing=NodeSharing.SHARED)
    other = Vcluster(name="other", node_sharing=NodeSharing.SHARED)
    world.must(cmd.SetVcluster(vcluster=other, create=True))
    numbers = [world.submit(request=Request(cpus=2, memory_mb=1024)) for _ in range(3)]
    share = Share(node="n1", whole=False, cpus=2, memory_mb=1024)
    stranger = world.submit(vcluster="other", request=Request(cpus=1, memory_mb=1))
    world.must(cmd.PlaceAllocation(number=numbers[0], run=1, shares=(share,)))
    assert world.state.use_of("physics").nodes == 1
    foreign = Share(node="n1", whole=False, cpus=1, memory_mb=1)
    assert world.refused(cmd.PlaceAllocation(number=stranger, run=1, shares=(foreign,))).code == "stale"
    world.must(cmd.PlaceAllocation(number=numbers[1], run=1, shares=(share,)))
    assert world.state.use_of("physics").nodes == 1, "one node, however many shares"
    assert world.refused(cmd.PlaceAllocation(number=numbers[2], run=1, shares=(share,))).code == "stale"
    whole = cmd.PlaceAllocation(number=numbers[2], run=1, shares=(Share(node="n1"),))
    assert world.refused(whole).code == "stale"


@pytest.mark.parametrize(
    "shares",
    [(), ("n1", "n1"), ("n1", "n2", "n3"), ("n9",)],
    ids=["none", "twice", "too many", "unknown"],
)
def test_a_proposal_that_does_not_hold_is_refused_as_stale(shares: tuple[str, ...]) -> None:
    world = World()
    number = world.submit(request=Request(nodes=1, max_nodes=2))
    proposal = cmd.PlaceAllocation(number=number, run=1, shares=tuple(Share(node=n) for n in shares))
    assert world.refused(proposal).code == "stale"


def test_a_node_is_never_given_twice_nor_a_run_started_twice() -> None:
    world = World()
    first, second = world.submit(), world.submit()
    world.place(first, "n1")
    assert world.refused(cmd.PlaceAllocation(number=second, run=1, shares=(Share(node="n1"),))).code == "stale"
    assert world.refused(cmd.PlaceAllocation(number=first, run=2, shares=(Share(node="n2"),))).code == "stale"
    assert world.refused(cmd.PlaceAllocation(number=second, run=2, shares=(Share(node="n2"),))).code == "stale"
    held = world.submit(hold=Hold.USER)
    assert world.refused(cmd.PlaceAllocation(number=held, run=1, shares=(Share(node="n2"),))).code == "stale"
    assert world.refused(cmd.PlaceAllocation(number=99, run=1, shares=(Share(node="n2"),))).code == "stale"
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="batch", is_up=False)))
    assert "is down" in world.refused(cmd.PlaceAllocation(number=second, run=1, shares=(Share(node="n2"),))).message


def test_a_repeated_request_gets_the_first_answer_and_another_one_under_its_id_is_refused() -> None:
    world = World()
    first = world.do(world.submission(), command_id="ada/1")
    again = world.do(world.submission(), command_id="ada/1")
    assert isinstance(first, Accepted)
    assert again == Accepted(number=first.number, repeated=True)
    other = world.do(world.submission(name="other"), command_id="ada/1")
    assert isinstance(other, Rejected)
    assert other.code == "conflict"
    refused = world.do(world.submission(nodes=9), command_id="ada/2")
    assert world.do(world.submission(nodes=9), command_id="ada/2") == refused


def test_the_memory_of_requests_is_bounded_by_age() -> None:
    world = World()
    world.do(world.submission(), command_id="ada/1")
    world.at += 180_001
    world.do(world.submission(), command_id="ada/2")
    assert list(world.state.recent) == ["ada/2"]
    repeated = world.do(world.submission(), command_id="ada/1")
    assert isinstance(repeated, Accepted)
    assert not repeated.repeated


def test_time_never_runs_backwards() -> None:
    world = World()
    world.at -= 10
    with pytest.raises(AssertionError, match="backwards"):
        world.do(world.submission())


def test_sensitive_work_gets_its_nodes_at_once_or_is_refused_with_names() -> None:
    world = World(scheduler="sensitive-reservation")
    first = world.submit(nodes=2)
    world.place(first, "n1", "n2")
    refusal = world.refused(world.submission(nodes=2, user="bob"))
    assert (refusal.code, refusal.requested) == ("conflict", "2 nodes")
    assert refusal.message.startswith("OwnershipConflict")
    assert refusal.current == "1 of 3 suitable nodes free; held: n1 by ada, n2 by ada"
    world.do(cmd.SetTenant(tenant=Tenant(name="elsewhere"), create=True))
    others = world.refused(world.submission(nodes=2, user="eve", tenant="elsewhere"))
    assert others.current == "1 of 3 suitable nodes free; held: n1, n2", "no names for other tenants"
    world.submit(user="bob")
    assert world.refused(world.submission(tasks=((0, 1, 1),))).code == "conflict"


@pytest.mark.parametrize(
    ("level", "away", "hint"), [(OLDEST, "", "Ask the users named"), (NEWEST, "; out of service: n1 (Drained)", "Request fewer nodes")]
)  # fmt: skip
def test_a_drained_node_is_not_said_to_be_held(level: int, away: str, hint: str) -> None:
    world = World(scheduler="sensitive-reservation", level=level)
    world.do(cmd.DrainNode(node="n1", reason="a fan"))
    refusal = world.refused(world.submission(nodes=3))
    assert refusal.current == f"2 of 3 suitable nodes free; held: none{away}"
    assert refusal.hint.startswith(hint)
    world.place(world.submit(nodes=1), "n2")
    assert world.refused(world.submission(nodes=3)).hint.startswith("Ask the users named")


SESSION = {"session": True, "requeue": RequeuePolicy.NEVER, "walltime_s": 3600}


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"lifecycle": Lifecycle.UNBOUNDED}, "invalid", "a session is bounded"),
        ({"tasks": ((0, 3, 1),)}, "invalid", "one allocation"),
        ({"per_node": True}, "invalid", "starts on its first node"),
        ({"requeue": RequeuePolicy.ALWAYS}, "invalid", "not run again"),
        ({"walltime_s": 0, "vcluster": "endless"}, "invalid", "needs a walltime"),
        ({"vcluster": "clinic"}, "forbidden", "recorded"),
    ],
)
def test_a_session_that_cannot_be_is_refused(changes: dict[str, object], code: str, words: str) -> None:
    world = World()
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="clinic", scheduler=SENSITIVE), create=True))
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="endless"), create=True))
    refusal = world.refused(world.submission(**{**SESSION, **changes}))
    assert (refusal.code, words in refusal.message) == (code, True), refusal


def test_a_session_is_bounded_by_itself_or_by_its_vcluster() -> None:
    world = World()
    assert world[world.submit(**SESSION)].session
    for limited in (Vcluster(name="usual", default_walltime_s=60), Vcluster(name="most", max_walltime_s=60)):
        world.must(cmd.SetVcluster(vcluster=limited, create=True))
        record = world[world.submit(**{**SESSION, "walltime_s": 0, "vcluster": limited.name})]
        assert (record.session, record.walltime_s) == (True, 60)


def test_servers_of_the_release_before_know_no_sessions() -> None:
    world = World(level=OLDEST)
    assert "session of submit allocation" in world.refused(world.submission(**SESSION)).message


def test_sessions_end_when_idle_as_they_or_their_vcluster_say_and_other_work_only_as_it_says() -> None:
    world = World()
    world.must(
        cmd.SetVcluster(
            vcluster=Vcluster(name="desk", default_walltime_s=60, demands=Demands(idle_end_s=900)), create=True
        )
    )
    assert world[world.submit(**SESSION, vcluster="desk")].idle_end_s == 900
    assert world[world.submit(**SESSION, vcluster="desk", idle_end_s=600)].idle_end_s == 600
    assert world[world.submit(vcluster="desk")].idle_end_s == 0
    assert world[world.submit(vcluster="desk", idle_end_s=700)].idle_end_s == 700
