"""What a node is made of, on a sheet."""

from collections import Counter
from collections.abc import Iterable, Sequence

from lattice.cli.context import Context
from lattice.cli.views.nodes import node_sheet
from lattice.cli.views.usage import ranges_text
from lattice_sdk.errors import Conflict, NotAuthenticated, NotFound
from lattice_sdk.models.inventory import Drive, Gpu, GpuLink, Inventory, MemoryDomain, Nic, NodeInventory
from lattice_sdk.models.nodes import NodeUsage
from lattice_sdk.models.records import Node

Pairs = list[tuple[str, str]]


class NodeInFull(Node, frozen=True, kw_only=True):
    """A node with its inventory, if it has sent one, and with what its runs have and what it lacks, if it answers."""

    inventory: NodeInventory | None = None
    usage: NodeUsage | None = None


def in_full(context: Context, node: Node) -> tuple[NodeInFull, Pairs]:
    """All that is known of a node, and how it looks. Without a token, on the server's own machine, there is no inventory."""
    try:
        known = context.client.get_node_inventory(node.id)
    except (NotFound, NotAuthenticated):
        known = None
    fields = {name: getattr(node, name) for name in node.__struct_fields__}
    use = _usage(context, node)
    return NodeInFull(**fields, inventory=known, usage=use), [
        *node_sheet(node),
        *(usage_sheet(use) if use else ()),
        *(inventory_sheet(known, is_brief=True) if known else ()),
    ]


def _usage(context: Context, node: Node) -> NodeUsage | None:
    """None where the node cannot be asked, or the server is of a release that does not ask."""
    try:
        return context.client.node_usage(node.id)
    except (NotFound, NotAuthenticated, Conflict):
        return None


def usage_sheet(use: NodeUsage) -> Pairs:
    held = [
        (f"Has {run.id}", ", ".join(filter(None, (_numbers("CPUs", run.cpus), _numbers("GPUs", run.gpus)))))
        for run in use.runs
    ]
    lacks = [(f"No {each.name}", each.reason) for each in use.missing]
    return [(name, text) for name, text in (*held, *lacks) if text]


def _numbers(what: str, numbers: list[int]) -> str:
    return f"{what} {ranges_text(numbers)}" if numbers else ""


def inventory_sheet(known: NodeInventory, *, is_brief: bool = False) -> Pairs:
    """Only what the node has."""
    found, board, software = known.inventory, known.inventory.board, known.inventory.software
    lines = [
        ("Processor", _processor(found)),
        ("Memory domains", "; ".join(map(_domain, found.memory.domains))),
        ("GPU devices", "; ".join(_gpus(found.gpus))),
        ("GPU links", _links(found.gpu_links)),
        ("GPU drivers", ", ".join(f"{vendor} {version}" for vendor, version in sorted(found.drivers.items()))),
        ("Interfaces", "; ".join(map(_nic, found.nics))),
        ("Board", _words(board.vendor, board.product, board.board, board.board_version)),
        ("BIOS", _words(board.bios_vendor, board.bios_version, board.bios_date)),
        ("BMC", board.bmc_version),
        ("System", software.os),
        ("Kernel", _words(software.kernel, software.kernel_build)),
        ("Boot parameters", "" if is_brief else software.boot_parameters),
        ("Base image", software.base_image),
        ("NVMe", "; ".join(map(_drive, found.drives))),
        (
            "Scratch",
            "; ".join(f"{each.path} {size(each.size_bytes)} {each.filesystem}".strip() for each in found.scratch),
        ),
        ("Runtimes", ", ".join(_words(name, version) for name, version in sorted(found.runtimes.items()))),
        ("Not readable", "; ".join(found.problems)),
        ("Fingerprint", f"{known.fingerprint} ({_age(known)})"),
    ]
    return [(name, text) for name, text in lines if text]


def size(count: int) -> str:
    """Bytes with a binary unit."""
    value = float(count)
    for unit in ("", "K", "M", "G"):
        if value < 1024:
            return f"{value:.0f}{unit}" if value == int(value) or value >= 10 else f"{value:.1f}{unit}"
        value /= 1024
    return f"{value:.0f}T" if value == int(value) or value >= 10 else f"{value:.1f}T"


def numbers(values: Iterable[int]) -> str:
    """0, 1, 2 and 5 as 0-2,5."""
    parts: list[list[int]] = []
    for value in sorted(values):
        if parts and parts[-1][1] == value - 1:
            parts[-1][1] = value
        else:
            parts.append([value, value])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def _words(*texts: str) -> str:
    return " ".join(filter(None, texts))


def _processor(found: Inventory) -> str:
    cpus = found.cpus
    parts = ((cpus.sockets, "socket"), (cpus.cores, "core"), (cpus.threads, "thread"))
    counts = [f"{count} {name}{'s' * (count > 1)}" for count, name in parts if count]
    return ", ".join(filter(None, (cpus.model, *counts, f"{cpus.mhz} MHz" if cpus.mhz else "")))


def _domain(domain: MemoryDomain) -> str:
    near = [
        f"CPUs {numbers(domain.attached_cpus)}" if domain.attached_cpus else "",
        f"GPUs {numbers(domain.attached_gpus)}" if domain.attached_gpus else "",
        f"in {domain.part_of}" if domain.part_of is not None else "",
    ]
    text = f"{domain.id}: {size(domain.capacity_bytes)} {domain.domain_type.replace('_', ' ')}"
    inside = ", ".join(filter(None, near))
    return f"{text} ({inside})" if inside else text


def _gpus(gpus: Sequence[Gpu]) -> list[str]:
    """Like ones together."""
    alike: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        parts = Counter(part.profile for part in gpu.partitions)
        split = " as " + " + ".join(f"{count}x{profile}" for profile, count in sorted(parts.items())) if parts else ""
        firmware = f", firmware {gpu.firmware}" if gpu.firmware else ""
        alike.setdefault(f"{gpu.model or gpu.vendor} {size(gpu.memory_bytes)}{split}{firmware}", []).append(gpu)
    return [f"{numbers(gpu.index for gpu in same)}: {text}" for text, same in alike.items()]


def _links(links: Sequence[GpuLink]) -> str:
    kinds = Counter((link.link_type, link.bandwidth_gbps) for link in links)
    return ", ".join(f"{count}x {kind} {gbps:g} GB/s" for (kind, gbps), count in sorted(kinds.items()))


def _nic(nic: Nic) -> str:
    speed = f"{nic.speed_mbps / 1000:g} Gb/s" if nic.speed_mbps else ""
    firmware = f"firmware {nic.firmware}" if nic.firmware else ""
    about = ", ".join(filter(None, (nic.driver, firmware, speed)))
    return f"{nic.name} ({about})" if about else nic.name


def _drive(drive: Drive) -> str:
    return _words(drive.name, drive.model, size(drive.size_bytes) if drive.size_bytes else "", drive.firmware)


def _age(known: NodeInventory) -> str:
    told = f"told {known.age_s:.0f} s ago"
    return f"{told}, too long to count" if known.is_stale else told
