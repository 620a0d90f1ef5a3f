"""Flags of `lattice-agent` as the handbook of the specification spells them, understood with a note."""

import sys
from collections.abc import Iterator, Sequence

MB_PER_GB = 1024
SPELLINGS = {
    "--quorum-endpoint": "--servers",
    "--cpu-cores": "--cpus",
    "--gpu-count": "--gpus",
    "--memory-gb": "--memory-mb",
}


def understood(words: Sequence[str]) -> list[str]:
    """The command line in the flags of Lattice. A note for each other spelling goes to stderr."""
    return list(_translated(words))


def _translated(words: Sequence[str]) -> Iterator[str]:
    left = iter(words)
    for word in left:
        flag, equals, value = word.partition("=")
        if flag not in SPELLINGS:
            yield word
            continue
        value = value if equals else next(left, "")
        sys.stderr.write(f"lattice-agent: note: {flag} is understood; the flag is {SPELLINGS[flag]}\n")
        if flag == "--memory-gb" and value.isdigit():
            value = str(int(value) * MB_PER_GB)
        yield f"{SPELLINGS[flag]}={value}"
