"""What is true of the audit chain after every command, recomputed from its lines. See docs/architecture/core.md."""

from collections.abc import Iterator

from lattice.core.machine.state import State
from lattice.core.model.site.audit import canonical, next_link


def check_audit(state: State) -> Iterator[str]:
    """Every break of the chain, in words."""
    registry, head = state.audit, state.audit.head
    link = head.archived_link
    if list(registry.entries) != list(range(head.archived + 1, head.last + 1)):
        yield f"the audit chain has gaps between {head.archived} and {head.last}"
    for seq, chained in registry.entries.items():
        link = next_link(link, canonical(chained.entry))
        if chained.link != link or chained.entry.seq != seq:
            yield f"the audit chain is broken at entry {seq}"
    if link != head.link:
        yield "the head of the audit chain is not its last link"
    yield from _check_seals(state)


def _check_seals(state: State) -> Iterator[str]:
    registry, head = state.audit, state.audit.head
    place, link = head.archived, head.archived_link
    for last, seal in sorted(registry.seals.items()):
        if (seal.first, seal.previous) != (place + 1, link) or seal.last != last or registry.link_at(last) != seal.head:
            yield f"the seal of the audit entries up to {last} does not fit"
        if seal.key not in registry.keys:
            yield f"the seal of the audit entries up to {last} names no known key"
        place, link = last, seal.head
    if (place, link) != (head.sealed, head.sealed_link):
        yield "the audit chain is not sealed as far as it says"
