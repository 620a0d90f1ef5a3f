"""Where many hands change one record, each of its fields says what holds of it and who may change it."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.tree import ROOT, parsed

SOURCE = ROOT / "src" / "lattice"
# The records that change while others look at them, by module.
HUBS = {
    "agent/machine/state.py": ["AgentState"],
    "agent/shim/run.py": ["Run"],
    "agent/shim/step.py": ["Task", "Step"],
    "agent/shim/table.py": ["RunTable"],
    "agent/shim/steps.py": ["StepTable"],
    "agent/shim_link.py": ["ShimLink"],
    "control/steps/registry.py": ["StepRegistry"],
    "control/steps/live.py": ["LiveStep", "LiveSteps"],
    "control/collectors/tree.py": ["_Post", "CollectorTree"],
    "control/collectors/assignments.py": ["Assignments"],
    "control/collectors/unreported.py": ["UnreportedNodes"],
    "core/scheduler/plan.py": ["_Pass"],
    "core/scheduler/placement/progress.py": ["Progress"],
    "core/scheduler/placement/headroom.py": ["Headroom"],
    "core/scheduler/placement/bounds.py": ["Bounds"],
    "core/scheduler/placement/loans.py": ["Loans"],
    "core/scheduler/placement/victims.py": ["Victims"],
    "core/scheduler/room/room.py": ["Room"],
    "core/scheduler/room/timeline.py": ["Timeline"],
    "core/scheduler/room/lane.py": ["Lane"],
    "core/scheduler/room/journal.py": ["Journal"],
}


def fields_of(body: ast.ClassDef) -> Iterator[ast.stmt]:
    """Declared fields and what `__init__` makes; not its arguments, which are only kept."""
    yield from (node for node in body.body if isinstance(node, ast.AnnAssign))
    for method in body.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            given = {each.arg for each in (*method.args.args, *method.args.kwonlyargs)}
            for node in ast.walk(method):
                if isinstance(node, ast.Assign | ast.AnnAssign):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    is_kept = isinstance(node.value, ast.Name) and node.value.id in given
                    if any(isinstance(target, ast.Attribute) for target in targets) and not is_kept:
                        yield node


def unexplained(text: str, body: ast.ClassDef) -> Iterator[str]:
    """Fields without a comment of their own. One that stands alone above a field is for all below it, up to the next comment."""
    lines = text.splitlines()
    for node in fields_of(body):
        at = node.lineno - 1
        has_own = any("#" in lines[place] for place in range(at, node.end_lineno or node.lineno))
        while at > 0 and not has_own:
            at -= 1
            above = lines[at].strip()
            if above.startswith("#"):
                break
            if "#" in above or not above or above.startswith(("def ", "class ", '"""')) or above.endswith('"""'):
                yield f"{node.lineno} {lines[node.lineno - 1].strip()}"
                break


@pytest.mark.parametrize("module", HUBS)
def test_every_field_of_a_mutable_hub_is_explained(module: str) -> None:
    path = SOURCE / module
    text = path.read_text(encoding="utf-8")
    bodies = {node.name: node for node in ast.walk(parsed(path)) if isinstance(node, ast.ClassDef)}
    assert [f"{module}:{each}" for name in HUBS[module] for each in unexplained(text, bodies[name])] == []


def test_a_field_without_a_comment_is_found() -> None:
    text = (
        "class Hub:\n"
        "    def __init__(self, given):\n"
        "        self.given = given\n"
        "        self.bare = 0\n"
        "        self.told = 0  # how often\n"
        "        self.behind = 0\n"
        "        # Both at once.\n"
        "        self.one = 0\n"
        "        self.two = 0\n"
    )
    (body,) = ast.parse(text).body
    assert isinstance(body, ast.ClassDef)
    assert list(unexplained(text, body)) == ["4 self.bare = 0", "6 self.behind = 0"]
