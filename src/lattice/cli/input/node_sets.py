"""Sets of nodes on the command line, `nid[001-128,200]`: read before anything is sent, asked about, and told folded."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lattice.cli.context import Context
from lattice.cli.errors import OK, REFUSED, CommandError, UsageError, describe
from lattice.cli.output import structured
from lattice.slurm.text.hostlists import BadHostlist, expand, fold
from lattice_sdk.errors import ApiError
from lattice_sdk.models.nodes import NodeOutcome

K = TypeVar("K")

MANY = 500  # from this many on, print a note that the order is in progress


@dataclass(frozen=True, kw_only=True)
class NodeNames:
    """What was typed, and the names it means, each once."""

    typed: str
    names: tuple[str, ...]

    @property
    def is_one(self) -> bool:
        """One name and no notation: answered with the node itself."""
        return self.names == (self.typed,)

    def __str__(self) -> str:
        count = len(self.names)
        return self.names[0] if count == 1 else f"{count:,} nodes ({fold(self.names)})"


def read_names(words: Sequence[str]) -> NodeNames:
    """Raises UsageError, which shows the place, for a set that cannot be read."""
    typed = ",".join(words)
    try:
        names = tuple(dict.fromkeys(expand(typed)))
    except BadHostlist as error:
        hint = "write n1,n[3-5,7]"
        raise UsageError(f"{error}\n  {typed}\n  {' ' * (error.place - 1)}^", hint=hint) from None
    if not names:
        raise UsageError("no node was named", hint="write n1,n[3-5,7]")
    return NodeNames(typed=typed, names=names)


def confirm(question: str, context: Context) -> None:
    """Asks a person. Raises CommandError when the answer is not yes, UsageError when there is no terminal."""
    if not context.streams.is_interactive:
        raise UsageError("this needs a confirmation, but stdin is not a terminal", hint="add --yes")
    context.streams.complain(f"{question} [y/N] ")
    answer = context.streams.stdin.readline().decode("utf-8", "replace").strip().lower()
    if answer not in {"y", "yes"}:
        raise CommandError("not confirmed; nothing was changed", exit_code=REFUSED)


def announce(doing: str, names: NodeNames, context: Context) -> None:
    """Tells a person at a terminal that something takes a moment."""
    if len(names.names) >= MANY and context.streams.is_interactive:
        context.note(f"{doing} {len(names.names):,} nodes ...")


def tell(outcomes: Sequence[NodeOutcome], context: Context, *, is_one: bool = False, becomes: str = "") -> int:
    """One line per state (or what they become), the nodes folded, and each kind of note and of refusal once; the exit code."""
    if not structured(context, outcomes[0] if is_one and outcomes else list(outcomes)):
        for state, nodes in _grouped((becomes or outcome.state, outcome.id) for outcome in outcomes if outcome.ok):
            context.say(
                f"{nodes[0]} is {state}" if len(nodes) == 1 else f"{len(nodes):,} nodes are {state}: {fold(nodes)}"
            )
        for note in dict.fromkeys(outcome.note for outcome in outcomes if outcome.note):
            context.note(note)
    refused = [outcome for outcome in outcomes if not outcome.ok]
    for said, nodes in _grouped((_refusal(outcome), outcome.id) for outcome in refused):
        message, current, hint = said
        words = message.replace("NODE", nodes[0]) if len(nodes) == 1 else message.replace("node NODE", "each")
        head = "" if len(nodes) == 1 else f"{len(nodes):,} of {len(outcomes):,} nodes were refused, {fold(nodes)}: "
        context.streams.complain(describe(ApiError(head + words, current=current, hint=hint)))
    return REFUSED if refused else OK


def _refusal(outcome: NodeOutcome) -> tuple[str, str, str]:
    error = outcome.error
    if error is None:
        return "it was not done", "", ""
    # The same words for different nodes are one line.
    return error.message.replace(f"node {outcome.id}", "node NODE"), error.current, error.hint


def _grouped(pairs: Iterable[tuple[K, str]]) -> list[tuple[K, list[str]]]:
    """The nodes of each kind, in the order in which the kinds came."""
    groups: dict[K, list[str]] = {}
    for kind, node in pairs:
        groups.setdefault(kind, []).append(node)
    return list(groups.items())
