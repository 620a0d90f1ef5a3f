"""Imports the nodes, partitions and settings of a site's files: everything, or nothing at all."""

import re
from collections.abc import Iterator

from msgspec.structs import replace

from lattice.api.auth.rbac import Permission, Reach
from lattice.api.context import Context
from lattice.api.errors import ApiError, refused
from lattice.config.machine_status.problems import MAX_SHOWN, Findings
from lattice.config.machine_status.reading import GivenFile, MachineImport, PartitionPlan, Reading, read_files
from lattice.core.machine.commands import ImportNodes
from lattice.core.machine.events import NodeSpecified, SettingSet, VclusterSet
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules.site.specifications import Events
from lattice.core.machine.rules.site.specifications import import_nodes as decide_import
from lattice.core.model.nodes.specifications import Specification
from lattice.core.model.site.settings import DEFAULT_VCLUSTER
from lattice.core.model.site.tenants import Vcluster
from lattice.slurm.text.hostlists import fold
from lattice.wire.nodes.imports import ImportChange, NodeImport, NodeImportView
from lattice.wire.text.problems import BadField

_OF_PARTITION = re.compile(r"partition\d{1,2}")
MAX_FILES = 3  # a SlurmConf, a NodeSpecConf, a PartitionConf
_ITEMS = (
    ("OS", "os"),
    ("CPUs", "cpus"),
    ("Speed", "speed"),
    ("RealMemory", "memory_mb"),
    ("VirtualMemory", "virtual_memory_mb"),
    ("TmpDisk", "tmp_disk_mb"),
    ("Partition", "partitions"),
    ("position", "position"),
)


async def import_nodes(context: Context, request: NodeImport) -> NodeImportView:
    """Import nodes, partitions (as vClusters) and settings from Slurm configuration files."""
    if not 1 <= len(request.files) <= MAX_FILES:
        raise BadField("files", f"{len(request.files)} are given", limit=f"from 1 to {MAX_FILES}")
    reading = read_files([GivenFile(path=file.path, text=file.text, problem=file.problem) for file in request.files])
    if reading.findings.errors:
        raise _unreadable(reading.findings)
    if reading.asked is None:
        return _needing(reading, request)
    async with context.services.administration:
        command = _command(context, reading.asked, request.files[0].path)
        view = _view(context, command, reading, request)
        if not request.dry_run:
            await context.carry_out(command, request.request_id)
    return view


def _unreadable(findings: Findings) -> ApiError:
    """All errors, and behind them what was only strange: a misspelt parameter may be why a file is not found."""
    errors = findings.errors
    shown = [str(problem) for problem in errors[:MAX_SHOWN]]
    if len(errors) > MAX_SHOWN:
        shown.append(f"... and {len(errors) - MAX_SHOWN} more")
    shown += [f"{problem} (warning)" for problem in findings.warnings[:MAX_SHOWN]]
    count = "one error" if len(errors) == 1 else f"{len(errors)} errors"
    return ApiError("invalid", "\n".join((f"{count} in the files; nothing was imported", *shown)))


def _needing(reading: Reading, request: NodeImport) -> NodeImportView:
    return NodeImportView(
        needs=reading.needs,
        dry_run=request.dry_run,
        nodes=0,
        added=0,
        changed=0,
        unchanged=0,
        changes=(),
        unfit=(),
        warnings=(),
    )


def _command(context: Context, asked: MachineImport, source: str) -> ImportNodes:
    kinds: dict[Specification, int] = {}
    nodes = tuple((name, kinds.setdefault(wanted, len(kinds))) for name, wanted in asked.nodes.items())
    settings = dict(asked.settings)
    if asked.default_partition:
        settings[DEFAULT_VCLUSTER] = asked.default_partition
    return ImportNodes(
        specifications=tuple(kinds),
        nodes=nodes,
        vclusters=tuple(_vcluster(context, plan) for plan in asked.partitions),
        settings=tuple(settings.items()),
        source=source[:200],
    )


def _vcluster(context: Context, plan: PartitionPlan) -> Vcluster:
    partition = plan.partition
    old = context.state.vclusters.get(partition.name) or Vcluster(name=partition.name)
    return replace(
        old,
        created_at=0,  # the same command whenever it is repeated
        nodes=plan.nodes,
        is_up=old.is_up if partition.is_up is None else partition.is_up,
        max_nodes=old.max_nodes if partition.max_nodes is None else partition.max_nodes,
        max_walltime_s=old.max_walltime_s if partition.max_time_s is None else partition.max_time_s,
    )


def _check_reach(context: Context, events: Events) -> None:
    """Partitions and settings are no business of an operator: files that change them need who may change them."""
    wanted = (
        (VclusterSet, Permission.WRITE_VCLUSTERS, "vClusters"),
        (SettingSet, Permission.WRITE_SETTINGS, "settings"),
    )
    for kind, permission, what in wanted:
        if context.reach(permission) is not Reach.ALL and any(isinstance(event, kind) for event in events):
            raise ApiError(
                "forbidden",
                f"these files change {what}, which needs the permission {permission}",
                hint="ask a SystemAdmin to import them; a NodeSpecConf without Partition= changes nodes alone",
            )


def _view(context: Context, command: ImportNodes, reading: Reading, request: NodeImport) -> NodeImportView:
    decided = decide_import(context.state, command, "", context.state.last_at)
    if isinstance(decided, Rejected):
        raise refused(decided)
    _check_reach(context, decided)
    specified = [event for event in decided if isinstance(event, NodeSpecified)]
    added = [event.node for event in specified if event.node not in context.state.nodes]
    changes = [ImportChange(what="node", name=fold(added), change="new")] if added else []
    changes += _alike(_node_changes(context, specified))
    changes += _other_changes(context, decided)
    lacking = [(event.node, event.shortfall) for event in specified if event.shortfall]
    return NodeImportView(
        needs=(),
        dry_run=request.dry_run,
        nodes=len(command.nodes),
        added=len(added),
        changed=len(specified) - len(added),
        unchanged=len(command.nodes) - len(specified),
        changes=tuple(changes),
        unfit=tuple(_alike(lacking)),
        warnings=(*map(str, reading.findings.warnings), *_left_behind(context, command)),
    )


def _left_behind(context: Context, command: ImportNodes) -> Iterator[str]:
    """Partitions of an earlier import that no file names any more, with nodes that are elsewhere now."""
    named = {vcluster.name for vcluster in command.vclusters}
    moved = {name for name, _ in command.nodes}
    for name, vcluster in sorted(context.state.vclusters.items()):
        nodes = [node for node in vcluster.nodes if node in moved]
        if nodes and name not in named and _OF_PARTITION.fullmatch(name):
            hint = f"`lattice admin vcluster update {name} --down` ends it"
            yield f"vCluster {name} keeps {fold(nodes)}, though no file puts a node there any more; {hint}"


def _node_changes(context: Context, specified: list[NodeSpecified]) -> Iterator[tuple[str, str]]:
    for event in specified:
        node = context.state.nodes.get(event.node)
        if node is None:
            continue
        old = node.specification
        if old is None:
            yield event.node, "specified"
            continue
        told = [
            f"{item} {_text(getattr(old, name))} -> {_text(getattr(event.specification, name))}"
            for item, name in _ITEMS
            if getattr(old, name) != getattr(event.specification, name)
        ]
        yield event.node, ", ".join(told) or "checked again"


def _other_changes(context: Context, events: Events) -> Iterator[ImportChange]:
    state = context.state
    for event in events:
        match event:
            case VclusterSet():
                name, nodes = event.vcluster.name, event.vcluster.nodes
                verb = "changed" if name in state.vclusters else "new"
                yield ImportChange(what="vcluster", name=name, change=f"{verb}: {len(nodes)} nodes {fold(nodes)}")
            case SettingSet():
                old = state.settings.get(event.key)
                was = "" if old is None else f"{old or 'empty'} -> "
                yield ImportChange(what="setting", name=event.key, change=f"{was}{event.value or 'empty'}")
            case _:
                pass


def _alike(changes: "Iterator[tuple[str, str]] | list[tuple[str, str]]") -> list[ImportChange]:
    """Nodes of which the same is said share a line."""
    together: dict[str, list[str]] = {}
    for node, change in changes:
        together.setdefault(change, []).append(node)
    return [ImportChange(what="node", name=fold(nodes), change=change) for change, nodes in together.items()]


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    if not value:
        return "any"
    return f"{value:g}" if isinstance(value, float) else str(value)
