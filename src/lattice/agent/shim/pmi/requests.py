"""What the two wires have in common: a request of a rank, and what happens to ranks that send something else."""

from __future__ import annotations

# What `get_maxes` announces, and what a rank is held to.
MAX_KEY = 64
MAX_VALUE = 1024
MAX_NAME = 256
# Longest line or frame, and how many fields one may have. Clients of both protocols stay far below.
MAX_MESSAGE = 16_384
MAX_FIELDS = 64

Fields = dict[str, str]


class BadRank(Exception):
    """A rank broke the protocol; the text continues a sentence that begins with its rank."""


class Request:
    """One command with its fields."""

    __slots__ = ("fields", "name")

    def __init__(self, name: str, fields: Fields) -> None:
        self.name = name
        self.fields = fields

    def text(self, field: str, most: int) -> str:
        """A field that has to be there and is not longer than `most`."""
        value = self.fields.get(field)
        if value is None:
            raise BadRank(f"sent a {shown(self.name)} request without {field}")
        if len(value) > most:
            raise BadRank(f"sent a {field} of {len(value):,} bytes with {shown(self.name)}; the limit is {most:,}")
        return value

    def number(self, field: str, default: int) -> int:
        """A field that is a number, if it is there at all."""
        value = self.fields.get(field)
        if value is None:
            return default
        digits = value[1:] if value.startswith("-") else value
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
            raise BadRank(f'sent {field}="{shown(value)}" with {shown(self.name)}, which is not a number')
        return int(value)


def decoded(data: bytes) -> str:
    """Text of a rank; both protocols are ASCII."""
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise BadRank("sent bytes that are not PMI") from None


def shown(text: str) -> str:
    """A piece of what a rank sent that may be printed."""
    return "".join(each if each.isprintable() and each.isascii() else "?" for each in text[:40])
