"""Plain English: phrases that docs/words.md replaces do not come back, and prose lines stay readable."""

import re
from pathlib import Path

from tests.architecture.tree import ROOT, files, shown

# Pattern and what to write instead; docs/words.md explains the rules.
PHRASES = {
    r"\b(?:is|are|was|were|be|been|being) told\b": "receives, is notified, learns",
    r"\btold of\b": "reported, notified about",
    r"\bnobody\b": "name the actor: no user, no client, no node",
    r"\bwhoever\b": "name the actor: the client, the caller, its holder",
    r"\b(?:goes|go) on\b": "continues, keeps running",
    r"\bso (?:many|long|often)\b(?! (?:ranges|that|as)\b)": "name the quantity: N, this many, at this interval",
    r"\banew\b": "again, a new",
    r"\bst(?:ands?|ood|anding) still\b": "is suspended, hangs, is paused",
    r"\bservers? that leads?\b": "the leader",
    r"\bwhat there is\b": "what is available, what exists",
    r"\bmend(?:s|ed|ing)?\b": "repair, fix",
    r"\blook(?:s|ed|ing)? after\b": "manage",
    r"\bfor company\b": "so that it can be batched",
    r"\bhand(?:s|ed|ing)? (?:on|over)\b": "pass on, pass to, forward",
    r"\b(?:is|are|was|were|be) had\b": "is available",
    r"\bpassed over\b": "skipped, ignored",
}
SEARCH = {re.compile(pattern, re.IGNORECASE): better for pattern, better in PHRASES.items()}
# Texts that are fixed: refusals that are part of the replicated state, and names of others.
FIXED = (
    'user = "nobody"',
    "`lattice nodes` shows what there is.",
    "an allocation cannot have so many tags",
    "anew=True",
    "anew: bool",
    "With `anew`",
    "if anew else",
    "NOBODY",
)
# Generated code, and the page that lists the phrases.
EXEMPT = (
    "src/lattice/wire/pb",
    "docs/words.md",
)
LONGEST_PROSE_LINE = 160
LITERAL = re.compile(r"`[^`]*`")
LONG_LITERAL = 100  # cannot be broken


def _written() -> list[Path]:
    places = ("src/", "sdk/src/", "docs/", "changes/", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
    kinds = {".py", ".md", ".c"}
    return [path for path in files() if path.suffix in kinds and shown(path).startswith(places)]


def test_old_phrases_stay_out() -> None:
    found = []
    for path in _written():
        if shown(path).startswith(EXEMPT):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if any(fixed in line for fixed in FIXED):
                continue
            for pattern, better in SEARCH.items():
                if match := pattern.search(line):
                    found.append(f'{shown(path)}:{number}: "{match[0]}"; write: {better}')
    assert found == []


def test_the_page_lists_what_fails_and_nothing_else() -> None:
    page = (ROOT / "docs" / "words.md").read_text(encoding="utf-8")
    table = page.partition("| avoid | write |\n|---|---|\n")[2].partition("\n\n")[0]
    listed = [phrase for row in table.splitlines() for phrase in row.split("|")[1].strip().split(", ")]
    assert [phrase for phrase in listed if not any(pattern.search(phrase) for pattern in SEARCH)] == []
    assert [pattern.pattern for pattern in SEARCH if not any(pattern.search(phrase) for phrase in listed)] == []


def test_no_prose_line_is_longer_than_its_wall() -> None:
    found = []
    for path in _written():
        if path.suffix != ".md" or shown(path).startswith("docs/reference/"):
            continue
        is_code = False
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            is_code ^= line.lstrip().startswith("```")
            prose = LITERAL.sub(lambda found: "" if len(found[0]) > LONG_LITERAL else found[0], line)
            if not is_code and not line.lstrip().startswith(("|", "`--")) and len(prose) > LONGEST_PROSE_LINE:
                found.append(f"{shown(path)}:{number}: {len(line)} characters; one idea per line")
    assert found == []
