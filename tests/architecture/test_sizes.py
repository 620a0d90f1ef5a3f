"""Walls, not goals: a file or function beyond them is split before it is merged."""

import ast
from pathlib import Path

from tests.architecture.tree import ROOT, files, parsed, shown, written_python

CODE_FILE_LINES = 600
TEST_FILE_LINES = 800
FUNCTION_LINES = 60
PAGE_FILE_LINES = 400


def file_wall(path: Path) -> int:
    return TEST_FILE_LINES if ROOT / "tests" in path.parents else CODE_FILE_LINES


def test_no_file_is_longer_than_its_wall() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in written_python()}
    too_long = {shown(path): lines for path, lines in lengths.items() if lines > file_wall(path)}
    assert too_long == {}


def test_no_module_of_the_page_is_longer_than_its_wall() -> None:
    modules = [path for path in files() if path.suffix in {".js", ".css"} and ROOT / "src" in path.parents]
    lengths = {path: len(path.read_text().splitlines()) for path in modules}
    assert modules
    assert {shown(path): lines for path, lines in lengths.items() if lines > PAGE_FILE_LINES} == {}


def test_no_function_is_longer_than_its_wall() -> None:
    too_long = {
        f"{shown(path)}:{node.lineno} {node.name}": length
        for path in written_python()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES
    }
    assert too_long == {}
