"""Simulated nodes have figures, too: made up, but the same for all who ask, and pushed as real ones are."""

import asyncio

from lattice.agent.hollow.telemetry import HollowPush, answer, made_up
from lattice.agent.messages import NodeFacts
from lattice.agent.telemetry.push.requests import PushSettings
from lattice.core.model.telemetry.catalogue import METRICS
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.telemetry import TelemetryAsk

NOW = 1_772_700_012_345
KEY = RunKey(7, 1)
FACTS = NodeFacts(
    node_id="hollow-1",
    address="",
    boot_id="b",
    cpus=64,
    memory_mb=1024,
    gpus=2,
    gpu_type="h200",
    group="g1",
    features=(),
    runs_as_root=True,
    agent_user="",
)


def test_figures_are_those_of_the_catalogue_and_repeat() -> None:
    found = made_up(FACTS, NOW, of_node=True)
    assert {metric for metric, _ in found} <= METRICS.keys()
    assert found == made_up(FACTS, NOW, of_node=True)
    assert 0 < found["cpus_used", ""].mean < 64
    assert {device for metric, device in found if metric == "gpu_utilization"} == {"0", "1"}


def test_a_simulated_node_answers_for_itself_and_its_runs_and_for_nothing_else() -> None:
    told = answer(FACTS, [KEY], TelemetryAsk(key=KEY, since_ms=NOW - 120_000, metrics=("cpus_used",)), NOW)
    (series,) = told.series
    assert (told.sources, series.metric, len(series.at_ms)) == (("made up",), "cpus_used", 5)
    whole = answer(FACTS, [], TelemetryAsk(since_ms=0), NOW)
    assert max(len(each.at_ms) for each in whole.series) == 121, "an hour at most"
    assert "not measured" in answer(FACTS, [], TelemetryAsk(key=KEY), NOW).error
    assert "streams no figures" in answer(FACTS, [KEY], TelemetryAsk(key=KEY, follow=True), NOW).error


def test_windows_are_pushed_as_those_of_agents() -> None:
    async def scenario() -> None:
        bodies: list[bytes] = []
        push = HollowPush([FACTS], PushSettings(endpoint="http://store", node="x"), bodies.append)
        push.pusher.offer(push.samples(FACTS, push._clock.now_ms()))
        while push.pusher._waiting:
            assert await push.pusher.push_batch()
        assert push.pusher.dropped == 0
        assert b"lattice_node_cpus_used" in bodies[0]
        assert b"hollow-1" in bodies[0]

    asyncio.run(scenario())
