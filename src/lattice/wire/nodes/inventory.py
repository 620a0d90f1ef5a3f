"""What a node is made of, on the wire."""

import msgspec
from msgspec import Struct

from lattice.core.model.nodes.inventory import Inventory
from lattice.ports.nodes.inventories import KnownInventory
from lattice.wire.nodes.conformance import BOOT_PARAMETERS
from lattice.wire.text.times import rfc3339


class InventoryDocument(Inventory, frozen=True, kw_only=True, omit_defaults=True):
    """The inventory document as the node sent it."""


class NodeInventoryView(Struct, frozen=True, kw_only=True):
    """`components` are the parts of the fingerprint; a stale fingerprint counts as unknown."""

    node: str
    fingerprint: str
    components: dict[str, str]
    received_at: str | None
    age_s: float
    is_stale: bool
    inventory: InventoryDocument


def inventory_view(node: str, known: KnownInventory) -> NodeInventoryView:
    return NodeInventoryView(
        node=node,
        fingerprint=known.fingerprint,
        components=dict(sorted(known.components.items())),
        received_at=rfc3339(known.received_at),
        age_s=round(known.age_s, 3),
        is_stale=known.is_stale,
        inventory=msgspec.json.decode(known.document, type=InventoryDocument),
    )


def without_boot_parameters(view: NodeInventoryView) -> NodeInventoryView:
    """The view for those who do not manage nodes."""
    software = msgspec.structs.replace(view.inventory.software, boot_parameters="")
    kept = {name: value for name, value in view.components.items() if name != BOOT_PARAMETERS}
    document = msgspec.structs.replace(view.inventory, software=software)
    return msgspec.structs.replace(view, components=kept, inventory=document)
