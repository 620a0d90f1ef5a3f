"""Limits of a process (`ulimit`) that the site sets for all work: `--rlimit memlock=unlimited`, `--rlimit stack=8M:unlimited`."""

import re
import resource
from collections.abc import Mapping

UNLIMITED = "unlimited"
NAMES = tuple(sorted(name.removeprefix("RLIMIT_").lower() for name in vars(resource) if name.startswith("RLIMIT_")))
_BYTES = frozenset({"as", "core", "data", "fsize", "memlock", "msgqueue", "rss", "stack"})
_SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_AMOUNT = re.compile(r"([0-9]{1,18})([KMGT]?)")
_MAX_AMOUNT = (1 << 63) - 1

# Soft and hard limit by the name of the resource; RLIM_INFINITY = unlimited.
Rlimits = Mapping[str, tuple[int, int]]


def parse_rlimit(text: str) -> tuple[str, tuple[int, int]]:
    """NAME=SOFT[:HARD]; ValueError says what is wrong. Without HARD both limits are SOFT."""
    name, equals, values = text.partition("=")
    if not equals:
        raise ValueError(f"not NAME=SOFT[:HARD]: {text!r}")
    if name not in NAMES:
        raise ValueError(f"no such limit: {name!r}; known: {', '.join(NAMES)}")
    soft_text, colon, hard_text = values.partition(":")
    soft = _amount(name, soft_text)
    hard = _amount(name, hard_text) if colon else soft
    if hard != resource.RLIM_INFINITY and (soft == resource.RLIM_INFINITY or soft > hard):
        raise ValueError(f"the soft limit of {name} is above the hard one: {values}")
    return name, (soft, hard)


def what_cannot_be_set(rlimits: Rlimits) -> str:
    """Which of the limits a process without root's rights cannot set here, in words; empty when all can be."""
    above = [name for name, (_, hard) in rlimits.items() if _is_above(hard, _here(name)[1])]
    return f"only root raises these limits above the agent's own: {', '.join(above)}" if above else ""


def _here(name: str) -> tuple[int, int]:
    return resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))


def _is_above(wanted: int, most: int) -> bool:
    return most != resource.RLIM_INFINITY and (wanted == resource.RLIM_INFINITY or wanted > most)


def _amount(name: str, text: str) -> int:
    if text == UNLIMITED:
        return resource.RLIM_INFINITY
    found = _AMOUNT.fullmatch(text)
    if found is None or (found[2] and name not in _BYTES):
        units = ", with K, M, G or T for a size" if name in _BYTES else ""
        raise ValueError(f"not a limit of {name}: {text!r}; give a number{units}, or {UNLIMITED}")
    amount = int(found[1]) << _SHIFTS[found[2]]
    if amount > _MAX_AMOUNT:
        raise ValueError(f"the limit of {name} is too large: {text}")
    return amount
