"""What is told of nodes besides their record: how an order for many of them went."""

from msgspec import Struct

from lattice_sdk.models import Refusal


class NodeOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one node of a set: the state it is in now, or why the order was refused."""

    id: str
    ok: bool
    state: str = ""
    error: Refusal | None = None


class NodeOutcomes(Struct, frozen=True, kw_only=True):
    items: list[NodeOutcome] = []
