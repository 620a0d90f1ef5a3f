"""GPUs are measured by a helper process: what it says is shown for the run that has them, and what it does not say is not."""

import asyncio
import sys
from types import SimpleNamespace

from lattice.agent.telemetry.collector import Target
from lattice.agent.telemetry.gpus import STALE_S, GpuSource
from lattice.agent.telemetry.sources import nvml_stream
from lattice.ports.nodes.agents import RunKey
from lattice.testing import eventually

LINE = b'{"0": {"gpu_utilization": 55.0, "gpu_power_draw": 300.5, "speed": 1}, "1": {"gpu_utilization": 0.0}}\n'
NODE = Target(None, 4.0)


def test_a_run_sees_its_own_gpus_and_the_node_all() -> None:
    now = [0.0]
    source = GpuSource(2, now_s=lambda: now[0])
    assert source.figures(NODE) == {}
    source.take(b"not json")
    source.take(LINE)
    assert source.figures(NODE) == {
        ("gpu_utilization", "0"): 55.0,
        ("gpu_power_draw", "0"): 300.5,
        ("gpu_utilization", "1"): 0.0,
    }
    assert source.figures(Target(RunKey(7, 1), 1.0, gpus=(1,))) == {("gpu_utilization", "1"): 0.0}
    assert source.figures(Target(RunKey(8, 1), 1.0)) == {}
    now[0] = STALE_S + 1
    assert source.figures(NODE) == {}, "a helper that hangs says nothing"


def test_the_helper_is_read_line_by_line() -> None:
    async def scenario() -> None:
        program = (
            sys.executable,
            "-S",
            "-c",
            f"import time; print({LINE.decode().strip()!r}, flush=True); time.sleep(60)",
        )
        source = GpuSource(2, program)
        running = asyncio.create_task(source.run())
        await asyncio.to_thread(eventually, lambda: source.is_answering, "the helper was heard", within_s=30)
        assert source.figures(NODE)["gpu_utilization", "0"] == 55.0
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_without_a_library_the_reason_is_known_and_no_gpu_is_measured() -> None:
    async def scenario() -> None:
        program = (sys.executable, "-S", "-c", "import sys; sys.stderr.write('no driver here\\n'); sys.exit(3)")
        source = GpuSource(1, program)
        running = asyncio.create_task(source.run())
        await asyncio.to_thread(eventually, lambda: source.problem, "the helper has ended", within_s=30)
        assert source.problem == "no driver here"
        assert source.figures(NODE) == {}
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert GpuSource(0).problem == "the node has no GPU"

    asyncio.run(scenario())


class Library:
    """A management library that knows some questions."""

    class NVMLError(Exception):
        pass

    def nvmlDeviceGetUtilizationRates(self, handle: object) -> SimpleNamespace:
        return SimpleNamespace(gpu=42)

    nvmlMemory_v2 = 2

    def nvmlDeviceGetMemoryInfo(self, handle: object, version: int = 1) -> SimpleNamespace:
        return SimpleNamespace(used=50 if version == self.nvmlMemory_v2 else 70, total=200)

    def nvmlDeviceGetPowerUsage(self, handle: object) -> int:
        return 350_000

    def nvmlDeviceGetTemperature(self, handle: object, sensor: int) -> int:
        raise self.NVMLError

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: object) -> int:
        return 0x40


def test_what_a_gpu_does_not_support_is_left_out() -> None:
    assert nvml_stream.figures_of(Library(), object()) == {
        "gpu_utilization": 42.0,
        "gpu_memory_used": 50.0,
        "gpu_memory_utilization": 25.0,
        "gpu_power_draw": 350.0,
        "gpu_throttled": 100.0,
    }
