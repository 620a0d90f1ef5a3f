"""The search language of the list of allocations, the same as that of the web page (`web/page/search.js`):
`state:failed user:ada node:n[1-4] since:2h tag:x=y`, and bare words. Double quotes keep spaces: `name:"night run"`."""

import re
import shlex
from dataclasses import dataclass, field

from lattice.cli.errors import UsageError
from lattice.cli.times import parse_moment
from lattice_sdk.models.records import AllocationFilter

WORDS = {
    "state": "state of the allocation: pending, running, failed, ... (several with commas)",
    "user": "its user",
    "tenant": "its tenant",
    "project": "its project",
    "vcluster": "its vCluster",
    "name": "its name, as a whole",
    "tag": "a tag: tag:key=value (may be repeated)",
    "node": "a node that it runs or ran on: node:n[1-4]",
    "group": "tasks of a task group: group:a17",
    "since": "ended since: 2h, 3d, or a date; finished ones are shown, too",
    "until": "ended before: 2h, 3d, or a date",
}
_KEYED = re.compile(r"(\w+):(.*)", re.ASCII | re.DOTALL)
_ID = re.compile(r"a?\d+(_\d+)?", re.ASCII)


@dataclass
class Search:
    """What a line of the language asks for; `id` when it names one allocation."""

    values: dict[str, str] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    moments: dict[str, str] = field(default_factory=dict)  # of since and until, as typed
    is_history: bool = False
    is_unfolded: bool = False
    id: str = ""
    problems: list[str] = field(default_factory=list)

    def filter(self) -> AllocationFilter:
        get = self.values.get
        return AllocationFilter(
            states=tuple(part for part in get("state", "").split(",") if part),
            user=get("user", ""),
            tenant=get("tenant", ""),
            vcluster=get("vcluster", ""),
            project=get("project", ""),
            name=get("name", ""),
            group=get("group", ""),
            nodes=get("node", ""),
            tags=tuple(self.tags),
            is_archive_included=self.is_history or bool(self.moments),
            is_unfolded=self.is_unfolded,
            since=get("since", ""),
            until=get("until", ""),
        )

    def command(self, who: str) -> str:
        """The command that shows the same."""
        if self.id:
            return f"lattice status {self.id}"
        if "group" in self.values:
            return f"lattice status --tasks {shlex.quote(self.values['group'])}"
        flags = []
        user = self.values.get("user", "")
        if not user:
            flags.append("--all")
        elif user != who:
            flags.append(f"--user={shlex.quote(user)}")
        for key in ("tenant", "vcluster"):
            if key in self.values:
                flags.append(f"--{key}={shlex.quote(self.values[key])}")
        flags += [f"--{key}={shlex.quote(text)}" for key, text in self.moments.items()]
        for key in ("state", "project", "name", "node"):
            if key in self.values:
                flags.append(f"--{key}={shlex.quote(self.values[key])}")
        flags += [f"--tag={shlex.quote(tag)}" for tag in self.tags]
        flags += ["--tasks"] if self.is_unfolded else []
        verb = "history" if self.is_history or self.moments else "status"
        return " ".join(("lattice", verb, *flags))


def understand(text: str, now: float) -> Search:
    found = Search()
    words, is_open = _words(text)
    if is_open:
        found.problems.append("a quote is not closed")
    for word, is_name in words:
        keyed = _KEYED.fullmatch(word)
        if is_name:
            found.values |= {"name": word} if word else {}
        elif word in ("all", "history"):
            found.is_history = True
        elif word == "tasks":
            found.is_unfolded = True
        elif keyed is not None:
            _take(found, keyed[1], keyed[2], now)
        elif _ID.fullmatch(word):
            found.id = word
        else:
            found.values["name"] = word
    return found


def _words(text: str) -> tuple[list[tuple[str, bool]], bool]:
    """The words, each with whether it began with a quote and so is a name, and whether a quote was left open."""
    found: list[tuple[str, bool]] = []
    word: list[str] | None = None
    is_name = is_quoted = False
    characters = iter(enumerate(text))
    for at, char in characters:
        if char.isspace() and not is_quoted:
            if word is not None:
                found.append(("".join(word), is_name))
            word = None
            continue
        if word is None:
            word, is_name = [], char == '"'
        if char == '"':
            is_quoted = not is_quoted
        elif is_quoted and char == "\\" and text[at + 1 : at + 2] in ('"', "\\"):
            word.append(next(characters)[1])
        else:
            word.append(char)
    if word is not None:
        found.append(("".join(word), is_name))
    return found, is_quoted


def _take(found: Search, key: str, value: str, now: float) -> None:
    if key not in WORDS:
        found.problems.append(f'"{key}:" is no filter; use {", ".join(WORDS)}')
    elif not value:
        found.problems.append(f"{key}: needs a value")
    elif key in ("since", "until"):
        try:
            found.values[key] = parse_moment(value, now, past=True)
        except UsageError:
            found.problems.append(f'{key}: "{value}" is no time; write 2h, 3d or 2026-03-01')
        else:
            found.moments[key] = value
    elif key == "tag":
        found.tags.append(value)
    else:
        found.values[key] = value
