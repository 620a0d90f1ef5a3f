"""Counters become figures per second. A counter that went back, because what it counted is gone, says nothing for that moment.

See docs/architecture/telemetry.md.
"""

from collections.abc import Mapping

from msgspec import Struct

Name = tuple[str, str]  # the metric, and the device or ""


class Reading(Struct, kw_only=True):
    """What was read at one moment. A counter is scaled so that its growth per second is the metric of its name.

    What could not be read is not there.
    """

    at_s: float  # of a clock that never goes back
    counters: dict[Name, float] = {}
    gauges: dict[Name, float] = {}


def figures(before: Reading | None, now: Reading, cpus: float) -> dict[Name, float]:
    """What the metrics are between two readings; `cpus` is what the run or node has, 0 = not known."""
    found: dict[Name, float] = dict(now.gauges)
    elapsed_s = now.at_s - before.at_s if before is not None else 0.0
    if before is not None and elapsed_s > 0:
        for name, count in now.counters.items():
            earlier = before.counters.get(name)
            if earlier is not None and count >= earlier:
                found[name] = (count - earlier) / elapsed_s
    used = found.get(("cpus_used", ""))
    if used is not None and cpus > 0:
        found["cpu_utilization", ""] = 100.0 * used / cpus
    _add_latency(found)
    _add_error_rate(found)
    _add_congestion(found)
    return found


def _add_latency(found: dict[Name, float]) -> None:
    """Milliseconds that requests took, per second, over requests per second: the mean of one."""
    for name in [name for name in found if name[0] == "_disk_requests"]:
        waited_ms, requests = found.pop(("_disk_waited_ms", name[1]), None), found.pop(name)
        if waited_ms is not None and requests > 0:
            found["disk_latency", name[1]] = 1000.0 * waited_ms / requests
    for name in [name for name in found if name[0] == "_disk_waited_ms"]:
        del found[name]


def _add_error_rate(found: dict[Name, float]) -> None:
    packets, errors = found.pop(("_packets", ""), None), found.get(("_packet_errors", ""))
    found.pop(("_packet_errors", ""), None)
    if packets and errors is not None:
        found["network_error_rate", ""] = 100.0 * errors / (packets + errors)


def _add_congestion(found: dict[Name, float]) -> None:
    """Waits to send as a share of waits and sends, or the most that a traffic class was paused."""
    for name in [name for name in found if name[0] in ("_fabric_waited", "_fabric_paused")]:
        value, nic = found.pop(name), name[1].partition("/")[0]
        if name[0] == "_fabric_waited":
            sent = found.get(("_fabric_sent", nic), 0.0)
            value = 100.0 * value / (value + sent) if value > 0 else 0.0
        found["network_congestion", nic] = max(found.get(("network_congestion", nic), 0.0), min(100.0, value))
    for name in [name for name in found if name[0] == "_fabric_sent"]:
        del found[name]


def only(found: Mapping[Name, float], metrics: frozenset[str]) -> dict[Name, float]:
    """Those that were asked for; all if none was named."""
    return {name: value for name, value in found.items() if not metrics or name[0] in metrics}
