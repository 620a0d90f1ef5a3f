"""A virtual machine that boots a Debian with systemd from a disk image, runs one script as a service, and powers off."""

import contextlib
import shutil
import subprocess
from pathlib import Path

from tests.conftest import require_program
from tests.e2e.debian_root import inside
from tests.e2e.numa_machine import initrd, kernel

MODULES = ("virtio_pci", "virtio_blk", "ext4")
DISK_SIZE = "3G"
NOT_WANTED = "etcd serial-getty@ttyS0 serial-getty@ttyS1"
BOOT_WITHIN_S = 2400  # without hardware support, on a busy machine
# The disk becomes the root, and its systemd the first process.
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mkdir -p /proc /sys /dev /disk
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
for module in $(cat /modules); do insmod "/lib/$module"; done
mount -t ext4 /dev/vda /disk
umount /proc /sys
mount --move /dev /disk/dev
exec switch_root /disk /lib/systemd/systemd
"""
TRIAL = """\
[Unit]
Description=The trial of this machine
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/bash /trial
StandardOutput=file:/dev/ttyS1
StandardError=append:/trial.log
TimeoutStartSec=infinity
ExecStopPost=/bin/sh -c 'tail -n 60 /trial.log > /dev/ttyS0; systemctl --no-block poweroff'
[Install]
WantedBy=graphical.target
"""


def boot(root: Path, script: str, folder: Path) -> str:
    """What the script writes to its standard output there."""
    for program in ("qemu-system-x86_64", "busybox", "depmod", "modprobe", "cpio", "mke2fs", "apt-get", "dpkg-deb"):
        require_program(program)
    (root / "trial").write_text(script)
    (root / "etc/systemd/system/trial.service").write_text(TRIAL)
    inside(
        root, f"systemctl enable -q trial; systemctl set-default -q graphical.target; systemctl mask -q {NOT_WANTED}"
    )
    disk = folder / "disk.ext4"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", root, disk, DISK_SIZE], check=True, capture_output=True)
    shutil.rmtree(root)
    image, version = kernel()
    ramdisk = initrd(INIT, MODULES, folder, version)
    said = folder / "said"
    words = [
        "qemu-system-x86_64",
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "max",
        "-smp",
        "2",
        "-m",
        "3G",
        "-nographic",
        "-no-reboot",
    ]
    words += ["-drive", f"file={disk},format=raw,if=virtio,cache=unsafe"]
    words += ["-serial", "mon:stdio", "-serial", f"file:{said}", "-nic", "none"]
    words += ["-kernel", str(image), "-initrd", str(ramdisk)]
    words += ["-append", "console=ttyS0 quiet panic=-1 systemd.show_status=false"]
    console = folder / "console"
    with console.open("wb") as shown, contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(words, stdin=subprocess.DEVNULL, stdout=shown, stderr=shown, timeout=BOOT_WITHIN_S, check=False)
    text = said.read_text(errors="replace") if said.exists() else ""
    if "the end" not in text:
        shown_last = console.read_text(errors="replace")[-6000:]
        raise AssertionError(f"the machine did not come to the end within {BOOT_WITHIN_S} s: {text} {shown_last}")
    return text
