"""Asks the tools of GPU vendors and prints a line of JSON each second, as `nvml_stream` does: `python -m` this module, dcgm or rocm.

`dcgmi dmon` prints tables for good; AMD's tools are started for each answer. A tool that hangs hangs this program and not the agent.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from lattice.agent.telemetry.sources.nvml_stream import NO_LIBRARY

EVERY_S = 1.0
SLOWEST_S = 20.0
_MIB = 1 << 20
# Fields of DCGM in the order in which they are asked for: the metric, and what its figure is multiplied by.
DCGM: tuple[tuple[int, str, float], ...] = (
    (203, "gpu_utilization", 1.0),
    (252, "gpu_memory_used", _MIB),
    (155, "gpu_power_draw", 1.0),
    (150, "gpu_temperature", 1.0),
    (1003, "gpu_sm_occupancy", 100.0),
)
AMD_SMI = ("amd-smi", "metric", "--usage", "--power", "--temperature", "--ecc", "--mem-usage", "--json")
ROCM_SMI = ("rocm-smi", "--showuse", "--showmeminfo", "vram", "--showpower", "--showtemp", "--json")

Figures = dict[str, dict[str, float]]


def number(value: object) -> float | None:
    """Of a figure with or without its unit; None for what the tool does not know."""
    if isinstance(value, dict):
        return number(value.get("value"))
    try:
        return float(str(value).rstrip("%"))
    except ValueError:
        return None


def read_dcgm(lines: Iterable[str]) -> Iterable[Figures]:
    """Tables of `dcgmi dmon`: one answer for each, when the next begins again with a GPU that was there already."""
    found: Figures = {}
    for line in lines:
        words = line.split()
        if len(words) != 2 + len(DCGM) or words[0] != "GPU":
            continue  # a heading, or a part of a GPU
        if words[1] in found:
            yield found
            found = {}
        known = ((metric, number(word), factor) for word, (_, metric, factor) in zip(words[2:], DCGM, strict=True))
        found[words[1]] = {metric: value * factor for metric, value, factor in known if value is not None}


def read_amd(document: bytes) -> Figures:
    """The JSON of `amd-smi metric`: a list of GPUs, in newer ones under a name. Raises ValueError."""
    said = json.loads(document)
    rows = said.get("gpu_data", []) if isinstance(said, dict) else said
    return {str(row.get("gpu", place)): _amd(row) for place, row in enumerate(rows) if isinstance(row, dict)}


def _amd(row: dict[str, Any]) -> dict[str, float]:
    def part(name: str) -> dict[str, Any]:
        found = row.get(name)
        return found if isinstance(found, dict) else {}

    memory = part("mem_usage")
    total, used = number(memory.get("total_vram")), number(memory.get("used_vram"))
    heat = [number(part("temperature").get(sensor)) for sensor in ("hotspot", "edge")]
    found = {
        "gpu_utilization": number(part("usage").get("gfx_activity")),
        "gpu_power_draw": number(part("power").get("socket_power")),
        "gpu_temperature": next((value for value in heat if value is not None), None),
        "gpu_ecc_errors": number(part("ecc").get("total_uncorrectable_count")),
        "gpu_memory_used": None if used is None else used * _MIB,
        "gpu_memory_utilization": 100.0 * used / total if used is not None and total else None,
    }
    return {metric: value for metric, value in found.items() if value is not None}


def read_rocm(document: bytes) -> Figures:
    """The JSON of `rocm-smi`: cards by name. Raises ValueError."""
    found: Figures = {}
    for name, facts in json.loads(document).items():
        if name.startswith("card") and isinstance(facts, dict):
            found[name.removeprefix("card")] = _rocm(facts)
    return found


def _rocm(facts: dict[str, Any]) -> dict[str, float]:
    def first(*names: str) -> float | None:
        return next((value for name in names if (value := number(facts.get(name))) is not None), None)

    total, used = first("VRAM Total Memory (B)"), first("VRAM Total Used Memory (B)")
    found = {
        "gpu_utilization": first("GPU use (%)"),
        "gpu_power_draw": first("Average Graphics Package Power (W)", "Current Socket Graphics Package Power (W)"),
        "gpu_temperature": first("Temperature (Sensor junction) (C)", "Temperature (Sensor edge) (C)"),
        "gpu_memory_used": used,
        "gpu_memory_utilization": 100.0 * used / total if used is not None and total else None,
    }
    return {metric: value for metric, value in found.items() if value is not None}


def say(found: Figures) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def follow_dcgm() -> int:
    program = shutil.which("dcgmi")
    if program is None:
        return _nothing("dcgmi is not installed")
    fields = ",".join(str(field) for field, _, _ in DCGM)
    with subprocess.Popen([program, "dmon", "-e", fields, "-d", "1000"], stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is None:
            return 1
        try:
            for found in read_dcgm(process.stdout):
                say(found)
        except BrokenPipeError:
            process.kill()
            return 0
    # It says what is wrong on its standard output, where nothing of it is a row: no engine to talk to, for example.
    sys.stderr.write(f"dcgmi ended with exit code {process.returncode}\n")
    return 1


def follow_rocm() -> int:
    ways: list[tuple[tuple[str, ...], Callable[[bytes], Figures]]] = [(AMD_SMI, read_amd), (ROCM_SMI, read_rocm)]
    usable = [(words, read) for words, read in ways if shutil.which(words[0])]
    if not usable:
        return _nothing("neither amd-smi nor rocm-smi is installed")
    next_s = time.monotonic()
    while True:
        found, why = _first_answer(usable)
        if not found:
            return _nothing(why)
        try:
            say(found)
        except BrokenPipeError:
            return 0
        next_s = max(next_s + EVERY_S, time.monotonic())
        time.sleep(max(0.0, next_s - time.monotonic()))


def _first_answer(ways: list[tuple[tuple[str, ...], Callable[[bytes], Figures]]]) -> tuple[Figures, str]:
    """Of the first tool that knows a GPU."""
    why = "the tools know no GPU"
    for words, read in ways:
        try:
            answer = subprocess.run(words, capture_output=True, timeout=SLOWEST_S, check=True).stdout
            found = read(answer)
        except (OSError, ValueError, AttributeError, subprocess.SubprocessError) as error:
            why = f"{words[0]}: {error}"
            continue
        if found:
            return found, ""
    return {}, why


def _nothing(why: str) -> int:
    sys.stderr.write(f"{why}\n")
    return NO_LIBRARY


def main(words: list[str]) -> int:
    return follow_dcgm() if words == ["dcgm"] else follow_rocm()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
