"""Amounts as Slurm writes them: memory, counts with K and M, node ranges, generic resources."""

import re
from typing import NamedTuple

_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)b?$", re.IGNORECASE)
_SCALE_KB = {"k": 1, "": 1024, "m": 1024, "g": 1024**2, "t": 1024**3}
_COUNT = re.compile(r"(\d+)([km]?)$", re.IGNORECASE)
_NODES = re.compile(r"(\d+[km]?)(?:-(\d+[km]?))?(?::\d+)?$", re.IGNORECASE)


LARGEST = 1 << 40  # larger than any valid amount


class Gpus(NamedTuple):
    """The GPUs in a request for generic resources; `others` are the names of the rest."""

    number: int
    kind: str = ""
    others: tuple[str, ...] = ()


def parse_memory_mb(text: str) -> int | None:
    """Whole megabytes, rounded up; a bare number is megabytes. None for an invalid size."""
    found = _MEMORY.match(text.strip())
    if found is None:
        return None
    kilobytes = float(found[1]) * _SCALE_KB[found[2].lower()]
    return -int(-kilobytes // 1024) if kilobytes <= LARGEST else None


def format_memory(megabytes: int) -> str:
    """`100M`, `4G`: the largest unit that divides it."""
    if megabytes and megabytes % 1024 == 0:
        gigabytes = megabytes // 1024
        return f"{gigabytes // 1024}T" if gigabytes % 1024 == 0 else f"{gigabytes}G"
    return f"{megabytes}M"


def parse_count(text: str) -> int | None:
    """An integer, also 4k or 1m."""
    found = _COUNT.match(text.strip())
    if found is None:
        return None
    number = int(found[1]) * {"": 1, "k": 1024, "m": 1024**2}[found[2].lower()] if len(found[1]) < 16 else LARGEST + 1
    return number if number <= LARGEST else None


def parse_nodes(text: str) -> tuple[int, int] | None:
    """Minimum and maximum number of nodes; the maximum is 0 if only one number was given."""
    found = _NODES.match(text.strip())
    if found is None:
        return None
    least = parse_count(found[1]) or 0
    most = (parse_count(found[2]) or 0) if found[2] else 0
    return (least, most) if least and (not found[2] or most >= least) else None


def parse_gpus(text: str) -> Gpus | None:
    """`4`, `h100:4` (--gpus and similar options)."""
    kind, separator, count = text.strip().rpartition(":")
    number = parse_count(count)
    if number is None or (separator and not kind):
        return None
    return Gpus(number, kind)


def parse_gres(text: str) -> Gpus | None:
    """`gpu`, `gpu:2`, `gpu:h100:2`, several separated by commas; None for an invalid one."""
    count, kind, others = 0, "", []
    for item in text.split(","):
        words = [word for word in item.strip().split("(")[0].split(":") if word]
        if not words:
            return None
        name, *rest = words
        if name in ("none", "NONE"):
            continue
        if name != "gpu":
            others.append(name)
            continue
        number = parse_count(rest[-1]) if rest else 1
        if number is None:
            number, kind = 1, rest[-1]
        elif len(rest) > 1:
            kind = rest[0]
        count += number
    return Gpus(count, kind, tuple(others))
