"""The factors of the scheduler's score, for programs that set weights: their names, in order, and what they measure."""

FACTORS = {
    "priority": "the preemption class",
    "wait_time": "time spent waiting",
    "fair_share": "distance of the tenant below its share",
    "topology": "number of topology groups needed (fewer is better)",
    "data_readiness": "fraction of its data that is staged",
    "backlog": "ratio of queued to running work",
    "energy": "current price of energy (cheaper is better)",
    "checkpoint": "cost of a checkpoint (cheaper is better)",
    "conformance": "number of identical nodes",
    "expansion": "time spent waiting relative to walltime",
}
PROFILES = ("hpc", "ml", "service", "sensitive", "interactive", "responsive")
