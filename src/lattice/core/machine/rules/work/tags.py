"""Tags of an allocation may change for as long as it lives: some set, some dropped, in one step.

See docs/architecture/core.md.
"""

from lattice.core.machine import commands as cmd
from lattice.core.machine.outcomes import Rejected
from lattice.core.model.work.allocations import Allocation

MAX_TAGS = 64
Tags = tuple[tuple[str, str], ...]


def check_tags(allocation: Allocation, command: cmd.UpdateAllocation) -> Rejected | None:
    after = changed_tags(allocation.tags, command)
    if after is None or len(after) <= MAX_TAGS:
        return None
    return Rejected(
        code="invalid",
        message="an allocation cannot have so many tags",
        current=f"{len(allocation.tags)} tags",
        requested=f"{len(after)} tags",
        limit=f"{MAX_TAGS} tags",
        hint="Drop some with --untag.",
    )


def changed_tags(tags: Tags, command: cmd.UpdateAllocation) -> Tags | None:
    """The tags afterwards, sorted by key; None when the command is not about tags."""
    if not command.set_tags and not command.drop_tags:
        return None
    after = {**dict(tags), **dict(command.set_tags)}
    for key in command.drop_tags:
        after.pop(key, None)
    return tuple(sorted(after.items()))
