"""What the answers to probes mean for an instance."""

from msgspec.structs import replace

from lattice.agent.machine.probes import Health, addressed, answered, begun, due, next_due_s
from lattice.ports.nodes.agents import NamedPort, RunKey, StartOrder
from lattice.ports.nodes.probes import ProbeKind, ProbeOrder, ProbeType


def probe(kind: ProbeKind, **changes: float) -> ProbeOrder:
    fields: dict[str, float] = {"period_s": 10.0, "failure_threshold": 2, **changes}
    return ProbeOrder(kind=kind, type=ProbeType.TCP, port=80, **fields)  # type: ignore[arg-type]


LIVENESS, READINESS, STARTUP = (probe(kind) for kind in (ProbeKind.LIVENESS, ProbeKind.READINESS, ProbeKind.STARTUP))


def asked(health: Health, *answers: tuple[int, str], now_s: float = 0.0) -> Health:
    for place, failure in answers:
        health = answered(health, place, failure, now_s)
    return health


def test_an_instance_without_probes_is_ready_from_its_start() -> None:
    health = begun((), 0.0)
    assert (health.ready, due(health, 99.0), next_due_s(health)) == (True, [], None)


def test_a_liveness_probe_says_nothing_of_readiness_until_it_ends_the_attempt() -> None:
    health = begun((LIVENESS,), 0.0)
    assert health.ready
    health = asked(health, (0, "no answer"))
    assert (health.ready, health.why_ended, next_due_s(health)) == (True, "", 10.0)
    health = asked(health, (0, ""), (0, "no answer"), (0, "no answer"))
    assert health.why_ended == "liveness probe failed 2 times in a row: no answer"
    assert (health.ready, due(health, 99.0), next_due_s(health)) == (False, [], None)


def test_readiness_comes_and_goes_and_never_ends_anything() -> None:
    health = begun((READINESS,), 5.0)
    assert (health.ready, due(health, 4.9), due(health, 5.0)) == (False, [], [0])
    health = asked(health, (0, ""))
    assert health.ready
    health = asked(health, (0, "503"))
    assert health.ready, "once is not too often"
    health = asked(health, (0, "503"))
    assert (health.ready, health.why_ended) == (False, "")
    assert health.text == "readiness probe failed 2 times in a row: 503"
    assert asked(health, (0, "503")).text == health.text, "nothing new"
    health = asked(health, (0, ""))
    assert (health.ready, health.text) == (True, "")


def test_as_many_successes_as_asked_for_make_it_ready() -> None:
    health = begun((probe(ProbeKind.READINESS, success_threshold=2),), 0.0)
    health = asked(health, (0, ""), (0, "no"), (0, ""))
    assert not health.ready
    assert asked(health, (0, "")).ready


def test_the_others_wait_for_the_startup_probe_which_is_not_asked_again() -> None:
    health = begun((STARTUP, LIVENESS, READINESS), 0.0)
    assert (due(health, 50.0), next_due_s(health)) == ([0], 0.0)
    health = asked(health, (0, ""), now_s=50.0)
    assert due(health, 50.0) == [1, 2]
    assert not health.ready
    health = asked(health, (2, ""), now_s=50.0)
    assert (health.ready, due(health, 50.0)) == (True, [1])


def test_a_startup_probe_that_fails_too_often_ends_the_attempt() -> None:
    health = asked(begun((STARTUP,), 0.0), (0, "refused"), (0, "refused"))
    assert health.why_ended == "startup probe failed 2 times in a row: refused"


def test_the_first_question_comes_after_its_delay() -> None:
    health = begun((probe(ProbeKind.LIVENESS, initial_delay_s=10.0),), 100.0)
    assert (due(health, 109.0), due(health, 110.0), next_due_s(health)) == ([], [0], 110.0)


def test_probes_ask_the_ports_that_the_node_chose() -> None:
    named = replace(READINESS, port=0, port_name="web")
    order = StartOrder(key=RunKey(1, 1), probes=(named, LIVENESS))
    told = addressed(order, (NamedPort(name="web", port=20_003),))
    assert [each.port for each in told.probes] == [20_003, 80]
