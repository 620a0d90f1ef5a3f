"""Which nodes are alike in everything that matters to work spread over them: drivers, firmware, kernel, base image.

See docs/architecture/nodes.md.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256

UNKNOWN_GROUP = -1  # a node of which nothing, or nothing fresh, is known: a group of its own


def fingerprint(components: Mapping[str, str]) -> str:
    """The same for the same components with the same versions, whatever their order."""
    lines = "".join(f"{name}={components[name]}\n" for name in sorted(components))
    return sha256(lines.encode()).hexdigest()


def group_numbers(ids: Iterable[str], fingerprints: Mapping[str, str]) -> list[int]:
    """For each node the number of its conformance group, in order of appearance; UNKNOWN_GROUP without a fingerprint."""
    numbers: dict[str, int] = {}
    groups = []
    for node in ids:
        found = fingerprints.get(node)
        groups.append(numbers.setdefault(found, len(numbers)) if found else UNKNOWN_GROUP)
    return groups
