"""Launches on the wire: what is taken, and what is refused with which words."""

from typing import Any

import pytest

from lattice.core.model.work.layout import Distribution, Layout
from lattice.wire.text.problems import BadField
from lattice.wire.work.steps import ProgramFields, StepSubmission, launch_request, layout_view


def asked(**fields: Any) -> StepSubmission:  # noqa: ANN401 - whatever a caller writes
    return StepSubmission(**{"id": "a1", "argv": ["work"], **fields})


def test_a_launch_as_it_is_asked_for() -> None:
    request = launch_request(asked(tasks=4, node_list=["n[1-2]"], time="5m", environment={"A": "1"}), "L")
    assert (request.argv, request.task_request.tasks, request.task_request.node_list) == (("work",), 4, ("n1", "n2"))
    assert (request.time_s, request.env, request.stdin, request.inherit) == (300.0, {"A": "1"}, "0", True)


@pytest.mark.parametrize(("fields", "tasks"), [({}, 1), ({"tasks": 3}, 3), ({"tasks_per_node": 1}, 0)])
def test_a_terminal_is_of_one_task_unless_more_are_asked_for(fields: dict[str, Any], tasks: int) -> None:
    """A task on every other node would have no terminal, and its failure would end the shell."""
    assert launch_request(asked(pty=True, **fields), "L").task_request.tasks == tasks


def test_programs_have_ranges_of_ranks() -> None:
    program = ProgramFields(ranks="0-3,7", argv=["x", "%t"])
    request = launch_request(asked(argv=[], programs=[program]), "L")
    assert request.programs[0].ranks == ((0, 3), (7, 7))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"argv": []}, "argv: is empty"),
        ({"argv": [""]}, "argv: is empty"),
        ({"tasks": -1}, "tasks: -1 is not possible"),
        ({"cpus_per_task": 0}, "cpus_per_task: 0 is not possible"),
        ({"time": "soon"}, "time:"),
        ({"cwd": "here"}, "cwd:"),
        ({"input": ""}, "input: is empty"),
        ({"pty": True, "output": "x"}, "pty: a terminal cannot be written to files"),
        ({"programs": [ProgramFields(ranks="3-1", argv=["x"])]}, 'programs[0].ranks: cannot read "3-1"'),
        ({"programs": [ProgramFields(ranks="1", argv=[])]}, "programs[0].argv: is empty"),
        ({"programs": [ProgramFields(ranks="0-65535", argv=["x"])] * 5}, "programs: name too many ranks"),
        ({"environment": {"A=B": "1"}}, "environment:"),
    ],
)
def test_what_makes_no_sense_is_named(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(BadField) as problem:
        launch_request(asked(**fields), "L")
    assert str(problem.value).startswith(told)


def test_layouts_are_shown_folded() -> None:
    layout = Layout(nodes=("n1", "n2"), counts=(3, 2), distribution=Distribution.CYCLIC)
    assert [(node.node, node.tasks, node.ranks) for node in layout_view(layout)] == [
        ("n1", 3, "0,2,4"),
        ("n2", 2, "1,3"),
    ]
