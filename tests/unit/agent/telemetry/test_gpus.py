"""GPUs are measured by a helper process: what it says is shown for the run that has them, and what it does not say is not."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from lattice.agent.telemetry.collector import Target
from lattice.agent.telemetry.gpus import STALE_S, GpuSource, Helper
from lattice.agent.telemetry.sources import gpu_tools, nvml_stream
from lattice.ports.nodes.agents import RunKey
from lattice.testing import eventually

LINE = b'{"0": {"gpu_utilization": 55.0, "gpu_power_draw": 300.5, "speed": 1}, "1": {"gpu_utilization": 0.0}}\n'
NODE = Target(None, 4.0)


def test_a_run_sees_its_own_gpus_and_the_node_all() -> None:
    now = [0.0]
    helper, further = (Helper(name, (), lambda: now[0]) for name in ("nvml", "dcgm"))
    source = GpuSource(2, (helper, further))
    assert source.figures(NODE) == {}
    helper.take(b"not json")
    helper.take(LINE)
    further.take(b'{"0": {"gpu_utilization": 1.0}}')
    assert source.sources == ("nvml", "dcgm")
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
        source = GpuSource(2, (Helper("nvml", program),))
        running = asyncio.create_task(source.run())
        await asyncio.to_thread(eventually, lambda: source.sources, "the helper was heard", within_s=30)
        assert source.figures(NODE)["gpu_utilization", "0"] == 55.0
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_without_a_library_the_reason_is_known_and_no_gpu_is_measured() -> None:
    async def scenario() -> None:
        program = (sys.executable, "-S", "-c", "import sys; sys.stderr.write('no driver here\\n'); sys.exit(3)")
        source = GpuSource(1, (Helper("nvml", program), Helper("rocm", program)))
        running = asyncio.create_task(source.run())
        await asyncio.to_thread(eventually, lambda: len(source.problems()) == 2, "the helpers have ended", within_s=30)
        assert source.problems()["nvml"] == "no driver here"
        assert source.figures(NODE) == {}
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert GpuSource(0).problems() == {}

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


def test_the_next_source_answers_where_one_is_switched_off() -> None:
    first, second = Helper("nvml", ()), Helper("dcgm", ())
    source = GpuSource(1, (first, second))
    first.take(b'{"0": {"gpu_utilization": 55.0}}')
    second.take(b'{"0": {"gpu_utilization": 54.0, "gpu_sm_occupancy": 20.0}}')
    assert source.figures(NODE) == {("gpu_utilization", "0"): 55.0, ("gpu_sm_occupancy", "0"): 20.0}
    source.leave_out(frozenset({"nvml"}))
    assert source.figures(NODE) == {("gpu_utilization", "0"): 54.0, ("gpu_sm_occupancy", "0"): 20.0}
    source.leave_out(frozenset({"dcgm"}))
    assert source.figures(NODE) == {}


DMON = """#Entity   GPUTL             FBUSD             POWER             TMPTR             SMOCC
ID
GPU 0     97                4096              301.2             61                0.245
GPU 1     0                 N/A               70.5              33                N/A
GPU 0     98                4096              300.0             61                0.250
#Entity   GPUTL             FBUSD             POWER             TMPTR             SMOCC
GPU-I 3   1                 2                 3                 4                 5
GPU 1     0                 0                 70.5              33                0.000
GPU 0     1                 0                 71.0              33                0.000
"""


def test_tables_of_dcgm_are_read_as_they_were_recorded() -> None:
    first, second = gpu_tools.read_dcgm(DMON.splitlines())
    assert first["0"] == {
        "gpu_utilization": 97.0,
        "gpu_memory_used": 4096.0 * (1 << 20),
        "gpu_power_draw": 301.2,
        "gpu_temperature": 61.0,
        "gpu_sm_occupancy": 24.5,
    }
    assert first["1"] == {"gpu_utilization": 0.0, "gpu_power_draw": 70.5, "gpu_temperature": 33.0}
    assert second.keys() == {"0", "1"}


AMD = b"""{"gpu_data": [
  {"gpu": 0, "usage": {"gfx_activity": {"value": 40, "unit": "%"}, "vcn_activity": ["N/A"]},
   "power": {"socket_power": {"value": 239, "unit": "W"}},
   "temperature": {"edge": "N/A", "hotspot": {"value": 36, "unit": "C"}}, "ecc": {"total_uncorrectable_count": 0},
   "mem_usage": {"total_vram": {"value": 294896, "unit": "MB"}, "used_vram": {"value": 283, "unit": "MB"}}},
  {"gpu": 1, "usage": "N/A", "mem_usage": "N/A"}]}"""
ROCM = b"""{"card0": {"Temperature (Sensor edge) (C)": "44.0", "Average Graphics Package Power (W)": "22.0",
  "GPU use (%)": "37", "VRAM Total Memory (B)": "21458059264", "VRAM Total Used Memory (B)": "27856896"},
  "system": {"Driver version": "6.7.0"}}"""


def test_answers_of_the_tools_of_amd_are_read_as_they_were_recorded() -> None:
    found = gpu_tools.read_amd(AMD)
    assert found["1"] == {}
    assert found["0"] == {
        "gpu_utilization": 40.0,
        "gpu_power_draw": 239.0,
        "gpu_temperature": 36.0,
        "gpu_ecc_errors": 0.0,
        "gpu_memory_used": 283.0 * (1 << 20),
        "gpu_memory_utilization": pytest.approx(100 * 283 / 294896),
    }
    assert gpu_tools.read_rocm(ROCM) == {
        "0": {
            "gpu_utilization": 37.0,
            "gpu_power_draw": 22.0,
            "gpu_temperature": 44.0,
            "gpu_memory_used": 27856896.0,
            "gpu_memory_utilization": pytest.approx(100 * 27856896 / 21458059264),
        }
    }


@pytest.mark.parametrize(("tool", "name"), [("amd-smi", "rocm"), ("rocm-smi", "rocm"), ("dcgmi", "dcgm")])
def test_a_node_with_such_a_tool_is_measured_by_it(tool: str, name: str, tmp_path: Path) -> None:
    answer = {"amd-smi": AMD.decode(), "rocm-smi": ROCM.decode(), "dcgmi": DMON}[tool]
    (tmp_path / "answer").write_text(answer)
    program = tmp_path / tool
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/answer\n" + ("sleep 60\n" if tool == "dcgmi" else ""))
    program.chmod(0o755)
    variables = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    words = [sys.executable, "-m", "lattice.agent.telemetry.sources.gpu_tools", name]
    with subprocess.Popen(words, env=variables, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        os.killpg(process.pid, signal.SIGKILL)
    assert said["0"]["gpu_power_draw"] in (301.2, 239.0, 22.0)
    none = subprocess.run(words, env={**variables, "PATH": "/nowhere"}, capture_output=True, text=True, check=False)
    assert (none.returncode, "not installed" in none.stderr or "neither" in none.stderr) == (3, True)
