"""What a submission may say of a service, and how a service is shown."""

import pytest
from msgspec.structs import replace

from lattice.core.model.nodes.nodes import Share
from lattice.core.model.nodes.readiness import MAX_KEPT, ReadinessBoard, Standing
from lattice.core.model.work.allocations import (
    Allocation,
    AllocationState,
    Cause,
    Lifecycle,
    Part,
    PartPhase,
    Request,
    Restart,
)
from lattice.core.model.work.exposure import Exposed
from lattice.core.model.work.readiness import is_ready, ready_count
from lattice.ports.nodes.probes import ProbeKind, ProbeOrder, ProbeType
from lattice.wire.services.services import (
    ProbeRequest,
    RestartPolicy,
    drain_s,
    probe_views,
    probes_of,
    ready_reason,
    restart_of,
    service_view,
)
from lattice.wire.text.problems import BadField

SERVICE = Allocation(
    number=7,
    name="web",
    user="ada",
    account="ada",
    tenant="physics",
    vcluster="batch",
    request=Request(nodes=3),
    submitted_at=1,
    state=AllocationState.RUNNING,
    lifecycle=Lifecycle.UNBOUNDED,
    per_node=True,
    run=1,
    restart=Restart.ALWAYS,
    shares=(Share(node="n1"), Share(node="n2")),
    parts=(
        Part(node="n1", phase=PartPhase.RUNNING, seq=3, cause=Cause.EXIT, exit_code=4, running_since=1_000),
        Part(node="n2", phase=PartPhase.RESTARTING, seq=2, cause=Cause.SIGNAL, signal=9),
    ),
    wanted=3,
    message="the instance of node n3 moves to another node: it failed",
)


def made(**fields: object) -> ProbeOrder:
    probe = ProbeRequest(**{"probe_type": "tcp", "port": 80, **fields})  # type: ignore[arg-type]
    (order,) = probes_of([(ProbeKind.LIVENESS, probe), (ProbeKind.STARTUP, None)], Lifecycle.UNBOUNDED)
    return order


def test_a_probe_has_the_defaults_of_its_kind() -> None:
    assert made() == ProbeOrder(
        kind=ProbeKind.LIVENESS, type=ProbeType.TCP, port=80, period_s=30, initial_delay_s=10, timeout_s=5
    )
    readiness = ProbeRequest(probe_type="http", port=80)
    (order,) = probes_of([(ProbeKind.READINESS, readiness)], Lifecycle.UNBOUNDED)
    assert (order.initial_delay_s, order.path) == (0, "/")
    assert probe_views([order])[0].kind == "readiness"


def test_a_probe_may_name_a_port_that_the_service_exposes() -> None:
    exposes = (Exposed(name="web", port=8080), Exposed(name="metrics"))

    def order(**fields: object) -> ProbeOrder:
        probe = ProbeRequest(probe_type="tcp", **fields)  # type: ignore[arg-type]
        return probes_of([(ProbeKind.READINESS, probe)], Lifecycle.UNBOUNDED, exposes)[0]

    assert (order(port_name="web").port, order(port_name="web").port_name) == (8080, "")
    assert (order(port_name="metrics").port, order(port_name="metrics").port_name) == (0, "metrics")
    with pytest.raises(BadField) as unknown:
        order(port_name="wep")
    assert unknown.value.field == "readiness_probe.port_name"
    assert unknown.value.hint == "its names: web, metrics"
    with pytest.raises(BadField, match="exclude each other"):
        order(port_name="web", port=80)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"probe_type": "exec", "port": 0, "command": ["a"], "port_name": "web"}, "port_name"),
        ({"port": 0, "port_name": "web"}, "port_name"),
        ({"probe_type": "exec", "port": 0}, "command"),
        ({"probe_type": "exec", "port": 0, "command": [""]}, "command"),
        ({"probe_type": "exec", "port": 0, "command": ["a\0b"]}, "command"),
        ({"probe_type": "exec", "port": 0, "command": ["a", "b" * 5000]}, "command"),
        ({"probe_type": "exec", "command": ["a"], "port": 80}, "port"),
        ({"probe_type": "tcp", "command": ["a"], "port": 80}, "command"),
        ({"probe_type": "ping"}, "probe_type"),
        ({"port": 0}, "port"),
        ({"port": 70_000}, "port"),
        ({"path": "/x"}, "path"),
        ({"probe_type": "http", "path": "x"}, "path"),
        ({"probe_type": "http", "path": "/a b"}, "path"),
        ({"probe_type": "http", "path": "/a\r\nHost: evil"}, "path"),
        ({"probe_type": "http", "path": "/" + "a" * 3000}, "path"),
        ({"period_secs": 0}, "period_secs"),
        ({"initial_delay_secs": -1}, "initial_delay_secs"),
        ({"timeout_secs": 4000}, "timeout_secs"),
        ({"failure_threshold": 0}, "failure_threshold"),
        ({"success_threshold": 2000}, "success_threshold"),
    ],
)
def test_a_probe_that_cannot_be_meant_is_refused_by_its_field(fields: dict[str, object], field: str) -> None:
    with pytest.raises(BadField) as refused:
        made(**fields)
    assert refused.value.field == f"liveness_probe.{field}"


def test_what_is_for_services_is_refused_for_work_that_ends() -> None:
    probe = ProbeRequest(probe_type="tcp", port=80)
    for ask in (
        lambda: restart_of(RestartPolicy.ALWAYS, Lifecycle.BOUNDED),
        lambda: drain_s("5s", Lifecycle.BOUNDED),
        lambda: probes_of([(ProbeKind.LIVENESS, probe)], Lifecycle.BOUNDED),
    ):
        with pytest.raises(BadField, match="is for services"):
            ask()
    assert restart_of(None, Lifecycle.BOUNDED) is Restart.NONE
    assert restart_of(RestartPolicy.ON_FAILURE, Lifecycle.UNBOUNDED) is Restart.ON_FAILURE


def test_a_drain_has_a_default_and_a_bound() -> None:
    assert (drain_s(None, Lifecycle.BOUNDED), drain_s(None, Lifecycle.UNBOUNDED)) == (0, 30)
    assert drain_s("2m", Lifecycle.UNBOUNDED) == 120
    for text in ("2h", "soon"):
        with pytest.raises(BadField):
            drain_s(text, Lifecycle.UNBOUNDED)


def test_a_service_shows_how_many_are_ready_and_why_not_all() -> None:
    view = service_view(SERVICE, ReadinessBoard())
    assert (view.wanted, view.ready, view.restarts, len(view.instances)) == (3, 1, 1, 2)
    assert view.reason == f"an instance waits for a node: {SERVICE.message}"
    assert ready_reason(view).startswith("ready 1/3: an instance waits")
    first, second = view.instances
    assert (first.ready, first.last_cause, first.last_exit_code, first.reason) == (True, "exit", 4, "")
    assert (second.ready, second.last_signal, second.reason) == (False, 9, "is started again after signal 9")
    full = replace(SERVICE, wanted=2, request=Request(nodes=2))
    assert service_view(full, ReadinessBoard()).reason == "n2: is started again after signal 9"
    assert service_view(replace(SERVICE, state=AllocationState.PENDING), ReadinessBoard()).instances == ()


def test_readiness_is_what_the_node_says_of_this_very_instance() -> None:
    board, probed = ReadinessBoard(), replace(SERVICE, probed=True)
    part = SERVICE.parts[0]
    assert (is_ready(board, SERVICE, part), is_ready(board, probed, part)) == (True, False)
    assert service_view(probed, board).instances[0].reason == "its probes have not passed yet"
    board.note(7, "n1", Standing(run=1, instance=5, ready=True))
    assert not is_ready(board, probed, part), "that was another instance"
    board.note(7, "n1", Standing(run=1, instance=0, ready=True))
    assert (is_ready(board, probed, part), ready_count(board, probed)) == (True, 1)
    board.note(7, "n1", Standing(run=1, instance=0, ready=False, text="503"))
    assert service_view(probed, board).instances[0].reason == "503"
    assert not is_ready(board, replace(probed, state=AllocationState.STOPPING), part)


def test_the_board_keeps_no_more_than_it_may() -> None:
    board = ReadinessBoard()
    board.note(1, "n1", Standing(run=1, instance=0, ready=True))
    for number in range(2, MAX_KEPT + 2):
        board.note(number, "n1", Standing(run=1, instance=0, ready=True))
    assert board.get(1, "n1") is None
