"""File names with patterns: `slurm-%j.out`, `log/%x_%A_%4a.txt`."""

import re
from collections.abc import Mapping

BATCH_DEFAULT = "slurm-%j.out"
ARRAY_DEFAULT = "slurm-%A_%a.out"
LETTERS = "jJAaxuNnts"
_PATTERN = re.compile(r"%(\d*)([a-zA-Z%])", re.ASCII)


def fill(pattern: str, values: Mapping[str, str]) -> str:
    """The pattern with its letters expanded; letters without a value stay unchanged. A width pads numbers with zeros."""
    # A backslash anywhere disables all patterns.
    if "\\" in pattern:
        return pattern.replace("\\", "")

    def replaced(found: re.Match[str]) -> str:
        width, letter = found.groups()
        if letter == "%":
            return "%"
        value = values.get(letter)
        if value is None:
            return found[0]
        return value.zfill(min(int(width[:3]), 10)) if width and value.isdigit() else value

    return _PATTERN.sub(replaced, pattern)
