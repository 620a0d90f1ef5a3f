"""Integers on a command line: ASCII digits, and no more of them than any of our numbers has."""

MAX_DIGITS = 18


def whole(text: str) -> int | None:
    """The number; None for anything else, including non-ASCII digits and numbers beyond any counter."""
    if not text.isascii() or not text.isdigit() or len(text) > MAX_DIGITS:
        return None
    return int(text)
