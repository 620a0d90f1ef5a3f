"""Alerts on configurations of nodes, which are not moves of nodes."""

# Name, severity, rule, text.
CONFORMANCE = (
    (
        "ConformanceDrift",
        "warning",
        'sum(lattice_conformance_drifted_nodes{stage="open",sensitive="false"}) > 0',
        "{value} nodes differ from their baseline and get no work that others can do. See `lattice admin conformance status`.",
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
        "{value} nodes still differ from their baseline after a reboot. See `lattice admin conformance status`.",
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
