"""The parts of docs/reference that tell of nodes: what states mean, what a move brings with it, and which alerts there are."""

from lattice.core.machine.node_effects import EFFECTS, STATES

# Alerts on configurations, which are not moves of nodes: name, severity, rule, text.
CONFORMANCE = (
    (
        "ConformanceDrift",
        "warning",
        'sum(lattice_conformance_drifted_nodes{stage="open",sensitive="false"}) > 0',
        "{value} nodes differ from their baseline and get no work that others can do. See `lattice admin conformance status`; runbook: conformance.",
    ),
    (
        "ConformanceDriftSensitive",
        "critical",
        'sum(lattice_conformance_drifted_nodes{stage="open",sensitive="true"}) > 0',
        "{value} sensitive nodes differ from their baseline and were drained. Remedy them within 4 h, then `lattice admin node approve NODE`.",
    ),
    (
        "ConformanceDriftPersists",
        "critical",
        'sum(lattice_conformance_drifted_nodes{stage="persistent"}) > 0',
        "{value} nodes still differ from their baseline after a reboot. See `lattice admin conformance status`; runbook: conformance.",
    ),
    (
        "ConformanceDriftEscalated",
        "critical",
        'sum(lattice_conformance_drifted_nodes{stage="escalated"}) > 0',
        "{value} nodes were not remedied in time and are taken out of service. Remedy them, then `lattice node undrain NODE`.",
    ),
    (
        "ConformanceApprovalWaits",
        "warning",
        'sum(lattice_conformance_drifted_nodes{stage="waits"}) > 0',
        "{value} nodes are right again and wait for `lattice admin node approve NODE`.",
    ),
    (
        "ConformanceFragmented",
        "warning",
        "lattice_conformance_groups > 5",
        "There are {value} different configurations: work on several nodes that must be alike may wait long. See `lattice admin conformance status`.",
    ),
    (
        "ConformanceUnknown",
        "warning",
        "min_over_time(lattice_conformance_unknown_nodes[30m]) > 0",
        "{value} nodes have not said for long what they are made of. See `lattice nodes -o wide` and their agents' logs.",
    ),
    (
        "ConformanceSignalsFail",
        "warning",
        'increase(lattice_conformance_signals_total{outcome="failed"}[15m]) > 3',
        "The system that manages the nodes does not take the flags of nodes that differ. See the leader's log and `openchami` in its configuration.",
    ),
)


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


def alerts(note: str) -> str:
    """Every move that an operator has to hear of, as an alert for a monitoring system."""
    lines = [
        note,
        "# Alerts",
        "",
        "What a monitoring system should tell operators, with the rule for Prometheus and the sentence for people. The reason is that of the",
        "node, as `lattice node status NODE` and the node event script show it.",
        "",
        "| alert | severity | rule | text |",
        "|---|---|---|---|",
    ]
    for trigger, effect in EFFECTS.items():
        if effect.severity:
            name = "Node" + "".join(word.capitalize() for word in trigger.split("_"))
            rule = f'increase(lattice_node_transitions_total{{trigger="{trigger}"}}[5m]) > 0'
            lines.append(f"| {name} | {effect.severity} | `{rule}` | {effect.alert} |")
    lines += [f"| {name} | {severity} | `{rule}` | {text} |" for name, severity, rule, text in CONFORMANCE]
    return "\n".join([*lines, ""])


def _yes(value: bool) -> str:
    return "yes" if value else "no"
