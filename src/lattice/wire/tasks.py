"""Task lists as people write them: `0-99`, `0-99:2`, `1,3,5-9`, each with `%N` for how many may run at once."""

import re

from lattice.wire.problems import BadField

MAX_TASKS = 100_000
MAX_INDEX = 999_999_999
_ITEM = re.compile(r"(\d{1,10})(?:-(\d{1,10})(?::(\d{1,10}))?)?", re.ASCII)
_HINT = "write 0-99, 0-99:2, 1,3,5-9 or 0-99%20 (at most 20 at a time)"

Blocks = tuple[tuple[int, int, int], ...]


def parse_tasks(text: str) -> tuple[Blocks, int]:
    """Blocks of (first, last, step) in the order written, and how many may run at once (0 = all). Raises BadField."""
    listed, percent, most = text.strip().partition("%")
    concurrency = 0
    if percent:
        if not (most.isascii() and most.isdigit() and len(most) < 10 and int(most) > 0):
            raise BadField("tasks", f'cannot read "%{most[:40]}"', hint=_HINT)
        concurrency = int(most)
    blocks = tuple(_block(item) for item in listed.split(","))
    size = sum((last - first) // step + 1 for first, last, step in blocks)
    if size > MAX_TASKS:
        raise BadField("tasks", "too many tasks", current=f"{size:,} tasks", limit=f"{MAX_TASKS:,} tasks")
    _refuse_repeats(blocks)
    return blocks, min(concurrency, size)


def _block(item: str) -> tuple[int, int, int]:
    match = _ITEM.fullmatch(item.strip())
    if match is None:
        raise BadField("tasks", f'cannot read "{item.strip()[:40]}"', hint=_HINT)
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    if last < first:
        raise BadField("tasks", f"{first}-{last} runs backwards", hint=_HINT)
    if last > MAX_INDEX:
        raise BadField("tasks", f"index {last} is too large", limit=f"{MAX_INDEX:,}")
    if step < 1:
        raise BadField("tasks", "a step of 0 never ends", hint=_HINT)
    return first, last - (last - first) % step, step


def _refuse_repeats(blocks: Blocks) -> None:
    if len(blocks) == 1:
        return
    seen: set[int] = set()
    for first, last, step in blocks:
        block = range(first, last + 1, step)
        if not seen.isdisjoint(block):
            twice = min(seen.intersection(block))
            raise BadField("tasks", f"index {twice} occurs twice", hint=_HINT)
        seen.update(block)
