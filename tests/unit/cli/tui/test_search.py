"""The search language: the same cases are put to the web page by tests/e2e/test_web.py."""

import json
from pathlib import Path

import pytest

from lattice.cli.tui.search import WORDS, understand
from tests.unit.cli.runner import NOON

CASES = json.loads((Path(__file__).parents[3] / "search_language.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["text"] or "nothing")
def test_a_line_asks_for_the_same_as_on_the_web_page(case: dict[str, object]) -> None:
    found = understand(str(case["text"]), NOON)
    wanted = found.filter()
    asked: dict[str, object] = {}
    for key, value in wanted.query():
        asked[key] = [*asked.get("tag", []), value] if key == "tag" else value  # type: ignore[misc]
    assert asked == case["asked"]
    assert found.id == case.get("id", "")
    assert len(found.problems) == case.get("problems", 0)
    assert found.command("ada") == case["command"]


def test_what_is_no_filter_is_named_with_those_that_are() -> None:
    (problem,) = understand("colour:red", NOON).problems
    assert '"colour:"' in problem
    assert all(word in problem for word in WORDS)
