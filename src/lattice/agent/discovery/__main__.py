"""Prints this machine's inventory as JSON: `lattice-agent --discover`, or `python -m lattice.agent.discovery`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from lattice.agent.discovery.discover import complete, discover
from lattice.agent.discovery.hardware_file import HardwareFile
from lattice.core.model.nodes.inventory import UnusableInventory, components, encode_inventory, inventory_fingerprint


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="lattice-agent --discover", description="Prints what this machine is made of."
    )
    parser.add_argument("--hardware", type=Path, help="JSON: lay this over what is found")
    options = parser.parse_args(arguments)
    found = complete(discover())
    try:
        found = HardwareFile(options.hardware).laid_over(found) if options.hardware else found
    except UnusableInventory as error:
        sys.stderr.write(f"lattice-agent: {error}\n")
        return 2
    shown = {
        "fingerprint": inventory_fingerprint(found),
        "components": components(found),
        "inventory": msgspec.Raw(encode_inventory(found)),
    }
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(shown), indent=2) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
