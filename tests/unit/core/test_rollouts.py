"""The next steps of an update: who is replaced now, when it is over, when it is taken back."""

from msgspec.structs import replace

from lattice.core.machine.commands import EndRollout, RenewInstance, TurnRollout
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.nodes.readiness import ReadinessBoard, Standing
from lattice.core.model.services.rollouts import Rollout, RolloutPhase
from lattice.core.model.work.allocations import (
    Allocation,
    AllocationState,
    Lifecycle,
    Part,
    PartPhase,
    Request,
    Restart,
)
from lattice.core.rollouts import Step, next_steps

NODES = ("n1", "n2", "n3", "n4")
AT = 1_000_000
RUNNING = PartPhase.RUNNING


def service(**changes: object) -> Allocation:
    """Four instances that are ready when they run."""
    rollout = Rollout(target=1, former=0, began_at=AT, **changes)  # type: ignore[arg-type]
    return Allocation(
        number=7,
        name="web",
        user="ada",
        account="ada",
        tenant="t",
        vcluster="v",
        request=Request(nodes=4),
        submitted_at=1,
        state=AllocationState.RUNNING,
        lifecycle=Lifecycle.UNBOUNDED,
        restart=Restart.ALWAYS,
        per_node=True,
        run=1,
        shares=tuple(Share(node=node) for node in NODES),
        parts=tuple(Part(node=node, phase=RUNNING) for node in NODES),
        revision=rollout.wanted,
        rollout=rollout,
    )


def with_phase(record: Allocation, **phases: PartPhase) -> Allocation:
    parts = tuple(replace(part, phase=phases.get(part.node, part.phase)) for part in record.parts)
    return replace(record, parts=parts)


def steps(record: Allocation, board: ReadinessBoard | None = None, after_s: float = 1) -> list[Step]:
    return next_steps(record, board or ReadinessBoard(), AT + int(after_s * 1000), AT)


def nodes(found: list[Step]) -> list[str]:
    return [step.node for step in found if isinstance(step, RenewInstance)]


def test_one_after_the_other_and_the_next_when_the_last_is_ready() -> None:
    assert nodes(steps(service())) == ["n1"]
    leaving = with_phase(service(renewing=("n1",)), n1=PartPhase.LEAVING)
    assert steps(leaving) == []
    starting = with_phase(service(updated=("n1",)), n1=PartPhase.ASSIGNED)
    assert steps(starting) == []
    assert nodes(steps(service(updated=("n1",)))) == ["n2"]


def test_several_at_a_time_when_so_many_may_be_away() -> None:
    assert nodes(steps(service(max_unavailable=3))) == ["n1", "n2", "n3"]
    half = with_phase(service(max_unavailable=3, updated=("n1",)), n1=PartPhase.ASSIGNED)
    assert nodes(steps(half)) == ["n2", "n3"]


def test_an_instance_that_takes_no_requests_goes_first_and_ready_ones_wait_for_it() -> None:
    broken = with_phase(service(), n3=PartPhase.RESTARTING)
    assert nodes(steps(broken)) == ["n3"]


def test_a_missing_instance_counts_as_away() -> None:
    fewer = service()
    fewer = replace(fewer, wanted=4, shares=fewer.shares[:3], parts=fewer.parts[:3])
    assert steps(fewer) == []


def test_it_is_over_when_all_have_it_and_are_ready() -> None:
    assert steps(service(updated=NODES)) == [EndRollout(number=7, revision=1)]
    assert steps(with_phase(service(updated=NODES), n4=PartPhase.ASSIGNED)) == []


def test_one_that_is_not_ready_in_time_takes_it_back_with_the_words_of_its_node() -> None:
    late = service(updated=("n1",), target_probed=True, ready_within_s=30)
    board = ReadinessBoard()
    board.note(7, "n1", Standing(run=1, instance=0, ready=False, text="http 503"))
    assert steps(late, board, after_s=29) == []
    (turn,) = steps(late, board, after_s=31)
    assert isinstance(turn, TurnRollout)
    assert turn.reason == "the instance on node n1 was not ready within 30 s: http 503"
    crashing = with_phase(service(updated=("n1",), ready_within_s=30), n1=PartPhase.RESTARTING)
    (turn,) = steps(crashing, after_s=31)
    assert isinstance(turn, TurnRollout)
    assert turn.reason.endswith("it ends with exit code 0")
    silent = with_phase(service(updated=("n1",), ready_within_s=30), n1=PartPhase.ASSIGNED)
    (turn,) = steps(silent, after_s=31)
    assert isinstance(turn, TurnRollout)
    assert turn.reason.endswith("within 30 s")


def test_time_before_this_server_listened_does_not_count() -> None:
    late = service(updated=("n1",), target_probed=True, ready_within_s=30)
    assert next_steps(late, ReadinessBoard(), AT + 90_000, AT + 80_000) == []
    assert next_steps(replace(late, started_at=AT + 80_000), ReadinessBoard(), AT + 90_000, AT) == []


def test_taking_back_begins_with_all_that_take_no_requests() -> None:
    back = service(phase=RolloutPhase.TAKING_BACK, updated=("n1", "n2", "n3"))
    assert nodes(steps(back)) == ["n1"]
    broken = with_phase(back, n2=PartPhase.RESTARTING, n3=PartPhase.ASSIGNED)
    assert nodes(steps(broken)) == ["n2", "n3"]
    assert nodes(steps(broken, after_s=500)) == ["n2", "n3", "n1"], "what is late does not hold the others up"


def test_taking_back_is_over_when_all_have_the_former_one_again() -> None:
    on_its_way = with_phase(service(phase=RolloutPhase.TAKING_BACK, renewing=("n1",)), n1=PartPhase.LEAVING)
    assert steps(on_its_way) == []
    assert steps(service(phase=RolloutPhase.TAKING_BACK)) == [EndRollout(number=7, revision=0)]


def test_nothing_happens_to_services_that_do_not_run_or_are_not_updated() -> None:
    assert steps(replace(service(), state=AllocationState.STARTING)) == []
    assert steps(replace(service(), rollout=None)) == []
    assert steps(service(phase=RolloutPhase.DONE)) == []
