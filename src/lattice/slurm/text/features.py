"""Feature expressions of --constraint: `a&b`, `a|b`, `a&(b|c)`, `[a|b]`, counts `a*2` left out."""

import re
from collections.abc import Callable, Iterator

Holds = Callable[[frozenset[str]], bool]
MAX_TEXT = 1024
MAX_DEPTH = 32
_TOKEN = re.compile(r"[&,|()\[\]]|[^\s&,|()\[\]]+")
_COUNT = re.compile(r"\*\d+$")
_SAYS_MORE = re.compile(r"[|()\[\]*]")
_CLOSING = {"(": ")", "[": "]"}


class TooLong(ValueError):
    """The expression is too long or nested too deeply."""


def plain_features(text: str) -> tuple[str, ...] | None:
    """The names, if every node must have all of them; None for other expressions."""
    if _SAYS_MORE.search(text):
        return None
    return tuple(word.strip() for word in re.split(r"[&,]", text) if word.strip())


def matches_features(text: str) -> Holds | None:
    """Whether a node's features satisfy the expression; None for an invalid one. Raises TooLong."""
    if len(text) > MAX_TEXT:
        raise TooLong(f"a feature expression has at most {MAX_TEXT} characters")
    tokens = _Tokens(_TOKEN.findall(text))
    found = _either(tokens, 0)
    return found if found is not None and tokens.next == "" else None


class _Tokens:
    """The tokens in order; `next` is the next one, "" at the end."""

    def __init__(self, tokens: list[str]) -> None:
        self._rest: Iterator[str] = iter(tokens)
        self.next = next(self._rest, "")

    def take(self) -> str:
        taken, self.next = self.next, next(self._rest, "")
        return taken


def _either(tokens: _Tokens, depth: int) -> Holds | None:
    return _joined(tokens, depth, _both, ("|",), any)


def _both(tokens: _Tokens, depth: int) -> Holds | None:
    return _joined(tokens, depth, _one, ("&", ","), all)


def _joined(
    tokens: _Tokens,
    depth: int,
    read: "Callable[[_Tokens, int], Holds | None]",
    signs: tuple[str, ...],
    of: Callable[[Iterator[bool]], bool],
) -> Holds | None:
    parts: list[Holds] = []
    while True:
        part = read(tokens, depth)
        if part is None:
            return None
        parts.append(part)
        if tokens.next not in signs:
            break
        tokens.take()
    return parts[0] if len(parts) == 1 else lambda features: of(part(features) for part in parts)


def _one(tokens: _Tokens, depth: int) -> Holds | None:
    first = tokens.take()
    if first in _CLOSING:
        if depth == MAX_DEPTH:
            raise TooLong(f"a feature expression is nested at most {MAX_DEPTH} times")
        inner = _either(tokens, depth + 1)
        return inner if tokens.take() == _CLOSING[first] else None
    if first in ("", "&", ",", "|", ")", "]"):
        return None
    name = _COUNT.sub("", first)
    return lambda features: name in features
