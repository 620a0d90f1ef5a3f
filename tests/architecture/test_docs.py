"""What the documents say about the tree is true: paths and links lead somewhere, and nothing is missing from the lists."""

import re
from pathlib import Path

import pytest

from lattice.observe.figures.specified import SPECIFIED
from tests.architecture.tree import ROOT, files, shown
from tools import code_reference

# Records of the past name what was true then.
HISTORY = {"CHANGELOG.md"}
# A path in backquotes that ends like one of our files, e.g. `core/machine/commands.py` or `tests/chaos/`.
NAMED = re.compile(r"`((?:[\w.-]+/)+(?:[\w.-]+\.(?:py|md|proto|toml|c|json|txt|yaml)|))`")
LINK = re.compile(r"\]\(([^()\s]+)\)")
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
# Where a path names any of a kind: `core/machine/rules/SUBJECT.py`.
PLACEHOLDER = re.compile(r"[A-Z]{2,}")
# Paths may be written from any of these folders.
ROOTS = ("", "src", "src/lattice", "sdk/src", "sdk/src/lattice_sdk", "docs", "docs/reference")
# The first words of paths that are ours; others belong to a node, a user or another project.
OURS = {
    path.relative_to(ROOT / root).parts[0]
    for root in ROOTS
    for path in files()
    if (ROOT / root) in path.parents and len(path.relative_to(ROOT / root).parts) > 1
}
MODULE = re.compile(r"(?<![\w/.{}-])\w[\w/-]*\.py\b")
EXAMPLES = {"train.py"}  # of users
ARCHITECTURE = ROOT / "docs" / "architecture"
REFERENCE = ROOT / "docs" / "reference"
DECISIONS = ROOT / "docs" / "adr"
PARTS_OF_A_DECISION = ["## Context", "## Decision", "## Consequences", "## Rejected"]


def documents() -> list[Path]:
    return [path for path in files() if path.suffix == ".md" and shown(path) not in HISTORY]


def exists(name: str, document: Path) -> bool:
    return any((base / name).exists() for base in (document.parent, *(ROOT / root for root in ROOTS)))


def anchors(document: Path) -> set[str]:
    """The headings of a document as links name them."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", document.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", documents(), ids=shown)
def test_every_path_in_the_docs_exists(document: Path) -> None:
    named = {match.group(1) for match in NAMED.finditer(document.read_text(encoding="utf-8"))}
    ours = {name for name in named if name.split("/")[0] in OURS and not PLACEHOLDER.search(Path(name).name)}
    assert [name for name in sorted(ours) if not exists(name, document)] == []


@pytest.mark.parametrize("document", documents(), ids=shown)
def test_every_link_in_the_docs_leads_somewhere(document: Path) -> None:
    broken = []
    for target in LINK.findall(CODE.sub("", document.read_text(encoding="utf-8"))):
        place, _, anchor = target.partition("#")
        if ":" in place:
            continue  # somewhere else
        path = document.parent / place if place else document
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("document", documents(), ids=shown)
def test_no_literal_in_the_docs_is_broken_over_lines(document: Path) -> None:
    prose = re.sub(r"^ *```.*?^ *```", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in prose.splitlines() if not line.startswith("|")]
    assert [line for line in lines if line.count("`") % 2] == []


def test_the_map_of_the_readme_names_every_package() -> None:
    packages = {path.parent.name for path in (ROOT / "src" / "lattice").glob("*/__init__.py")}
    named = set(re.findall(r"`src/lattice/(\w+)`", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert named == packages


@pytest.mark.parametrize("document", [each for each in documents() if each.parent in (ROOT, ARCHITECTURE)], ids=shown)
def test_every_module_named_in_the_docs_exists(document: Path) -> None:
    """In drawings and tables too, and with as much of its path as is given."""
    modules = [f"/{shown(path)}" for path in files() if path.suffix == ".py"]
    named = set(MODULE.findall(document.read_text(encoding="utf-8")))
    ours = {name for name in named if not PLACEHOLDER.search(Path(name).name)} - EXAMPLES
    assert [name for name in sorted(ours) if not any(module.endswith(f"/{name}") for module in modules)] == []


def test_every_architecture_page_is_listed_and_has_a_drawing() -> None:
    listed = (ARCHITECTURE / "README.md").read_text(encoding="utf-8")
    pages = [path for path in documents() if path.parent == ARCHITECTURE and path.name != "README.md"]
    assert [shown(path) for path in pages if f"]({path.name})" not in listed] == []
    assert [shown(path) for path in pages if not CODE.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("page", [each for each in documents() if each.parent == DECISIONS], ids=shown)
def test_decisions_are_pages_of_one_form(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith(f"# {int(page.name[:4])}. ")
    assert re.match(r"Status: (?:accepted|superseded)", lines[2])
    assert [line for line in lines if line.startswith("## ")] == PARTS_OF_A_DECISION


def test_the_glossary_explains_words_with_two_meanings_and_is_sorted() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    words = [word for word in re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE) if word not in ("word", "---")]
    assert words == sorted(words, key=str.lower)
    clashes = {"group", "pause", "share", "snapshot", "suspend", "Suspended", "reservation"}
    assert clashes - set(words) == set()
    assert {"advance reservation", "backfill reservation", "topology group", "conformance group"} - set(words) == set()


def test_every_reference_page_is_listed() -> None:
    listed = (REFERENCE / "README.md").read_text(encoding="utf-8")
    pages = {path.name for path in files() if path.parent == REFERENCE} - {"README.md"}
    assert sorted(name for name in pages if f"]({name})" not in listed) == []


def test_every_metric_of_an_alert_exists_or_waits_for_its_feature() -> None:
    used = set(re.findall(r"lattice_\w+", (REFERENCE / "alerts.md").read_text(encoding="utf-8")))
    names = {re.sub(r"_(bucket|count|sum)$", "", name) for name in used}
    assert names
    assert names - code_reference.metric_families().keys() - SPECIFIED.keys() == set()


def test_a_name_without_an_explanation_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "schema.py"
    module.write_text("A = 1  # told\n\n# above\nB = (\n    2\n)\nC = 3  # noqa: E501\n")
    monkeypatch.setattr(code_reference, "ROOT", tmp_path)
    comments = code_reference.Comments(module)
    first, second, third = comments.tree.body
    assert (comments.beside(first, "A"), comments.beside(second, "B")) == ("told", "above")
    with pytest.raises(code_reference.Unexplained, match="C has no comment"):
        comments.beside(third, "C")
