"""Whole numbers as they stand on a line: digits of ASCII, and no more of them than any number of ours has."""

MAX_DIGITS = 18


def whole(text: str) -> int | None:
    """The number; None for anything else, also for digits that are no decimal ones and for what no counter ever reaches."""
    if not text.isascii() or not text.isdigit() or len(text) > MAX_DIGITS:
        return None
    return int(text)
