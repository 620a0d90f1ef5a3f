"""Specifications of nodes: imported from a site's files in one step, and checked again at every registration.

A node that falls short is never refused: it takes part, keeps what it runs, and gets nothing new until it has enough.
See docs/architecture/nodes.md.
"""

import re
from collections.abc import Iterator

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules.site import administration
from lattice.core.machine.state import State
from lattice.core.model.nodes.records import shortfall
from lattice.core.model.nodes.specifications import MAX_PARTITION, NO_FIGURES, Specification

Events = tuple[ev.AnyEvent, ...]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def import_nodes(state: State, command: cmd.ImportNodes, actor: str, at: int) -> Events | Rejected:
    """Everything that the files change, or the first thing that cannot be."""
    refusal = _check(command)
    if refusal is not None:
        return refusal
    events: list[ev.AnyEvent] = []
    for position, (name, place) in enumerate(command.nodes, start=1):
        wanted = replace(command.specifications[place], position=position)
        events += _specified(state, name, wanted, actor)
    for outcome in _others(state, command, at):
        if isinstance(outcome, Rejected):
            return outcome
        events += outcome
    return tuple(events)


def _check(command: cmd.ImportNodes) -> Rejected | None:
    seen: set[str] = set()
    for name, place in command.nodes:
        if not _NAME.fullmatch(name):
            return _invalid(f'"{name[:80]}" is no name for a node')
        if name in seen:
            return _invalid(f'node "{name}" is specified twice')
        if not 0 <= place < len(command.specifications):
            return _invalid(f'node "{name}" has no specification')
        seen.add(name)
    for wanted in command.specifications:
        if min(wanted.cpus, wanted.memory_mb, wanted.virtual_memory_mb, wanted.tmp_disk_mb, wanted.speed) < 0:
            return _invalid("a specification cannot be negative")
        if any(not 0 <= number <= MAX_PARTITION for number in wanted.partitions):
            return _invalid(f"partitions are numbered from 0 to {MAX_PARTITION}")
    return None


def _specified(state: State, name: str, wanted: Specification, actor: str) -> Events:
    node = state.nodes.get(name)
    if node is None:
        lacks = shortfall(wanted, None, NO_FIGURES)
        return (ev.NodeSpecified(node=name, specification=wanted, shortfall=lacks, by=actor),)
    heard = node.hardware if node.registered_at else None
    lacks = shortfall(wanted, heard, node.figures or NO_FIGURES)
    if node.specification == wanted and node.shortfall == lacks:
        return ()
    return (ev.NodeSpecified(node=name, specification=wanted, shortfall=lacks, by=actor),)


def _others(state: State, command: cmd.ImportNodes, at: int) -> Iterator[Events | Rejected]:
    for key, value in command.settings:
        yield administration.set_setting(state, cmd.SetSetting(key=key, value=value))
    for vcluster in command.vclusters:
        old = state.vclusters.get(vcluster.name)
        if old is None or replace(vcluster, created_at=old.created_at) != old:
            yield administration.set_vcluster(state, cmd.SetVcluster(vcluster=vcluster, create=old is None), at)


def measured(state: State, command: cmd.RegisterNode, registered: Events, actor: str = "") -> Events:
    """What follows a registration: other figures than before, or another judgement of them."""
    node = state.nodes.get(command.node)
    old, lacked = (node.figures, node.shortfall) if node is not None else (None, "")
    figures = command.figures if command.figures is not None else old
    wanted = node.specification if node is not None else None
    lacks = "" if wanted is None else shortfall(wanted, command.hardware, figures or NO_FIGURES)
    if (figures, lacks) == (old, lacked):
        return registered
    return (*registered, ev.NodeMeasured(node=command.node, figures=figures, shortfall=lacks, by=actor))


def _invalid(message: str) -> Rejected:
    return Rejected(code="invalid", message=message)
