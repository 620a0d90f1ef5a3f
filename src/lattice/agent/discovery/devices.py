"""Network interfaces, drives and the board, as the kernel shows them."""

import array
import fcntl
import socket
import struct

from lattice.agent.discovery.tree import Tree, numa_node
from lattice.core.model.nodes.inventory import Board, Drive, Nic

_NET = "sys/class/net"
_SIOCETHTOOL = 0x8946
_ETHTOOL_GDRVINFO = 0x00000003
_DRVINFO_BYTES = 196
_FIRMWARE = slice(68, 100)
_INFINIBAND = "32"  # ARPHRD_INFINIBAND
_SECTOR_BYTES = 512


def read_nics(tree: Tree) -> tuple[Nic, ...]:
    """Interfaces that are a device: bridges, tunnels and the like are not."""
    fabric = _infiniband_firmware(tree)
    found = []
    for name in tree.names(_NET):
        place = f"{_NET}/{name}"
        if not tree.exists(f"{place}/device"):
            continue
        address = pci_address(tree, f"{place}/device")
        found.append(
            Nic(
                name=name,
                driver=tree.target(f"{place}/device/driver"),
                firmware=fabric.get(address, "") or (driver_firmware(name) if tree.is_machine else ""),
                speed_mbps=max(0, tree.number(f"{place}/speed")),
                numa_node=numa_node(tree.text(f"{place}/device/numa_node")),
                pci_address=address,
                kind="infiniband" if tree.text(f"{place}/type") == _INFINIBAND else "ethernet",
            )
        )
    return tuple(found)


def pci_address(tree: Tree, device: str) -> str:
    """Of the device, or of the nearest one above it: a virtio interface lies below its PCI device."""
    parts = tree.whole_target(device).split("/")
    return next((part for part in reversed(parts) if _is_pci(part)), "")


def _is_pci(part: str) -> bool:
    return len(part) == 12 and part[4] == part[7] == ":" and part[10] == "."


def _infiniband_firmware(tree: Tree) -> dict[str, str]:
    place = "sys/class/infiniband"
    found = {
        pci_address(tree, f"{place}/{name}/device"): tree.text(f"{place}/{name}/fw_ver") for name in tree.names(place)
    }
    found.pop("", None)
    return found


def driver_firmware(name: str) -> str:
    """What the interface's driver says; empty for one that has no firmware."""
    buffer = array.array("B", struct.pack("I", _ETHTOOL_GDRVINFO) + bytes(_DRVINFO_BYTES - 4))
    address, _ = buffer.buffer_info()
    request = struct.pack("16sP", name.encode()[:15], address)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
            fcntl.ioctl(handle, _SIOCETHTOOL, request)
    except OSError:
        return ""
    said = buffer.tobytes()[_FIRMWARE].split(b"\0")[0].decode(errors="replace").strip()
    return "" if said.upper() in {"N/A", "NA"} else said


def read_drives(tree: Tree) -> tuple[Drive, ...]:
    place = "sys/class/nvme"
    return tuple(
        Drive(
            name=name,
            model=tree.text(f"{place}/{name}/model"),
            firmware=tree.text(f"{place}/{name}/firmware_rev"),
            size_bytes=sum(_namespaces(tree, name)) * _SECTOR_BYTES,
        )
        for name in tree.names(place)
    )


def _namespaces(tree: Tree, controller: str) -> list[int]:
    names = [name for name in tree.names(f"sys/class/nvme/{controller}") if name.startswith("nvme")]
    return [
        tree.number(f"sys/block/{name}/size") or tree.number(f"sys/class/nvme/{controller}/{name}/size")
        for name in names
        if "c" not in name.removeprefix("nvme")
    ]


def read_board(tree: Tree) -> Board:
    dmi = "sys/class/dmi/id"
    return Board(
        vendor=tree.text(f"{dmi}/sys_vendor"),
        product=tree.text(f"{dmi}/product_name"),
        board_vendor=tree.text(f"{dmi}/board_vendor"),
        board=tree.text(f"{dmi}/board_name"),
        board_version=tree.text(f"{dmi}/board_version"),
        bios_vendor=tree.text(f"{dmi}/bios_vendor"),
        bios_version=tree.text(f"{dmi}/bios_version"),
        bios_date=tree.text(f"{dmi}/bios_date"),
        bmc_version=_bmc(tree),
    )


def _bmc(tree: Tree) -> str:
    place = "sys/bus/platform/devices"
    found = (
        tree.text(f"{place}/{name}/firmware_revision") for name in tree.names(place) if name.startswith("ipmi_bmc")
    )
    return next(filter(None, found), "")


def pci_path(tree: Tree, address: str) -> tuple[str, ...]:
    """The bridges from the root complex down to the device, the device left out."""
    parts = tree.whole_target(f"sys/bus/pci/devices/{address}").split("/")
    begin = next((place for place, part in enumerate(parts) if part.startswith("pci")), len(parts))
    return tuple(parts[begin:-1])
