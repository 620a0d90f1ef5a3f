"""What the nodes said they are made of: kept by the leader, shown by the API."""

from typing import Protocol

from msgspec import Struct


class KnownInventory(Struct, frozen=True, kw_only=True):
    """`document` is the JSON of an Inventory; `age_s` counts from its arrival at this server."""

    fingerprint: str
    components: dict[str, str]
    document: bytes
    received_at: int
    age_s: float
    is_stale: bool


class InventoryRegistry(Protocol):
    """The newest of each node."""

    def get(self, node: str) -> KnownInventory | None:
        """None when the node has said nothing to this server."""
        ...

    def refresh(self, node: str) -> bool:
        """Asks the node to look at itself again; False when its agent cannot be reached."""
        ...


class InventoryLinks(Protocol):
    """The way to the agents."""

    def refresh_inventory(self, node: str) -> bool:
        """Asks for a new inventory; False without a stream to the node."""
        ...
