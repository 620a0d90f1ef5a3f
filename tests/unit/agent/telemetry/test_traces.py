"""Samples of mode debug in the object store: of runs, in that mode alone, and never more waiting than fits."""

import asyncio
import json
from pathlib import Path

import pytest
import zstandard

from lattice.agent.runs.signed_store import ChunkSink
from lattice.agent.telemetry import traces
from lattice.agent.telemetry.traces import DebugTraces
from lattice.core.model.telemetry.modes import Mode
from lattice.integrations.directory.store import DirectoryStore
from lattice.ports.nodes.agents import StartOrder
from lattice.ports.quorum.object_store import ObjectStoreError
from tests.unit.agent.telemetry.test_collecting import RUN, Rig

ORDER = StartOrder(key=RUN, cpus=2, allocation_id="a7", output_prefix="physics/sim/a7/logs/run-1")


class Away:
    async def put(self, name: str, data: bytes) -> None:
        raise ObjectStoreError("away")


class Kept(Rig):
    def __init__(self, folder: Path, *, is_away: bool = False) -> None:
        super().__init__(folder)
        object.__setattr__(self.collector._around, "order_of", lambda key: ORDER)
        self.store = DirectoryStore(folder / "objects")
        self.traces = DebugTraces(self.collector, ChunkSink(Away() if is_away else self.store), "n1")

    async def seconds(self, count: int) -> None:
        for turn in range(count):
            await self.step(turn * 1_500_000)

    async def names(self) -> list[str]:
        return [name async for name in self.store.names("")]


def test_samples_of_a_run_in_mode_debug_are_stored_as_compressed_lines(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Kept(tmp_path)
        await rig.seconds(3)
        rig.collector.targets[RUN].set_mode(Mode.DEBUG, 1000)
        await rig.seconds(3)
        await rig.traces.turn()
        assert await rig.names() == [], "ten seconds share an object"
        await rig.seconds(10)
        await rig.traces.turn()
        (name,) = await rig.names()
        folder, _, last = name.rpartition("/")
        assert folder == "physics/sim/a7/telemetry/run-1/n1"
        packed = await rig.store.get(name)
        lines = [json.loads(line) for line in zstandard.ZstdDecompressor().decompress(packed).splitlines()]
        times = [line["at_ms"] for line in lines]
        assert times == sorted(times)
        assert last == f"{times[0]:015d}.jsonl.zst"
        assert lines[-1]["interval_ms"] == 1000
        assert "cpus_used" in lines[-1]["figures"]
        assert "load1" not in lines[-1]["figures"], "that is of the node"
        rig.collector.targets[RUN].set_mode(Mode.PROD, 1000)
        await rig.seconds(40)
        await rig.traces.turn()
        assert await rig.names() == [name]

    asyncio.run(scenario())


def test_the_last_lines_of_a_run_are_stored_when_it_ends(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Kept(tmp_path)
        await rig.seconds(1)
        rig.collector.targets[RUN].set_mode(Mode.DEBUG, 1000)
        await rig.seconds(3)
        rig.lives = False
        await rig.step(0)
        await rig.traces.turn()
        assert len(await rig.names()) == 1
        assert rig.traces._traces == {}

    asyncio.run(scenario())


def test_a_store_that_is_away_costs_the_oldest_lines_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(traces.DebugTraces, "kept_bytes", 2000)
        rig = Kept(tmp_path, is_away=True)
        await rig.seconds(1)
        rig.collector.targets[RUN].set_mode(Mode.DEBUG, 1000)
        await rig.seconds(60)
        with pytest.raises(ObjectStoreError):
            await rig.traces.turn()
        trace = rig.traces._traces[RUN]
        assert 0 < trace.size <= 2000
        assert trace.size == sum(len(line) for _, line in trace.lines)
        assert rig.traces.dropped > 0

    asyncio.run(scenario())
