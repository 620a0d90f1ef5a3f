"""Plays every scenario and compares what came of each operation with what is written under it.

`pytest tests/scenarios --rewrite-scenarios` writes down what comes of them now; read the difference before you commit it.
"""

import asyncio
from pathlib import Path

import pytest

from tests.scenarios.agent import Agent
from tests.scenarios.cluster import Cluster
from tests.scenarios.script import Malformed, Operation, parse, render

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*.txt"))
WORLDS: dict[str, type[Cluster] | type[Agent]] = {"cluster": Cluster, "agent": Agent}


async def play(text: str) -> str:
    """The scenario with the outcomes as they are now."""
    parts = parse(text)
    operations = [part for part in parts if isinstance(part, Operation)]
    if not operations or operations[0].words.name not in WORLDS:
        raise Malformed(f"the first operation is one of: {', '.join(WORLDS)}")
    world = WORLDS[operations[0].words.name](operations[0].words)
    for operation in operations:
        try:
            operation.outcome = await world.perform(operation)
        except Exception as error:
            error.add_note(f"in the scenario at: {operation.text}")
            raise
    return render(parts)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_scenario(file: Path, request: pytest.FixtureRequest) -> None:
    written = file.read_text()
    played = asyncio.run(play(written))
    if request.config.getoption("rewrite_scenarios"):
        file.write_text(played)
    else:
        assert played == written, f"other outcomes than in {file.name}; --rewrite-scenarios records them"


def test_a_scenario_plays_the_same_every_time() -> None:
    for file in FILES:
        first, second = (asyncio.run(play(file.read_text())) for _ in range(2))
        assert first == second, file.name


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cluster nodes=1\n", "has no '----'"),
        ("agent\nfoo\n----\n", "neither indented"),
        ("place a1 n1\n----\n", "the first operation is one of"),
        ("cluster nodes=1\n----\n\nfly a1\n----\n", "no such operation: fly"),
        ("agent\n----\n\nfly 7.1\n----\n", "no such operation: fly"),
        ("agent\n----\n\ntick 1 herd=2\n----\n", "no such option: herd"),
    ],
)
def test_a_mistake_in_a_scenario_is_named(text: str, problem: str) -> None:
    with pytest.raises(Malformed, match=problem):
        asyncio.run(play(text))


def test_comments_and_layout_survive_a_rewrite() -> None:
    text = "# First.\nagent\n----\nnothing to do\n\n# Second.\n\ntick 1\n----\nnothing to do\n"
    assert asyncio.run(play(text)) == text
