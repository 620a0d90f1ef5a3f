"""A DAG's graph: its edges, how deep each member stands, and drawings of it for a terminal and as SVG."""

from collections.abc import Sequence
from html import escape

from lattice.core.model.ids import allocation_id, dag_id
from lattice.core.model.work.allocations import AllocationState
from lattice.core.model.work.dags import Dag
from lattice.core.model.work.dependencies import Condition
from lattice.wire.work.dags import DagEdge, DagGraph, DagNode, Member, member_head, member_state

_ACTIVE = "#aed4f5"
_COLOURS = {
    AllocationState.PENDING: "#d9d9d9",
    AllocationState.COMPLETED: "#b7e1b0",
    AllocationState.FAILED: "#f3b0ab",
    AllocationState.CANCELLED: "#c9b8d8",
    AllocationState.STAGING: _ACTIVE,
    AllocationState.STARTING: _ACTIVE,
    AllocationState.RUNNING: _ACTIVE,
    AllocationState.CHECKPOINTING: _ACTIVE,
    AllocationState.SUSPENDED: _ACTIVE,
    AllocationState.STOPPING: _ACTIVE,
}
# partial: the others are drawn solid
_DASHES = {Condition.FAILURE: "6,3", Condition.ANY: "2,3", Condition.AFTER: "8,3,2,3"}
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 180, 44, 70, 18, 16
_MAX_LABEL = 24


def dag_graph(dag: Dag, members: list[Member]) -> DagGraph:
    """Members in order of submission, edges by successor."""
    names = {member.number: member_head(member).dag_ref for member in members}
    edges = tuple(
        DagEdge(
            source=names.get(each.number) or allocation_id(each.number),
            target=names[member.number],
            condition=each.condition,
            clause=place,
            delay_s=each.delay_s,
        )
        for member in members
        for place, clause in enumerate(member_head(member).depends_on)
        for each in clause
    )
    depths = _depths(members)
    nodes = tuple(
        DagNode(
            ref=names[member.number],
            id=allocation_id(member.number),
            state=member_state(member),
            depth=depths[member.number],
        )
        for member in members
    )
    return DagGraph(
        id=dag_id(dag.number),
        name=dag.name,
        state=dag.state,
        allocations=nodes,
        edges=edges,
        text=draw_text(nodes, edges),
    )


def _depths(members: list[Member]) -> dict[int, int]:
    """The longest way from a member without predecessors. A member has a higher number than those it needs."""
    depths: dict[int, int] = {}
    for member in sorted(members, key=lambda each: each.number):
        needed = [each.number for clause in member_head(member).depends_on for each in clause]
        depths[member.number] = 1 + max((depths[number] for number in needed if number in depths), default=-1)
    return depths


def draw_text(nodes: Sequence[DagNode], edges: Sequence[DagEdge]) -> str:
    """A line per chain: a member, an arrow, the first that follows; further ones branch off below it."""
    states = {node.ref: str(node.state) for node in nodes}
    after: dict[str, list[DagEdge]] = {}
    for edge in edges:
        after.setdefault(edge.source, []).append(edge)
    drawn: set[str] = set()
    lines: list[str] = []
    targets = {edge.target for edge in edges}
    outside = [source for source in after if source not in states]
    for root in [*outside, *(node.ref for node in nodes if node.ref not in targets)]:
        _draw_from(root, "", _Drawing(states, after, drawn, lines))
    return "\n".join(lines) + "\n" if lines else ""


class _Drawing:
    def __init__(
        self, states: dict[str, str], after: dict[str, list[DagEdge]], drawn: set[str], lines: list[str]
    ) -> None:
        self.states = states
        self.after = after
        self.drawn = drawn
        self.lines = lines

    def label(self, ref: str) -> str:
        return f"{ref} [{self.states[ref]}]" if ref in self.states else ref


def _draw_from(root: str, indent: str, drawing: _Drawing) -> None:
    """Draws one member and all that follows it, without recursion: chains may be long."""
    open_ends: list[tuple[str, str, str]] = [(indent, "", root)]
    while open_ends:
        before, arrow, ref = open_ends.pop()
        line = before + arrow
        while True:
            seen = ref in drawing.drawn
            line += drawing.label(ref) + (" ..." if seen and drawing.after.get(ref) else "")
            drawing.drawn.add(ref)
            following = [] if seen else drawing.after.get(ref, [])
            if not following:
                break
            below = " " * min(len(line), 60)
            open_ends += [(below, f" ↘{_mark(edge)} ", edge.target) for edge in reversed(following[1:])]
            line += f" →{_mark(following[0])} "
            ref = following[0].target
        drawing.lines.append(line.rstrip())


def _mark(edge: DagEdge) -> str:
    return "" if edge.condition is Condition.SUCCESS else f"({edge.condition})"


def draw_svg(graph: DagGraph) -> str:
    """Boxes in columns by depth, arrows with their conditions."""
    places: dict[str, tuple[int, int]] = {}
    heights: dict[int, int] = {}
    for node in graph.allocations:
        row = heights.get(node.depth, 0)
        heights[node.depth] = row + 1
        places[node.ref] = (_MARGIN + node.depth * (_WIDTH + _GAP_X), _MARGIN + row * (_HEIGHT + _GAP_Y))
    width = 2 * _MARGIN + (max(heights, default=0) + 1) * (_WIDTH + _GAP_X) - _GAP_X
    height = 2 * _MARGIN + max(heights.values(), default=1) * (_HEIGHT + _GAP_Y) - _GAP_Y
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f"<title>{escape(graph.name or graph.id)}: {graph.state}</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>',
        *(_svg_edge(edge, places) for edge in graph.edges if edge.source in places),
        *(_svg_node(node, places[node.ref]) for node in graph.allocations),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _svg_edge(edge: DagEdge, places: dict[str, tuple[int, int]]) -> str:
    (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
    x1, y1, y2 = x1 + _WIDTH, y1 + _HEIGHT // 2, y2 + _HEIGHT // 2
    bend = (x2 - x1) // 2
    dash = f' stroke-dasharray="{_DASHES[edge.condition]}"' if edge.condition in _DASHES else ""
    path = f"M{x1},{y1} C{x1 + bend},{y1} {x2 - bend},{y2} {x2},{y2}"
    line = f'<path d="{path}" fill="none" stroke="#555"{dash} marker-end="url(#tip)"/>'
    if edge.condition is Condition.SUCCESS:
        return line
    middle = f'x="{(x1 + x2) // 2}" y="{(y1 + y2) // 2 - 4}"'
    return f'{line}<text {middle} text-anchor="middle" fill="#555" font-size="10">{edge.condition}</text>'


def _svg_node(node: DagNode, place: tuple[int, int]) -> str:
    x, y = place
    label = node.ref if len(node.ref) <= _MAX_LABEL else node.ref[: _MAX_LABEL - 1] + "…"
    colour = _COLOURS[node.state]
    return (
        f"<g><title>{escape(node.ref)} {node.id}: {node.state}</title>"
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="{colour}" stroke="#555"/>'
        f'<text x="{x + _WIDTH // 2}" y="{y + 18}" text-anchor="middle" font-weight="bold">{escape(label)}</text>'
        f'<text x="{x + _WIDTH // 2}" y="{y + 34}" text-anchor="middle">{node.id} · {node.state}</text></g>'
    )
