"""The synthetic-hardware file: a part of an inventory, or a whole one, laid over what was found. For tests and hollow nodes."""

from pathlib import Path
from typing import Any

import msgspec

from lattice.core.model.nodes.inventory import (
    Board,
    Cpus,
    Inventory,
    Software,
    UnusableInventory,
    decode_inventory,
    encode_inventory,
)
from lattice.core.model.nodes.memory import MemoryTopology

MAX_FILE = 1 << 20
# Words of a table that mean nothing are mistyped ones: unlike an agent's, this document is written by hand.
_TABLES = {
    part: kind.__struct_fields__
    for part, kind in (("cpus", Cpus), ("memory", MemoryTopology), ("board", Board), ("software", Software))
}


def overlay(base: Inventory, document: bytes) -> Inventory:
    """The inventory with what the document says: tables are merged, everything else is replaced. Raises UnusableInventory."""
    try:
        given = msgspec.json.decode(document, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnusableInventory(str(error)) from error
    strange = sorted(set(given) - set(Inventory.__struct_fields__))
    if strange:
        raise UnusableInventory(
            f'there is no part "{strange[0][:40]}"; known: {", ".join(Inventory.__struct_fields__)}'
        )
    for part, fields in _TABLES.items():
        table = given.get(part)
        if isinstance(table, dict) and (unknown := sorted(set(table) - set(fields))):
            raise UnusableInventory(f'{part} has no "{unknown[0][:40]}"; known: {", ".join(fields)}')
    merged = _merged(msgspec.json.decode(encode_inventory(base)), given)
    return decode_inventory(msgspec.json.encode(merged))


def _merged(old: Any, new: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}
    return new


class HardwareFile:
    """Read again when it has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None

    def has_changed(self) -> bool:
        """Whether it is another one than was read last."""
        return self._mark() != self._seen

    def laid_over(self, base: Inventory) -> Inventory:
        """Raises UnusableInventory, naming the file."""
        self._seen = self._mark()
        try:
            with open(self.path, "rb") as file:
                document = file.read(MAX_FILE + 1)
            if len(document) > MAX_FILE:
                raise UnusableInventory(f"more than {MAX_FILE} bytes")
            found = overlay(base, document)
        except OSError as error:
            raise UnusableInventory(f"cannot read {self.path}: {error.strerror}") from error
        except UnusableInventory as error:
            raise UnusableInventory(f"{self.path}: {error}") from error
        return msgspec.structs.replace(found, sources=(*base.sources, "file"))

    def _mark(self) -> tuple[int, int, int] | None:
        try:
            about = self.path.stat()
        except OSError:
            return None
        return about.st_mtime_ns, about.st_size, about.st_ino
