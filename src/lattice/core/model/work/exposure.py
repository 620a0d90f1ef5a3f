"""Ports that an allocation exposes by name, and to whom. See docs/architecture/forwarding.md."""

from collections.abc import Iterable

from msgspec import Struct

MAX_PORT = 65_535
MAX_EXPOSED = 16
MAX_SHARED = 64
MAX_LABEL = 40
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")
_LABEL = _LETTERS | frozenset("0123456789-")


class Exposed(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One port. Its owner always reaches it; others only as this says, and only members of the allocation's tenant."""

    name: str
    port: int = 0  # 0 = chosen by each node
    tenant: bool = False  # every member of the tenant
    users: tuple[str, ...] = ()

    def admits(self, user: str) -> bool:
        """Whether it is shared with this member of the tenant."""
        return self.tenant or user in self.users

    @property
    def variable(self) -> str:
        """The variable that tells the work which port it is."""
        return variable_of(self.name)


def variable_of(name: str) -> str:
    return f"LATTICE_PORT_{name.upper().replace('-', '_')}"


def is_label(name: str) -> bool:
    """Whether a name can be part of an address and of a variable: lower-case letters, digits and single hyphens inside."""
    return (
        0 < len(name) <= MAX_LABEL
        and name[0] in _LETTERS
        and name[-1] != "-"
        and "--" not in name
        and not set(name) - _LABEL
    )


def find_exposed(exposed: Iterable[Exposed], text: str) -> Exposed | None:
    """The exposed port of this name, or of this number as text."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
    return next((each for each in exposed if each.name == text or (number and each.port == number)), None)
