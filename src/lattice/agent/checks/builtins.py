"""The checks that every agent brings along. Each looks once and says what it found; None = it cannot be known yet.

They read files of the kernel below `root`, which tests replace, and write nothing but a probe in the state directory. What may hang (a file system, a host) is
done by something that can be abandoned: a child process, or a connection with a time-out.
"""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lattice.agent.checks.options import BuiltinOptions
from lattice.agent.discovery.tools import ToolFailed, find_tool, run_tool
from lattice.core.model.nodes.health import Outcome, Verdict
from lattice.core.model.nodes.inventory import Inventory

_GPU_VENDORS = frozenset({"0x10de", "0x1002"})
_GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
HOUR_S = 3600.0
PROBE = ".write-probe"
PROBE_BYTES = 4096
_NVIDIA_QUERY = (
    "--query-gpu=index,ecc.errors.uncorrected.volatile.total,temperature.gpu",
    "--format=csv,noheader,nounits",
)


@dataclass(frozen=True, kw_only=True)
class ClockReading:
    """How far the node's clock is ahead of the server's; the truth lies within `slack_s` of it."""

    offset_s: float
    slack_s: float


@dataclass(kw_only=True)
class Surroundings:
    """What the checks look at; the functions answer immediately, from memory."""

    state_dir: Path
    declared_gpus: int = 0
    inventory: Callable[[], Inventory | None] = lambda: None
    fingerprint: Callable[[], str | None] = lambda: None  # None = not computed yet, empty = it never will be
    clock: Callable[[], ClockReading | None] = lambda: None
    root: Path = Path("/")
    tool_timeout_s: float = 20.0
    monotonic_s: Callable[[], float] = time.monotonic
    gpu_temperature_c: float = 0.0  # as last seen; 0 = not seen
    corrected: list[tuple[float, int]] = field(
        default_factory=list
    )  # counts of corrected memory errors, with their times


Builtin = Callable[[Surroundings, BuiltinOptions], Outcome | None]


def passed(text: str = "") -> Outcome:
    return Outcome(verdict=Verdict.PASSED, text=text)


def warned(text: str) -> Outcome:
    return Outcome(verdict=Verdict.WARNED, text=text)


def failed(text: str) -> Outcome:
    return Outcome(verdict=Verdict.FAILED, text=text)


def disk_space(here: Surroundings, options: BuiltinOptions) -> Outcome:
    """Room in the state directory and in the directories that are named, in bytes and in files; the first takes a file."""
    warnings, least_percent = [], 100.0
    for path in (str(here.state_dir), *options.paths):
        try:
            found = os.statvfs(path)
        except OSError as error:
            return failed(f"{path}: {error.strerror}")
        free_mb = (found.f_bavail * found.f_frsize) >> 20
        percent = 100.0 * found.f_bavail / found.f_blocks if found.f_blocks else 100.0
        least_percent = min(least_percent, percent)
        if free_mb < options.least_free_mb or percent < options.least_free_percent:
            percent_too = f" and {options.least_free_percent:g} %" if options.least_free_percent else ""
            limit = f"{options.least_free_mb} MiB{percent_too}"
            return failed(f"{path}: {free_mb} MiB ({percent:.1f} %) free, at least {limit} wanted")
        if found.f_files and not found.f_favail:
            return failed(f"{path}: no room for more files")
        if percent < options.warn_free_percent:
            warnings.append(f"{path}: {percent:.1f} % free")
    try:
        _write_probe(here.state_dir / PROBE)
    except OSError as error:
        return failed(f"{here.state_dir}: cannot be written: {error.strerror}")
    return warned("; ".join(warnings)) if warnings else passed(f"{least_percent:.0f} % free")


def _write_probe(path: Path) -> None:
    """A quota, a file system that was remounted read-only and a dying disk show no lack of room."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, bytes(PROBE_BYTES))
        os.fsync(fd)
    finally:
        os.close(fd)
        os.unlink(path)


def memory_errors(here: Surroundings, options: BuiltinOptions) -> Outcome:
    """Errors that the memory controllers counted: an uncorrected one is a failure, many corrected ones a warning."""
    if not _controllers(here.root):
        return passed("no memory controller counts errors here")
    uncorrected, corrected = memory_error_count(here.root)
    if uncorrected > options.most_uncorrected:
        return failed(f"{uncorrected} uncorrected memory errors since boot")
    now = here.monotonic_s()
    here.corrected[:] = [(at, count) for at, count in here.corrected if now - at <= HOUR_S][-1000:]
    here.corrected.append((now, corrected))
    recent = corrected - here.corrected[0][1]
    if recent > options.most_corrected_per_hour:
        return warned(f"{recent} corrected memory errors within an hour")
    return passed(f"{corrected} corrected errors since boot")


def _controllers(root: Path) -> list[Path]:
    return sorted((root / "sys/devices/system/edac/mc").glob("mc[0-9]*"))


def memory_error_count(root: Path) -> tuple[int, int]:
    """Uncorrected and corrected ones since boot."""
    controllers = _controllers(root)
    uncorrected = sum(read_number(each / "ue_count") for each in controllers)
    return uncorrected, sum(read_number(each / "ce_count") for each in controllers)


def gpu_count(here: Surroundings, options: BuiltinOptions) -> Outcome | None:
    """As many GPUs as the node declares answer their driver, on machines on which GPUs can be counted."""
    expected = here.declared_gpus if options.expected is None else options.expected
    if not expected:
        return passed("no GPUs declared")
    inventory = here.inventory()
    counted = counted_gpus(here.root, inventory)
    if counted is None:
        if options.expected is None and inventory is not None and not _has_gpus(here.root):
            return passed("no GPUs can be counted here")
        if inventory is None:
            return None
        counted = 0
    if counted < expected:
        return failed(f"{counted} of {expected} GPUs found")
    return passed(f"{counted} GPUs")


def counted_gpus(root: Path, inventory: Inventory | None) -> int | None:
    """GPUs that a driver knows now; None when unknown."""
    if inventory is not None and "file" in inventory.sources:
        return len(inventory.gpus)
    drivers = root / "proc/driver/nvidia/gpus", root / "sys/class/kfd/kfd/topology/nodes"
    nvidia, amd = (_names(place) for place in drivers)
    if nvidia is not None or amd is not None:
        return len(nvidia or ()) + sum(1 for name in amd or () if read_number(drivers[1] / name / "gpu_id"))
    return len(inventory.gpus) if inventory is not None and inventory.gpus else None


def _has_gpus(root: Path) -> bool:
    """Whether a GPU is on the bus, with or without a driver."""
    for device in (root / "sys/bus/pci/devices").glob("*"):
        if _text(device / "vendor") in _GPU_VENDORS and _text(device / "class").startswith(_GPU_CLASSES):
            return True
    return False


def gpu_errors(here: Surroundings, options: BuiltinOptions) -> Outcome:
    """Uncorrected memory errors that the GPUs counted since their driver was loaded."""
    counts = _amd_errors(here.root)
    if (here.root / "proc/driver/nvidia/gpus").is_dir() and (tool := find_tool("nvidia-smi")) is not None:
        try:
            said = run_tool([tool, *_NVIDIA_QUERY], here.tool_timeout_s).decode(errors="replace")
        except ToolFailed as error:
            return failed(str(error))
        rows = [[word.strip() for word in line.split(",")] for line in said.splitlines()]
        counts |= {f"GPU {row[0]}": int(row[1]) for row in rows if len(row) == 3 and row[1].isdigit()}
        here.gpu_temperature_c = max((float(row[2]) for row in rows if len(row) == 3 and row[2].isdigit()), default=0.0)
    bad = [f"{name}: {count}" for name, count in sorted(counts.items()) if count > options.most_uncorrected]
    if bad:
        return failed(f"uncorrected memory errors on {', '.join(bad)}")
    return passed(f"none on {len(counts)} GPUs" if counts else "no GPU counts errors here")


def _amd_errors(root: Path) -> dict[str, int]:
    found = {}
    for path in sorted((root / "sys/class/drm").glob("card[0-9]*/device/ras/umc_err_count")):
        words = _text(path).replace(":", " ").split()
        if "ue" in words[:-1] and (count := words[words.index("ue") + 1]).isdigit():
            found[path.parts[-4]] = int(count)
    return found


def clock_offset(here: Surroundings, options: BuiltinOptions) -> Outcome:
    """The node's clock against that of the server."""
    reading = here.clock()
    if reading is None:
        return passed("not compared yet")
    if abs(reading.offset_s) - reading.slack_s > options.most_offset_s:
        where = "ahead of" if reading.offset_s > 0 else "behind"
        return failed(
            f"the clock is {abs(reading.offset_s):.1f} s {where} the server's, at most {options.most_offset_s:g} s wanted"
        )
    return passed(f"{reading.offset_s:+.3f} s, give or take {reading.slack_s:.3f} s")


def nics(here: Surroundings, options: BuiltinOptions) -> Outcome | None:
    """The named interfaces are there and up; those of a kind that has firmware tell its version."""
    place = here.root / "sys/class/net"
    for name in options.names:
        if not (place / name).exists():
            return failed(f"{name} is not there")
        if _text(place / name / "operstate") in {"down", "lowerlayerdown", "notpresent"}:
            return failed(f"{name} is down")
    fabric = here.root / "sys/class/infiniband"
    for name in _names(fabric) or ():
        if not _text(fabric / name / "fw_ver"):
            return failed(f"{name} tells no firmware version")
    inventory = here.inventory()
    if inventory is None:
        return None if options.with_firmware else passed()
    silent = [nic.name for nic in inventory.nics if nic.name in options.with_firmware and not nic.firmware]
    missing = sorted(set(options.with_firmware) - {nic.name for nic in inventory.nics})
    if silent or missing:
        return failed(f"no firmware detected: {', '.join([*silent, *missing])}")
    return passed(f"{len(inventory.nics)} interfaces")


def fingerprint(here: Surroundings, options: BuiltinOptions) -> Outcome | None:
    """What the node is made of is known."""
    found = here.fingerprint()
    if found is None:
        return None
    return passed(found[:12]) if found else failed("no fingerprint can be computed")


def mounted(root: Path, paths: Sequence[str]) -> str:
    """The first of the paths on which nothing is mounted; empty when all are mount points."""
    text = (root / "proc/self/mountinfo").read_text(errors="replace")
    points = {line.split()[4].encode().decode("unicode_escape") for line in text.splitlines() if len(line.split()) > 4}
    return next((path for path in paths if (os.path.normpath(path)) not in points), "")


async def reach(hosts: Sequence[str], timeout_s: float) -> Outcome:
    """Connects to every host:port and hangs up."""
    slow: list[str] = []

    async def try_one(host: str) -> None:
        name, _, port = host.rpartition(":")
        try:
            async with asyncio.timeout(timeout_s):
                _, writer = await asyncio.open_connection(name.strip("[]"), int(port))
            writer.close()
        except TimeoutError:
            slow.append(f"{host} does not answer within {timeout_s:g} s")
        except OSError as error:
            slow.append(f"{host}: {error.strerror or error}")

    await asyncio.gather(*map(try_one, hosts))
    return failed("; ".join(sorted(slow))) if slow else passed(f"{len(hosts)} hosts reached")


def _names(place: Path) -> list[str] | None:
    try:
        return sorted(os.listdir(place))
    except OSError:
        return None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def read_number(path: Path) -> int:
    text = _text(path)
    return int(text) if text.isdigit() else 0


BUILTINS: dict[str, Builtin] = {
    "disk_space": disk_space,
    "memory_errors": memory_errors,
    "gpu_count": gpu_count,
    "gpu_errors": gpu_errors,
    "clock_offset": clock_offset,
    "nics": nics,
    "fingerprint": fingerprint,
}
