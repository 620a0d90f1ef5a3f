"""The parts of docs/reference that tell of nodes: what states mean and what a move brings with it."""

from lattice.core.machine.node_effects import EFFECTS, STATES


def meanings() -> list[str]:
    """A row per state."""
    lines = ["| state | | gets new work | keeps its work |", "|---|---|---|---|"]
    for state, meaning in STATES.items():
        lines.append(f"| {state} | {meaning.means} | {_yes(meaning.takes_work)} | {_yes(meaning.keeps_work)} |")
    return lines


def effects() -> list[str]:
    """A row per trigger. Every move is an event `node` of `lattice watch`, an entry of `lattice node events`, and counted."""
    lines = ["| on | when | timer (setting) | work on the node | alert |", "|---|---|---|---|---|"]
    for trigger, effect in EFFECTS.items():
        timer = ", ".join(f"`{name}`" for name in effect.timer.split(", ") if name)
        lines.append(f"| {trigger} | {effect.when} | {timer} | {effect.work} | {effect.severity} |")
    return [
        *lines,
        "",
        "Every move is an entry of `lattice node events NODE` with its actor, its reason and the allocations that lost the node, an event of",
        "`lattice watch`, and counted in `lattice_node_transitions_total{trigger}`.",
    ]


def _yes(value: bool) -> str:
    return "yes" if value else "no"
