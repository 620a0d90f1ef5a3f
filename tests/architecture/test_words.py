"""What may not be written down: where it was built, how it was built, stubs,
and a second word for an allocation.

The patterns are put together from pieces, so that this file passes itself."""

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.tree import PACKAGES, ROOT, files, parsed, python_under, shown

PLACES = {
    "a path of some developer's machine": r"(?<![\w.])/" + "w" + "ork/",
    "a package index": r"(?:https?|file)://\S*(?:" + "|".join(["py" + "pi", "artifactory", "nexus", "jfrog"]) + ")",
    "an index option": "--(?:extra-)?index" + r"-url[= ]\S",
}
MAKING = {
    "a word about how it was made": r"(?i)\b(?:"
    + "|".join(["cla" + "ude", "anthro" + "pic", "chat" + "gpt", "sub" + "agent", "this " + "session"])
    + r")\b",
    "a number that no document here explains": r"\b(?:R[1-9]\d?|S[0-4]\d)\b",
}
UNFINISHED = {
    "a stub": r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "NotImplemented" + "Error"]) + r")\b",
    "a test that asserts nothing": r"\bassert " + r"True\b",
}
ALLOCATION = re.compile(r"(?i)(?<![a-z])jobs?(?![a-z])")
VARIABLES_OF_OTHERS = re.compile(r"\b(?:LATTICE_JOB_NAME|SLURM_\w+|PMI_\w+|job-getid)\b")
# Keys of a report that others compare with theirs.
KEYS_OF_OTHERS = {
    ("src/lattice/replay/report.py", '"jobs": outcome.allocations,'),
    ("src/lattice/observe/figures/scheduling.py", '"lattice_scheduling_backfill_jobs",'),
    ("src/lattice/observe/dashboards/panels.py", '_BACKFILLED = "lattice_scheduling_backfill_jobs_total"'),
    ("src/lattice/observe/figures/specified.py", '"lattice_scheduling_backfill_jobs_total": PUBLIC,'),
}
# Where Slurm is spoken of, or spoken.
SLURM_WORDS = {ROOT / "src" / "lattice" / place for place in ("slurm", "api/slurm", "cli/slurm")}


# Words that only this code base understood, and what is said instead (docs/glossary.md).
RETIRED = {
    "desk": "service or sink",
    "book": "registry",
    "story": "history",
    "stories": "histories",
    "believer": "verifier set",
    "familiar": "account cache",
    "intake": "prepared submission",
    "foresight": "dry run",
    "screening": "submit filter",
    "knock": "probe",
    "outlet": "sender",
    "outlets": "senders",
    "wish": "request",
    "wishes": "requests",
    "entrance": "listener",
    "reception": "registrar",
    "attendance": "attached step",
    "most": "max, at the front: MAX_TASKS",
    "at_once": "batch or concurrency",
}
# `most` and `at_once` are words of their own in lower case.
RETIRED_IN_CONSTANTS = {"most", "at_once"}
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def findings(pattern: str, *, suffixes: tuple[str, ...] = ()) -> list[str]:
    search = re.compile(pattern).search
    return [
        f"{shown(path)}:{number}: {line.strip()[:120]}"
        for path in files()
        if (not suffixes or path.suffix in suffixes) and (text := read(path)) is not None
        for number, line in enumerate(text.splitlines(), start=1)
        if search(line)
    ]


@pytest.mark.parametrize("what", PLACES)
def test_the_tree_names_no_place_where_it_was_built(what: str) -> None:
    assert findings(PLACES[what]) == [], what


@pytest.mark.parametrize("what", MAKING)
def test_the_tree_speaks_of_the_product_alone(what: str) -> None:
    assert findings(MAKING[what]) == [], what


@pytest.mark.parametrize("what", UNFINISHED)
def test_nothing_is_left_as_a_stub(what: str) -> None:
    generated = "src/lattice/wire/pb/"
    found = findings(UNFINISHED[what], suffixes=(".py", ".proto", ".sh"))
    assert [line for line in found if not line.startswith(generated)] == [], what


def test_the_pins_name_no_address() -> None:
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in pins if "://" in line or line.startswith("-")] == []


def test_the_word_is_allocation() -> None:
    found = [
        f"{shown(path)}:{number}: {line.strip()}"
        for path in python_under(*PACKAGES)
        if SLURM_WORDS.isdisjoint(path.parents)
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if (shown(path), line.strip()) not in KEYS_OF_OTHERS and ALLOCATION.search(VARIABLES_OF_OTHERS.sub("", line))
    ]
    assert found == []


def named_in(path: Path) -> set[str]:
    """Every name that the module defines: classes, functions, parameters, variables, attributes."""
    found: set[str] = set()
    for node in ast.walk(parsed(path)):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                found.add(name)
    return found


def retired_words(name: str) -> set[str]:
    is_constant = name.upper() == name
    parts = {word.lower() for word in WORDS.findall(name)} | ({"at_once"} if "AT_ONCE" in name else set())
    return {word for word in RETIRED if word in parts and (is_constant or word not in RETIRED_IN_CONSTANTS)}


def test_names_are_words_that_a_newcomer_knows() -> None:
    found = [
        f"{shown(path)}: {name}: say {', '.join(RETIRED[word] for word in sorted(words))}"
        for path in python_under(*PACKAGES)
        for name in sorted(named_in(path))
        if (words := retired_words(name))
    ]
    assert found == []
