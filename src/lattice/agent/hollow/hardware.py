"""What hollow nodes are made of: all alike, as a synthetic-hardware file says; nodes that drift have another firmware and kernel."""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from lattice.agent.discovery.hardware_file import HardwareFile
from lattice.core.model.nodes.inventory import (
    Board,
    Cpus,
    Inventory,
    Software,
    encode_inventory,
    inventory_fingerprint,
)
from lattice.wire.pb import agent_pb2 as pb

MARK_BYTES = 8
_DRIFTED = "-drifted"


class Description(Struct, frozen=True, kw_only=True):
    """An inventory as it is sent, and the mark of it that heartbeats carry."""

    message: pb.AgentMessage
    mark: bytes


def describe(inventory: Inventory) -> Description:
    fingerprint = inventory_fingerprint(inventory)
    sent = pb.Inventory(document=encode_inventory(inventory), fingerprint=fingerprint)
    return Description(message=pb.AgentMessage(inventory=sent), mark=bytes.fromhex(fingerprint)[:MARK_BYTES])


class HollowHardware:
    """`usual` and `drifted` change when the file does; `look` says so."""

    def __init__(self, cpus: int, memory_mb: int, file: Path | None = None) -> None:
        """Raises UnusableInventory."""
        self._base = Inventory(
            cpus=Cpus(model="hollow", cores=cpus, threads=cpus, sockets=1),
            memory_mb=memory_mb,
            board=Board(vendor="Lattice", product="hollow", bios_vendor="Lattice", bios_version="1.0"),
            software=Software(os="hollow", kernel="1.0"),
            sources=("hollow",),
        )
        self._file = None if file is None else HardwareFile(file)
        self._take(self._base if self._file is None else self._file.laid_over(self._base))

    def _take(self, inventory: Inventory) -> None:
        board, software = inventory.board, inventory.software
        drifted = replace(
            inventory,
            board=replace(board, bios_version=board.bios_version + _DRIFTED),
            software=replace(software, kernel=software.kernel + _DRIFTED),
        )
        self.usual, self.drifted = describe(inventory), describe(drifted)

    def look(self, changed: Callable[[], None]) -> None:
        """Reads the file again when it is another one; raises UnusableInventory."""
        if self._file is not None and self._file.has_changed():
            self._take(self._file.laid_over(self._base))
            changed()
