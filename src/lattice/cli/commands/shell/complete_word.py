"""`lattice complete-word`: what could stand in place of the last word; called by the shells."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, CommandError
from lattice.cli.flags import FORMATS
from lattice.cli.parsing import build_parser, load_command
from lattice.cli.recent import Recent, read_recent
from lattice.cli.registry import COMMANDS, Branch, Leaf
from lattice_sdk.client import Client
from lattice_sdk.errors import LatticeError

# Commands that take allocations, with the states of those that make sense; none = all.
_ACTIVE = ("Pending", "Suspended", "Starting", "Running", "Checkpointing", "Stopping")
ALLOCATION_WORDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("status", "explain", "logs", "resubmit", "steps"), ()),
    **dict.fromkeys(("wait", "watch", "cancel", "update"), _ACTIVE),
    **dict.fromkeys(("hold", "release"), ("Pending", "Suspended")),
    **dict.fromkeys(("suspend", "resume", "requeue", "launch", "attach"), ("Running",)),
}
NODE_FLAGS = frozenset({"--node", "--nodelist", "--exclude"})
# Below these words stand names of this kind.
_KINDS = {
    ("admin", "tenant"): "tenants",
    ("admin", "vcluster"): "vclusters",
    ("admin", "config"): "settings",
    ("admin", "project"): "projects",
    ("project",): "projects",
    ("dag",): "dags",
}
_FLAG_KINDS = {"--tenant": "tenants", "-t": "tenants", "--vcluster": "vclusters", "--project": "projects"}
ASK_FOR_S = 0.5  # a suggestion that comes later is of no use
MAX_NAMES = 200
STATES = ("Pending", "Suspended", "Running", "Completed", "Failed", "Cancelled")


@dataclass(frozen=True, kw_only=True)
class Options:
    tail: tuple[str, ...] | None = None


def run(options: Options, context: Context) -> int:
    """The words typed so far come after `--`, the unfinished one last, perhaps empty."""
    words = list(options.tail or ("",))
    for candidate in candidates(words[:-1], words[-1], Names(context)):
        context.streams.write(f"{candidate}\n")
    return OK


def candidates(before: list[str], word: str, names: "Names") -> list[str]:
    """Everything that begins like `word` and may stand there."""
    entry, path = _reached(before)
    if len(before) > 1 and before[-1] == "=":  # bash cuts words there
        before = before[:-1]
    flag, separator, value = word.partition("=")
    if isinstance(entry, Branch):
        options = [name for name, child in entry.entries.items() if isinstance(child, Branch) or not child.is_hidden]
    elif separator and flag.startswith("--"):
        return [f"{flag}={found}" for found in _values(flag, names) if found.startswith(value)]
    elif before and before[-1].startswith("-") and _values(before[-1], names):
        options = _values(before[-1], names)
    elif word.startswith("-"):
        options = flags_of(path, entry)
    else:
        options = _names(path, names)
    return [option for option in options if option.startswith(word)]


def _reached(before: list[str]) -> tuple[Leaf | Branch, tuple[str, ...]]:
    entry: Leaf | Branch = Branch("", COMMANDS)
    path: tuple[str, ...] = ()
    for word in before:
        if isinstance(entry, Branch) and word in entry.entries:
            entry, path = entry.entries[word], (*path, word)
    return entry, path


def _values(flag: str, names: "Names") -> list[str]:
    if flag in {"-o", "--output"}:
        return list(FORMATS)
    if flag == "--state":
        return list(STATES)
    if flag in _FLAG_KINDS:
        return names.known(_FLAG_KINDS[flag])
    if flag == "--alloc":
        return names.allocations(("Running",))
    return names.known("nodes") if flag in NODE_FLAGS else []


def _names(path: tuple[str, ...], names: "Names") -> list[str]:
    if path[0] in ALLOCATION_WORDS:
        return names.allocations(ALLOCATION_WORDS[path[0]])
    if path[0] in {"node", "nodes"} or path[-1] in {"drain", "undrain", "approve", "refresh", "wipe"}:
        return names.known("nodes")
    kind = next((kind for words, kind in _KINDS.items() if path[: len(words)] == words), "")
    if kind:
        return names.known(kind)
    return ["bash", "zsh", "fish"] if path[0] in {"completion", "completions"} else []


class Names:
    """Names that exist now or, when no server says so at once, those that were seen lately."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def allocations(self, states: tuple[str, ...]) -> list[str]:
        from lattice_sdk.models.records import AllocationFilter

        def ask(client: Client) -> list[str]:
            return [each.id for each in client.list_allocations(AllocationFilter(states=states), limit=MAX_NAMES).items]

        found = self._asked(ask)
        return self._recent().allocations if found is None else found

    def known(self, kind: str) -> list[str]:
        calls: dict[str, Callable[[Client], list[str]]] = {
            "nodes": lambda client: [node.id for node in client.list_nodes()],
            "tenants": lambda client: [tenant.name for tenant in client.list_tenants()],
            "vclusters": lambda client: [vcluster.name for vcluster in client.list_vclusters()],
            "projects": lambda client: [project.name for project in client.list_projects()],
            "settings": lambda client: [setting.key for setting in client.list_settings()],
            "dags": lambda client: [dag.id for dag in client.list_dags()],
        }
        found = self._asked(calls[kind])
        if found is not None:
            return found[:MAX_NAMES]
        recent = self._recent()
        return {"nodes": recent.nodes, "vclusters": recent.vclusters}.get(kind, [])

    def _asked(self, ask: "Callable[[Client], list[str]]") -> list[str] | None:
        """None when no server answers in time, or it refuses."""
        try:
            with self._context.connect(answer_within_s=ASK_FOR_S) as client:
                return ask(client)
        except (LatticeError, CommandError):
            return None

    def _recent(self) -> Recent:
        return read_recent(self._context.process.environment)


def flags_of(path: tuple[str, ...], leaf: Leaf) -> list[str]:
    """The long flags of a command that are meant to be seen."""
    parser = build_parser(path, leaf, load_command(leaf))
    return sorted(
        flag
        for action in parser._actions
        if action.help is not argparse.SUPPRESS
        for flag in action.option_strings
        if flag.startswith("--")
    )


COMMAND = Command(
    options=Options,
    run=run,
    takes_tail=True,
    examples=("lattice complete-word -- status --st",),
)
