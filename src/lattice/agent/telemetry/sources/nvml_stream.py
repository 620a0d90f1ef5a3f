"""Asks NVIDIA's management library once a second and prints a line of JSON. A program of its own: `python -m` this module.

A driver that hangs hangs this program and not the agent. What a GPU does not support is left out. It ends when its reader is gone.
"""

import importlib
import json
import sys
import time
from typing import Any

EVERY_S = 1.0
NO_LIBRARY = 3  # exit code: there is nothing to ask here
_CORE, _GPU_TEMPERATURE = 0, 0
_SENT, _RECEIVED = 0, 1
_UNCORRECTED, _SINCE_LOAD = 1, 0
# Slowed down for heat or power: software power cap, hardware slowdown, both kinds of thermal slowdown, power brake.
_SLOWED = 0x4 | 0x8 | 0x20 | 0x40 | 0x80


def ask(library: Any, name: str, *about: object) -> Any:  # noqa: ANN401 - the library has no types
    try:
        return getattr(library, name)(*about)
    except (library.NVMLError, AttributeError, TypeError):
        return None


def figures_of(library: Any, handle: object) -> dict[str, float]:  # noqa: ANN401 - as above
    """What one GPU says, under the names of the catalogue."""
    found: dict[str, float | None] = {}
    use = ask(library, "nvmlDeviceGetUtilizationRates", handle)
    found["gpu_utilization"] = None if use is None else float(use.gpu)
    # The first version counts what the driver keeps for itself as used, which nvidia-smi does not.
    memory = ask(library, "nvmlDeviceGetMemoryInfo", handle, getattr(library, "nvmlMemory_v2", None))
    memory = memory or ask(library, "nvmlDeviceGetMemoryInfo", handle)
    if memory is not None and memory.total:
        found["gpu_memory_used"] = float(memory.used)
        found["gpu_memory_utilization"] = 100.0 * memory.used / memory.total
    power = ask(library, "nvmlDeviceGetPowerUsage", handle)
    found["gpu_power_draw"] = None if power is None else power / 1000.0
    found["gpu_temperature"] = ask(library, "nvmlDeviceGetTemperature", handle, _GPU_TEMPERATURE)
    for name, way in (("gpu_pcie_tx_bytes", _SENT), ("gpu_pcie_rx_bytes", _RECEIVED)):
        kilobytes = ask(library, "nvmlDeviceGetPcieThroughput", handle, way)
        found[name] = None if kilobytes is None else kilobytes * 1024.0
    found["gpu_ecc_errors"] = ask(library, "nvmlDeviceGetTotalEccErrors", handle, _UNCORRECTED, _SINCE_LOAD)
    reasons = ask(library, "nvmlDeviceGetCurrentClocksEventReasons", handle)
    if reasons is None:
        reasons = ask(library, "nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    found["gpu_throttled"] = None if reasons is None else (100.0 if reasons & _SLOWED else 0.0)
    return {name: float(value) for name, value in found.items() if value is not None}


def main() -> int:
    try:
        library = importlib.import_module("pynvml")
        library.nvmlInit()
    except ImportError:
        sys.stderr.write("the package nvidia-ml-py is not installed\n")
        return NO_LIBRARY
    except Exception as error:  # noqa: BLE001 - its errors have no common base before it is loaded
        sys.stderr.write(f"{error}\n")
        return NO_LIBRARY
    handles = [library.nvmlDeviceGetHandleByIndex(at) for at in range(library.nvmlDeviceGetCount())]
    next_s = time.monotonic()
    while True:
        line = json.dumps({str(at): figures_of(library, handle) for at, handle in enumerate(handles)})
        try:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            return 0
        next_s = max(next_s + EVERY_S, time.monotonic())
        time.sleep(max(0.0, next_s - time.monotonic()))


if __name__ == "__main__":
    sys.exit(main())
