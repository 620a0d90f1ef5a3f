"""The disks of this machine, as the kernel numbers them. Standard library only: the shim lives on this."""

from __future__ import annotations

import os

from lattice.agent.shim.hierarchies import read_bytes

DISKS = "/sys/block"
IN_MEMORY = ("ram", "zram")


def block_devices(folder: str = DISKS) -> list[str]:
    """`MAJOR:MINOR` of each disk that holds something, loop devices included; partitions are limited with their disk."""
    found = []
    for name in sorted(os.listdir(folder)):
        if name.startswith(IN_MEMORY):
            continue
        try:
            if int(read_bytes(f"{folder}/{name}/size")):
                found.append(read_bytes(f"{folder}/{name}/dev").decode().strip())
        except (OSError, ValueError):
            continue  # it was taken away just now
    return found
