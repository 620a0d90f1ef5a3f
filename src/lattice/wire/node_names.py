"""Lists of nodes as people write them: names, and names folded as `n[3-5,7]`."""

import re
from collections.abc import Sequence

from lattice.wire.problems import BadField
from lattice.wire.texts import MAX_LIST, check_names

_COMMA = re.compile(r",(?![^\[]*\])")
_FOLDED = re.compile(r"([^\[\]]*)\[([^\[\]]+)\](.*)", re.DOTALL)
_PIECE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_HINT = "write n1,n[3-5,7]"


def node_names(given: str | Sequence[str], field: str) -> tuple[str, ...]:
    """Each name once, in the order written. Raises BadField."""
    texts = [given] if isinstance(given, str) else given
    names: list[str] = []
    for text in texts:
        for part in _COMMA.split(text):
            if part.strip() or not isinstance(given, str):
                names += _unfolded(part.strip(), field)
            if len(names) > MAX_LIST:
                raise BadField(field, "names too many nodes", limit=f"{MAX_LIST:,}")
    return check_names(names, field)


def _unfolded(part: str, field: str) -> list[str]:
    match = _FOLDED.fullmatch(part)
    if match is None:
        if "[" in part or "]" in part:
            raise BadField(field, f'cannot read "{part[:60]}" as names of nodes', hint=_HINT)
        return [part]
    head, inside, tail = match.groups()
    tails = _unfolded(tail, field) if tail else [""]
    numbers = _numbers(inside, part, field)
    if len(numbers) * len(tails) > MAX_LIST:
        raise BadField(field, "names too many nodes", limit=f"{MAX_LIST:,}")
    return [head + number + rest for number in numbers for rest in tails]


def _numbers(inside: str, part: str, field: str) -> list[str]:
    found: list[str] = []
    for piece in inside.split(","):
        match = _PIECE.fullmatch(piece.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or last < first or last - first > MAX_LIST:
            raise BadField(field, f'cannot read "{part[:60]}" as names of nodes', hint=_HINT)
        found += [str(number).zfill(len(match[1])) for number in range(first, last + 1)]
    return found
