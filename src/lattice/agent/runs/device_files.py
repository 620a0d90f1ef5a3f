"""Which device files a run that shares its node may open: what every program needs, the site's list, and its own GPUs' files.

Work that has the whole node is not confined. The rules go to the shim as `c MAJOR:MINOR`, as the kernel knows devices.
"""

import glob
import os
import stat

import msgspec

from lattice.core.model.nodes.gpus import GpuTopology, GpuVendor

# null, zero, full, random, urandom, tty, ptmx and the terminals.
STANDARD = ("c 1:3", "c 1:5", "c 1:7", "c 1:8", "c 1:9", "c 5:0", "c 5:2", "c 136:*")
# What every program needs that uses any GPU of the vendor.
SHARED = {
    GpuVendor.NVIDIA: (
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia-uvm-tools",
        "/dev/nvidia-modeset",
        "/dev/nvidia-caps-imex-channels/*",
    ),
    GpuVendor.AMD: ("/dev/kfd",),
}
_FIRST_RENDERER = 128
MAX_RULES = 512  # of the shim


class DeviceFiles(msgspec.Struct, frozen=True, kw_only=True):
    """`site` are the names, with `*`, that the site gives to every run."""

    gpus: GpuTopology = GpuTopology()
    is_amd: bool = False  # of GPUs that the topology does not describe
    site: tuple[str, ...] = ()

    def rules(self, gpus: tuple[int, ...]) -> list[str]:
        """For a run that has these GPUs; files that do not exist are left out."""
        names = list(self.site)
        known = {device.index: device for device in self.gpus.gpus}
        vendors = set()
        for gpu in gpus:
            device = known.get(gpu)
            vendor = device.vendor if device else GpuVendor.AMD if self.is_amd else GpuVendor.NVIDIA
            vendors.add(vendor)
            names += (device.devices if device else ()) or _by_number(vendor, gpu)
        names += [name for vendor in sorted(vendors) for name in SHARED[vendor]]
        found = [rule for name in names for path in glob.glob(name) if (rule := rule_of(path))]
        return list(dict.fromkeys((*STANDARD, *found)))[:MAX_RULES]


def rule_of(path: str) -> str:
    """The device behind the name; empty when it is none."""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    kind = "c" if stat.S_ISCHR(status.st_mode) else "b" if stat.S_ISBLK(status.st_mode) else ""
    return f"{kind} {os.major(status.st_rdev)}:{os.minor(status.st_rdev)}" if kind else ""


def _by_number(vendor: GpuVendor, gpu: int) -> tuple[str, ...]:
    """Where nothing was discovered and nothing declared: as the drivers number their files."""
    if vendor is GpuVendor.AMD:
        return (f"/dev/dri/renderD{_FIRST_RENDERER + gpu}",)
    return (f"/dev/nvidia{gpu}",)
