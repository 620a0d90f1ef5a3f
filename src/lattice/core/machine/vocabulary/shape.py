"""What all commands and all events have in common. See docs/architecture/core.md."""

from msgspec import Struct


class Command(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="do"):
    """Common shape of all commands; the tag is the name on the wire and never changes."""


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event"):
    """Common shape of all events."""
