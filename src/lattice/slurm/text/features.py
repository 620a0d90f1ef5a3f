"""Feature expressions of --constraint: `a&b`, `a|b`, `a&(b|c)`, `[a|b]`, counts `a*2` left out."""

import re
from collections.abc import Callable

Holds = Callable[[frozenset[str]], bool]
_TOKEN = re.compile(r"\s*([&,|()\[\]]|[^\s&,|()\[\]]+)")
_COUNT = re.compile(r"\*\d+$")


def plain_features(text: str) -> tuple[str, ...] | None:
    """The names, when all of them are wanted of every node; None for anything that says more."""
    if re.search(r"[|()\[\]*]", text):
        return None
    return tuple(word.strip() for word in re.split(r"[&,]", text) if word.strip())


def matches_features(text: str) -> Holds | None:
    """Whether a node's features satisfy the expression; None for what is no expression."""
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != re.sub(r"\s", "", text):
        return None
    found, rest = _either(tokens)
    return found if found is not None and not rest else None


def _either(tokens: list[str]) -> tuple[Holds | None, list[str]]:
    left, rest = _both(tokens)
    while left is not None and rest[:1] == ["|"]:
        right, rest = _both(rest[1:])
        left = None if right is None else _or(left, right)
    return left, rest


def _both(tokens: list[str]) -> tuple[Holds | None, list[str]]:
    left, rest = _one(tokens)
    while left is not None and rest[:1] in (["&"], [","]):
        right, rest = _one(rest[1:])
        left = None if right is None else _and(left, right)
    return left, rest


def _one(tokens: list[str]) -> tuple[Holds | None, list[str]]:
    if not tokens:
        return None, []
    first, *rest = tokens
    if first in ("(", "["):
        inner, rest = _either(rest)
        closing = ")" if first == "(" else "]"
        return (inner, rest[1:]) if rest[:1] == [closing] else (None, rest)
    if first in "&,|)]":
        return None, rest
    name = _COUNT.sub("", first)
    return (lambda features: name in features), rest


def _or(left: Holds, right: Holds) -> Holds:
    return lambda features: left(features) or right(features)


def _and(left: Holds, right: Holds) -> Holds:
    return lambda features: left(features) and right(features)
