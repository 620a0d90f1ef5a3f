"""Power: the counters of the processors (RAPL) or, where there are none, the sensors of the board (hwmon)."""

import os

from lattice.agent.shim.hierarchies import read_bytes
from lattice.core.model.telemetry.rates import Reading


def add_power(reading: Reading, root: str) -> None:
    """Adds what the node draws; nothing where no sensor says it. Packages hold their cores, so only packages count."""
    joules = [_figure(f"{folder}/energy_uj") for folder in _folders(f"{root}/sys/class/powercap", "intel-rapl:")]
    known = [value for value in joules if value is not None]
    if known:
        reading.counters["power_draw", ""] = sum(known) * 1e-6
        return
    watts = []
    for folder in _folders(f"{root}/sys/class/hwmon", "hwmon"):
        for name in ("power1_average", "power1_input"):
            value = _figure(f"{folder}/{name}")
            if value is not None:
                watts.append(value * 1e-6)
                break
    if watts:
        reading.gauges["power_draw", ""] = sum(watts)


def _folders(place: str, prefix: str) -> list[str]:
    try:
        names = os.listdir(place)
    except OSError:
        return []
    return [f"{place}/{name}" for name in sorted(names) if name.startswith(prefix) and name.count(":") < 2]


def _figure(path: str) -> int | None:
    try:
        return int(read_bytes(path))
    except (OSError, ValueError):
        return None
