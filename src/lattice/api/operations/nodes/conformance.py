"""Configurations: which nodes are alike, what they should be, who differs; baselines, and the approval after a remediation."""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from lattice.api.auth.rbac import Permission, may_at_all
from lattice.api.context import Context, NoParameters
from lattice.api.errors import ApiError, unknown
from lattice.api.find.visibility import find_vcluster, visible_vclusters
from lattice.api.nodes.health import refuse_unhealthy
from lattice.api.operations.nodes.nodes import GetNode, get_node
from lattice.core.machine.commands import ApproveNode, SetBaseline, UnsetBaseline
from lattice.core.machine.rules.nodes.drift import timeout_s
from lattice.core.model.nodes.drift import Baseline, Difference, Drift, differences
from lattice.ports.nodes.conformance import ConformanceView as View
from lattice.wire.bounds import NodeSet
from lattice.wire.nodes.conformance import (
    BOOT_PARAMETERS,
    BaselineView,
    ConformanceGroupView,
    ConformanceView,
    DifferenceView,
    DriftView,
    NodeDiffView,
    RefreshView,
    difference_views,
    drift_view,
    without_boot_parameters,
)
from lattice.wire.nodes.nodes import NodeView
from lattice.wire.text.node_names import node_names
from lattice.wire.text.times import rfc3339

_FEWEST_DIGITS = 8  # of a fingerprint that is not given in full


class DiffQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    other: str


class ApproveRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    request_id: str = ""


class BaselineQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    vcluster: str


class BaselineFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Either `node`, whose current configuration becomes the baseline, or a `fingerprint`: complete, or the first digits of one in use."""

    vcluster: str
    node: str = ""
    fingerprint: str = ""
    request_id: str = ""


class DropBaseline(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    vcluster: str
    request_id: str = ""


class RefreshRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All nodes if empty."""

    nodes: list[str] | NodeSet = []
    request_id: str = ""


async def conformance_status(context: Context, request: NoParameters) -> ConformanceView:
    """Group nodes by configuration, largest group first, with the differences from it and from the baseline."""
    view = _view(context)
    state, fingerprints = context.state, view.fingerprints()
    baselines = _baselines(context, view)
    return ConformanceView(
        nodes=len(state.nodes),
        groups=_groups(context, view, baselines),
        unknown=tuple(sorted(name for name in state.nodes if name not in fingerprints)),
        baselines=tuple(baselines),
        drifted=tuple(_drift(context, drift) for _, drift in sorted(state.drift.drifts.items())),
    )


async def diff_nodes(context: Context, request: DiffQuery) -> NodeDiffView:
    """Compare two nodes."""
    view = _view(context)
    first, second = _known(context, view, request.id), _known(context, view, request.other)
    found = differences(view.components(request.id), view.components(request.other))
    return NodeDiffView(
        first=request.id,
        second=request.other,
        is_same=first == second,
        first_fingerprint=first,
        second_fingerprint=second,
        differences=_differences(context, found),
    )


async def approve_node(context: Context, request: ApproveRequest) -> NodeView:
    """Approve a node whose drift was repaired, or accept the current configuration of a sensitive node."""
    drift = context.state.drift.drifts.get(request.id)
    if drift is not None and (drift.verified_at or request.id in context.state.drift.accepted):
        await refuse_unhealthy(context, request.id)
    heard = context.services.observations.get(request.id)
    command = ApproveNode(node=request.id, is_heard=heard is not None and heard.connected)
    await context.carry_out(command, request.request_id)
    return await get_node(context, GetNode(id=request.id))


async def get_baseline(context: Context, request: BaselineQuery) -> BaselineView:
    """Get the baseline of a vCluster: the declared one, otherwise the majority of its largest kind of node."""
    find_vcluster(context, request.vcluster)
    view = _view(context)
    own = [each for each in _baselines(context, view) if each.vcluster == request.vcluster]
    counts = {each.fingerprint: list(view.fingerprints().values()).count(each.fingerprint) for each in own}
    if not own:
        return _baseline(context, request.vcluster, "", view)
    return max(own, key=lambda each: (counts[each.fingerprint], each.kind))


async def set_baseline(context: Context, request: BaselineFields) -> BaselineView:
    """Declare the baseline of a vCluster."""
    if bool(request.node) == bool(request.fingerprint):
        raise ApiError("invalid", "name either a node or a fingerprint", hint="a node's present configuration is taken")
    view = _view(context)
    fingerprint = _known(context, view, request.node) if request.node else _in_full(view, request.fingerprint.lower())
    parts = view.components(request.node) if request.node else view.components_of(fingerprint)
    baseline = Baseline(
        vcluster=request.vcluster,
        fingerprint=fingerprint,
        node=request.node,
        components=tuple(sorted(parts.items())),
    )
    await context.carry_out(SetBaseline(baseline=baseline), request.request_id)
    return await get_baseline(context, BaselineQuery(vcluster=request.vcluster))


async def unset_baseline(context: Context, request: DropBaseline) -> BaselineView:
    """Delete the declared baseline; the majority counts again."""
    await context.carry_out(UnsetBaseline(vcluster=request.vcluster), request.request_id)
    return await get_baseline(context, BaselineQuery(vcluster=request.vcluster))


async def refresh_conformance(context: Context, request: RefreshRequest) -> RefreshView:
    """Ask nodes to take their inventory again; the result arrives with their next report."""
    view, nodes = _view(context), context.state.nodes
    names = node_names(request.nodes, "nodes") or tuple(sorted(nodes))
    for name in names:
        if name not in nodes:
            raise unknown("node", name, nodes)
    asked = {name: view.refresh(name) for name in names}
    return RefreshView(
        asked=tuple(name for name, was_asked in asked.items() if was_asked),
        unreachable=tuple(name for name, was_asked in asked.items() if not was_asked),
    )


def _view(context: Context) -> View:
    view = context.services.conformance
    if view is None:
        raise ApiError("unavailable", "only the leader knows the configurations of nodes")
    return view


def _known(context: Context, view: View, node: str) -> str:
    if node not in context.state.nodes:
        raise unknown("node", node, context.state.nodes)
    found = view.fingerprints().get(node)
    if found is None:
        raise ApiError(
            "conflict",
            f"the configuration of node {node} is not known",
            current="its agent has not reported it, or too long ago",
            hint=f"ask it to: lattice admin conformance refresh {node}",
        )
    return found


def _in_full(view: View, given: str) -> str:
    """The one fingerprint in use that begins so; else what was given."""
    if len(given) < _FEWEST_DIGITS:
        return given
    found = {each for each in view.fingerprints().values() if each.startswith(given)}
    return found.pop() if len(found) == 1 else given


def _baselines(context: Context, view: View) -> list[BaselineView]:
    """Declared ones, and majorities where none is declared, of vClusters that the caller may know of."""
    declared, visible = context.state.drift.baselines, visible_vclusters(context)
    found = [_baseline(context, name, "", view, each) for name, each in sorted(declared.items()) if name in visible]
    for peers, fingerprint in sorted(view.majorities().items()):
        if peers.vcluster in visible and peers.vcluster not in declared:
            found.append(_baseline(context, peers.vcluster, peers.kind, view, fingerprint=fingerprint))
    return found


def _baseline(
    context: Context, vcluster: str, kind: str, view: View, declared: Baseline | None = None, fingerprint: str = ""
) -> BaselineView:
    if declared is not None:
        parts = dict(declared.components) or view.components_of(declared.fingerprint)
        return BaselineView(
            vcluster=vcluster,
            source="declared",
            fingerprint=declared.fingerprint,
            kind=kind,
            node=declared.node,
            set_by=declared.set_by,
            set_at=rfc3339(declared.set_at),
            components=_components(context, parts),
        )
    return BaselineView(
        vcluster=vcluster,
        source="majority" if fingerprint else "none",
        fingerprint=fingerprint,
        kind=kind,
        node="",
        set_by="",
        set_at=None,
        components=_components(context, view.components_of(fingerprint)) if fingerprint else {},
    )


def _groups(context: Context, view: View, baselines: list[BaselineView]) -> tuple[ConformanceGroupView, ...]:
    members: dict[str, list[str]] = {}
    for node, fingerprint in sorted(view.fingerprints().items()):
        members.setdefault(fingerprint, []).append(node)
    expected = {each.fingerprint for each in baselines}
    by_size = sorted(members.items(), key=lambda group: (-len(group[1]), group[0] not in expected, group[0]))
    most = view.components(by_size[0][1][0]) if by_size else {}
    return tuple(
        ConformanceGroupView(
            fingerprint=fingerprint,
            size=len(nodes),
            nodes=tuple(nodes),
            baseline_of=tuple(sorted({each.vcluster for each in baselines if each.fingerprint == fingerprint})),
            differences=_differences(context, differences(most, view.components(nodes[0]))),
        )
        for fingerprint, nodes in by_size
    )


def _drift(context: Context, drift: Drift) -> DriftView:
    limit_s = timeout_s(context.state.settings, drift)
    is_pending = limit_s and not drift.verified_at and not drift.escalated_at
    given_up_at = drift.since + int(limit_s * 1000) if is_pending else 0
    view = drift_view(drift, context.state.nodes[drift.node].state, given_up_at)
    vcluster = drift.vcluster if drift.vcluster in visible_vclusters(context) else ""
    return msgspec.structs.replace(view, vcluster=vcluster, differences=_differences(context, drift.differences))


def _differences(context: Context, found: Iterable[Difference]) -> tuple[DifferenceView, ...]:
    views = difference_views(found)
    return views if _sees_boot_parameters(context) else without_boot_parameters(views)


def _components(context: Context, parts: Mapping[str, str]) -> dict[str, str]:
    sees_all = _sees_boot_parameters(context)
    return {name: value for name, value in parts.items() if sees_all or name != BOOT_PARAMETERS}


def _sees_boot_parameters(context: Context) -> bool:
    return may_at_all(context.identity, Permission.CONTROL_NODES)
