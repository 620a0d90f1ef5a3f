"""Where a monitoring system finds the agents' metrics."""

import ipaddress

from msgspec import Struct

from lattice.api.context import Context, NoParameters

NO_PAGE = "shows no metrics: its agent runs with --metrics-listen off, or is of an earlier release"
LOOPBACK = "shows its metrics to its own machine only: set metrics_listen in its agent.yaml"
NOT_CONNECTED = "is not connected"


class MetricTarget(Struct, frozen=True, kw_only=True):
    node: str
    address: str  # host:port
    group: str = ""


class TargetLeftOut(Struct, frozen=True, kw_only=True):
    node: str
    why: str


class MetricTargets(Struct, frozen=True, kw_only=True):
    """Every node is in one of the two lists."""

    targets: list[MetricTarget]
    left_out: list[TargetLeftOut]


async def metric_targets(context: Context, request: NoParameters) -> MetricTargets:
    """List the addresses of the agents' metrics, and the nodes that show none to other machines."""
    addresses = context.services.metric_addresses()
    targets: list[MetricTarget] = []
    left_out: list[TargetLeftOut] = []
    for name, node in sorted(context.state.nodes.items()):
        address = addresses.get(name)
        why = (
            NOT_CONNECTED if address is None else NO_PAGE if not address else LOOPBACK if _is_loopback(address) else ""
        )
        if why or not address:
            left_out.append(TargetLeftOut(node=name, why=why))
        else:
            targets.append(MetricTarget(node=name, address=address, group=node.hardware.group))
    return MetricTargets(targets=targets, left_out=left_out)


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
