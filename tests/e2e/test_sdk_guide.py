"""Every program of the guide to the client library runs."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lattice.testing import LocalCluster

pytestmark = pytest.mark.e2e

GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "sdk.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
NOTEBOOK = """
import ast, asyncio, sys
code = compile(open(sys.argv[1]).read(), sys.argv[1], "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
async def cell():
    await eval(code, {"__name__": "__main__"})
asyncio.run(cell())
"""
# What each of them must say, in order.
SAYS = [
    ["Submitted: a", "State: Completed", "hello from a"],
    ["Completed 0 "],
    ["n1"],
    ["10"],
    ["a", "not enough nodes"],
    ["Completed 0:", "3 ended"],
    ["328350", "144", "25"],
    ["True", "default"],
    ["stage", "train"],
    ["not found: "],
    ["default"],
]


def is_cell(program: str) -> bool:
    """Whether it awaits outside any function, as a notebook allows."""
    try:
        compile(program, "guide", "exec")
    except SyntaxError:
        ast.parse(program)  # a mistake of another kind
        return True
    return False


def test_the_guide_has_the_programs_that_are_expected() -> None:
    assert len(PROGRAMS) == len(SAYS)
    assert sum(is_cell(program) for program in PROGRAMS) == 1


@pytest.mark.parametrize("place", range(len(SAYS)))
def test_a_program_of_the_guide_runs(cluster: LocalCluster, tmp_path: Path, place: int) -> None:
    host, port = cluster.api_url.removeprefix("http://").split(":")
    program = PROGRAMS[place].replace('"lattice-api.example.com", 8080', f'"{host}", {port}')
    program = program.replace("eyJ...", cluster.token)
    file = tmp_path / "program.py"
    file.write_text(program)
    command = [sys.executable, "-c", NOTEBOOK] if is_cell(program) else [sys.executable]
    token = tmp_path / "token"
    token.write_text(cluster.token)
    variables = {"LATTICE_API_URL": cluster.api_url, "LATTICE_TOKEN_FILE": str(token)}
    done = subprocess.run(
        [*command, str(file)],
        env={**cluster.environment(), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    rest = done.stdout
    for words in SAYS[place]:
        assert words in rest, done.stdout
        rest = rest[rest.index(words) :]
