"""Folds the fragments in changes/ into a section of CHANGELOG.md, as a release does: `python tools/changelog.py 0.2.0`."""

import datetime
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# In the order in which they appear in a section.
CATEGORIES = ("added", "changed", "fixed", "removed", "security")
_NAME = re.compile(r"([a-z0-9]+(?:-[a-z0-9]+)*)\.([a-z]+)\.md")
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_FIRST_SECTION = re.compile(r"^## ", re.MULTILINE)


class BadFragment(ValueError):
    """A file in changes/ that cannot be folded; the message names it."""


@dataclass(frozen=True)
class Fragment:
    path: Path
    category: str
    lines: tuple[str, ...]

    def item(self) -> str:
        return "\n  ".join((f"- {self.lines[0]}", *self.lines[1:]))


def read_fragment(path: Path) -> Fragment:
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise BadFragment(f"{path.name}: the name must be SLUG.CATEGORY.md, with a slug such as node-admission")
    category = match[2]
    if category not in CATEGORIES:
        raise BadFragment(f'{path.name}: unknown category "{category}"; use one of {", ".join(CATEGORIES)}')
    text = path.read_text(encoding="utf-8")
    lines = tuple(text.rstrip("\n").split("\n"))
    if not all(line.strip() == line and line for line in lines):
        raise BadFragment(f"{path.name}: must be one paragraph, without empty or indented lines")
    if lines[0].startswith(("#", "-", "*")) or not lines[-1].endswith("."):
        raise BadFragment(f"{path.name}: must be sentences, without a heading or a list")
    return Fragment(path, category, lines)


def read_fragments(folder: Path) -> list[Fragment]:
    """All fragments by name, which is their order within a category. Raises BadFragment."""
    return [read_fragment(path) for path in sorted(folder.iterdir()) if path.name != "README.md"]


def section(version: str, date: datetime.date, fragments: list[Fragment]) -> str:
    parts = [f"## {version} ({date.isoformat()})"]
    for category in CATEGORIES:
        items = [fragment.item() for fragment in fragments if fragment.category == category]
        if items:
            parts += [f"### {category.capitalize()}", "\n".join(items)]
    return "\n\n".join(parts)


def fold(root: Path, version: str, date: datetime.date) -> int:
    """Writes the section above the older ones and removes the fragments. Returns how many there were."""
    fragments = read_fragments(root / "changes")
    if not fragments:
        return 0
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    older = _FIRST_SECTION.search(text)
    head, tail = (text[: older.start()], text[older.start() :]) if older else (f"{text.rstrip()}\n\n", "")
    changelog.write_text(f"{head}{section(version, date, fragments)}\n\n{tail}".rstrip() + "\n", encoding="utf-8")
    for fragment in fragments:
        fragment.path.unlink()
    return len(fragments)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not _VERSION.fullmatch(arguments[0]):
        print("usage: python tools/changelog.py VERSION, e.g. 0.2.0", file=sys.stderr)
        return 2
    try:
        count = fold(ROOT, arguments[0], datetime.datetime.now(datetime.UTC).date())
    except BadFragment as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"folded {count} fragments into CHANGELOG.md" if count else "changes/ has no fragments")
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
