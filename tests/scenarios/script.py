"""The form of a scenario: operations, each followed by `----` and by what came of it, up to an empty line.

    # A comment stays where it is.
    drain_node node=n1 reason="a broken fan"
    ----
    node_moved node=n1 ...

The first word of an operation is its name; `key=value` are options and all others are arguments. Further lines, which are
indented, belong to the operation before them.
"""

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

RULE = "----"


class Malformed(Exception):
    """The text is not a scenario."""


@dataclass
class Words:
    """One line of an operation. Options that were not taken when it is done are misspelt."""

    name: str
    arguments: list[str]
    options: dict[str, object]

    def take(self, key: str, default: object = None) -> object:
        return self.options.pop(key, default)

    def text(self, key: str, default: str = "") -> str:
        return str(self.take(key, default))

    def names(self, key: str) -> list[str]:
        """A list with commas."""
        return [name for name in self.text(key).split(",") if name]

    def rest(self) -> dict[str, object]:
        """All options that are left."""
        options, self.options = self.options, {}
        return options


@dataclass
class Operation:
    text: str
    words: Words
    lines: list[Words] = field(default_factory=list)
    outcome: str = ""


def words(line: str) -> Words:
    name, *others = shlex.split(line)
    options = dict(word.split("=", 1) for word in others if "=" in word)
    return Words(name, [word for word in others if "=" not in word], {k: _value(v) for k, v in options.items()})


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def parse(text: str) -> list[str | Operation]:
    """Operations, and between them the comments and empty lines as they are."""
    found: list[str | Operation] = []
    lines = iter(text.splitlines())
    for line in lines:
        if not line or line.startswith("#"):
            found.append(line)
        else:
            found.append(_operation(line, lines))
    return found


def _operation(first: str, lines: Iterator[str]) -> Operation:
    said, came = [first], list[str]()
    for line in lines:
        if line == RULE:
            break
        if not line.startswith("  "):
            raise Malformed(f"{line!r} is neither indented nor {RULE!r}, after {first!r}")
        said.append(line)
    else:
        raise Malformed(f"{first!r} has no {RULE!r}")
    for line in lines:
        if not line:
            break
        came.append(line)
    return Operation("\n".join(said), words(first), [words(line) for line in said[1:]], "\n".join(came))


def render(parts: list[str | Operation]) -> str:
    """The text of a scenario; `parse` reads it back."""
    blocks: list[str] = []
    for part in parts:
        if isinstance(part, str):
            blocks.append(part)
        else:
            blocks += [part.text, RULE, *([part.outcome] if part.outcome else []), ""]
    return "\n".join(blocks).rstrip("\n") + "\n"
