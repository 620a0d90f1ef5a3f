"""What the agent reports of its machine beyond what is scheduled: system, speed, virtual memory, temporary disk.

The figures must not change from start to start on the same machine: other figures are a change of the node's record.
"""

import os
import re
from pathlib import Path

from lattice.core.model.nodes.specifications import Figures

_MEGABYTE = 1 << 20
_ADVERTISED = re.compile(r"@\s*([\d.]+)\s*GHz", re.IGNORECASE)
_CPU = "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"


def measure_figures(*, speed: float = 0.0, tmp_dir: Path | None, memory_mb: int = 0, root: Path = Path("/")) -> Figures:
    """What can be found out; the rest stays unknown. A `speed` that is given counts. Without a `tmp_dir` temporary files lie in memory."""
    return Figures(
        os=system_level(),
        speed=speed or cpu_speed(root),
        virtual_memory_mb=virtual_memory_mb(root),
        tmp_disk_mb=disk_mb(tmp_dir) if tmp_dir is not None else memory_mb,
    )


def system_level() -> str:
    """What `uname -s -r` says, joined by a dot."""
    names = os.uname()
    return f"{names.sysname}.{names.release}"


def cpu_speed(root: Path) -> float:
    """MHz: the highest that the first CPU may reach or, unknown, what its maker's name for it says or the kernel measured at boot."""
    try:
        return int((root / _CPU).read_text()) / 1000
    except (OSError, ValueError):
        pass
    try:
        text = (root / "proc/cpuinfo").read_text()
    except OSError:
        return 0.0
    advertised = _ADVERTISED.search(text)
    if advertised is not None:
        return round(float(advertised[1]) * 1000, 3)
    measured = re.search(r"^cpu MHz\s*:\s*(\d+)", text, re.MULTILINE)
    # What is measured wanders; hundreds are steady enough to be distinguished from a change.
    return float(round(int(measured[1]), -2)) if measured is not None else 0.0


def virtual_memory_mb(root: Path) -> int:
    """Memory and swap space together."""
    try:
        text = (root / "proc/meminfo").read_text()
    except OSError:
        return 0
    sizes = re.findall(r"^(?:MemTotal|SwapTotal):\s*(\d+) kB", text, re.MULTILINE)
    return sum(map(int, sizes)) // 1024


def disk_mb(folder: Path) -> int:
    """The size of the file system that holds the folder, or that will when it is made."""
    try:
        disk = os.statvfs(next((place for place in (folder, *folder.parents) if place.exists()), folder))
    except OSError:
        return 0
    return disk.f_blocks * disk.f_frsize // _MEGABYTE
