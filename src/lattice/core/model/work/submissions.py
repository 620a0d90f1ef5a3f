"""What a submission is called beside its number, which a log that lost its end gives again.

See docs/architecture/agent.md.
"""

from lattice.core.model.work.allocations import Allocation


def submission_of(allocation: Allocation) -> str:
    """The same for all runs of an allocation; another one for another submission under the same number."""
    return f"{allocation.number}@{allocation.submitted_at}"
