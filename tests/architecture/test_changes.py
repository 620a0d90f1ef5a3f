"""Change fragments have a known category and form, and a release folds them into the changelog."""

import datetime
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, files
from tools import changelog

CHANGES = ROOT / "changes"


def fragments() -> list[Path]:
    return [path for path in files() if path.parent == CHANGES and path.name != "README.md"]


@pytest.mark.parametrize("path", fragments(), ids=lambda path: path.name)
def test_a_fragment_has_a_known_category_and_form(path: Path) -> None:
    changelog.read_fragment(path)


def test_the_changelog_has_only_sections_of_releases() -> None:
    headings = [
        line for line in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines() if line.startswith("## ")
    ]
    assert headings
    assert [line for line in headings if not line[3:4].isdigit()] == [], "write a fragment in changes/ instead"


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("Node Admission.added.md", "Text.\n", "SLUG.CATEGORY.md"),
        ("admission.md", "Text.\n", "SLUG.CATEGORY.md"),
        ("admission.improved.md", "Text.\n", 'unknown category "improved"'),
        ("admission.added.md", "", "one paragraph"),
        ("admission.added.md", "One.\n\nTwo.\n", "one paragraph"),
        ("admission.added.md", "- One.\n", "without a heading or a list"),
        ("admission.added.md", "No full stop\n", "must be sentences"),
    ],
)
def test_a_fragment_of_another_form_is_refused_by_name(tmp_path: Path, name: str, text: str, problem: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(changelog.BadFragment, match=problem) as refused:
        changelog.read_fragments(tmp_path)
    assert name in str(refused.value)


def test_a_release_folds_the_fragments_above_the_older_sections(tmp_path: Path) -> None:
    folder = tmp_path / "changes"
    folder.mkdir()
    (folder / "README.md").write_text("# How\n")
    (folder / "b-repair.fixed.md").write_text("Repaired.\n")
    (folder / "a-thing.added.md").write_text("A thing.\nIt has two sentences.\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\nIntroduction.\n\n## 0.1.0\n\n- Old.\n")
    assert changelog.fold(tmp_path, "0.2.0", datetime.date(2027, 1, 2)) == 2
    assert (tmp_path / "CHANGELOG.md").read_text() == (
        "# Changelog\n\nIntroduction.\n\n"
        "## 0.2.0 (2027-01-02)\n\n"
        "### Added\n\n- A thing.\n  It has two sentences.\n\n"
        "### Fixed\n\n- Repaired.\n\n"
        "## 0.1.0\n\n- Old.\n"
    )
    assert [path.name for path in folder.iterdir()] == ["README.md"]
    assert changelog.fold(tmp_path, "0.2.1", datetime.date(2027, 1, 3)) == 0
