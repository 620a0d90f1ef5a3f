"""Which node of a step gives to which: all to the first (a star), or in a large step to heads of branches, which give to the first. Pure.

Branches are runs of consecutive nodes that begin with their head, so that keys joined in the order of members are in that of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence


class Tree:
    """`heads` are the places of the heads in ascending order, none for a star; the first of them is 1."""

    __slots__ = ("_heads", "_size")

    def __init__(self, size: int, heads: Sequence[int] = ()) -> None:
        """Raises ValueError."""
        if heads and (heads[0] != 1 or heads[-1] >= size or list(heads) != sorted(set(heads))):
            raise ValueError(f"pmi.heads: no tree of {size} nodes has the heads {list(heads)[:5]}")
        self._size = size
        self._heads = tuple(heads)

    @property
    def is_star(self) -> bool:
        return not self._heads

    def is_head(self, place: int) -> bool:
        return place in self._heads

    def parent(self, place: int) -> int:
        """To which node this one gives; the first gives to none."""
        if not self._heads or place in self._heads:
            return 0
        return max(head for head in self._heads if head < place)

    def below(self, place: int) -> dict[int, Sequence[int]]:
        """The members of a node to which others give, and the places that each of them brings."""
        if place == 0 and self._heads:
            ends = (*self._heads[1:], self._size)
            branches: dict[int, Sequence[int]] = {
                head: range(head, end) for head, end in zip(self._heads, ends, strict=True)
            }
            return {0: (0,), **branches}
        if place == 0:
            return {each: (each,) for each in range(self._size)}
        end = min((head for head in self._heads if head > place), default=self._size)
        return {each: (each,) for each in range(place, end)}
