"""A virtual machine with two NUMA nodes that sees this machine's files, for as long as one command takes."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.conftest import require_program

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "numa-machine"
MODULES = ("9p", "9pnet_virtio", "virtio_pci", "overlay")
BOOT_WITHIN_S = 600  # without hardware support, on a busy machine

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mkdir -p /proc /sys /dev /lower /upper /root
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
for module in $(cat /modules); do insmod "/lib/$module"; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 host /lower
mount -t tmpfs none /upper; mkdir /upper/files /upper/work
mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work none /root
mount -t proc none /root/proc; mount -t sysfs none /root/sys; mount -t devtmpfs none /root/dev
chroot /root /bin/sh -c '@COMMAND@' > /dev/ttyS1 2>/dev/ttyS0
sync; sleep 1
echo o > /proc/sysrq-trigger; sleep 60
"""


def run_there(command: str, folder: Path) -> str:
    """What the command writes when it runs on the virtual machine."""
    for program in ("qemu-system-x86_64", "busybox", "depmod", "modprobe", "cpio", "apt-get", "dpkg-deb"):
        require_program(program)
    image, version = kernel()
    said = folder / "said"
    words = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "4", "-m", "2G"]
    for node, cpus in enumerate(("0-1", "2-3")):
        words += ["-object", f"memory-backend-ram,id=m{node},size=1G"]
        words += ["-numa", f"node,nodeid={node},cpus={cpus},memdev=m{node}"]
    words += ["-numa", "dist,src=0,dst=1,val=21", "-nographic", "-no-reboot"]
    words += ["-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"]
    words += ["-serial", "mon:stdio", "-serial", f"file:{said}"]
    words += [
        "-kernel",
        str(image),
        "-initrd",
        str(initrd(INIT.replace("@COMMAND@", command), MODULES, folder, version)),
    ]
    words += ["-append", "console=ttyS0 quiet panic=-1 ip=10.0.0.7"]
    boot = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BOOT_WITHIN_S, check=False
    )
    text = said.read_text() if said.exists() else ""
    if not text.strip():
        raise AssertionError(f"the machine said nothing: {boot.stdout[-2000:]} {boot.stderr[-2000:]}")
    return text


def kernel() -> tuple[Path, str]:
    """A kernel of the distribution, fetched once."""
    found = sorted(CACHE.glob("boot/vmlinuz-*"))
    if not found:
        CACHE.mkdir(parents=True, exist_ok=True)
        needs = subprocess.run(
            ["apt-cache", "depends", "linux-image-amd64"], capture_output=True, text=True, check=True
        ).stdout.split()
        name = next(word for word in needs if word.startswith("linux-image-") and word != "linux-image-amd64")
        subprocess.run(["apt-get", "download", name], cwd=CACHE, check=True, capture_output=True)
        package = next(CACHE.glob("linux-image-*.deb"))
        subprocess.run(["dpkg-deb", "-x", package, CACHE], check=True)
        package.unlink()
        found = sorted(CACHE.glob("boot/vmlinuz-*"))
    version = found[-1].name.removeprefix("vmlinuz-")
    subprocess.run(["depmod", "-b", CACHE, version], check=True)
    return found[-1], version


def initrd(init: str, modules: Sequence[str], folder: Path, version: str) -> Path:
    """A first file system with busybox, those kernel modules with what they need (listed in /modules), and that first process."""
    tree = folder / "initrd"
    (tree / "bin").mkdir(parents=True)
    (tree / "lib").mkdir()
    shutil.copy(require_program("busybox"), tree / "bin" / "busybox")
    names = []
    for module in modules:
        shown = subprocess.run(
            ["modprobe", "-d", CACHE, "-S", version, "--show-depends", module],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for line in shown.splitlines():
            path = Path(line.split()[1]) if line.startswith("insmod ") else None
            if path is not None and path.name not in names:
                names.append(path.name)
                shutil.copy(path, tree / "lib" / path.name)
    (tree / "modules").write_text("\n".join(names) + "\n")
    (tree / "init").write_text(init)
    (tree / "init").chmod(0o755)
    made = folder / "initrd.cpio"
    listing = "\n".join(os.path.relpath(path, tree) for path in sorted(tree.rglob("*")))
    with open(made, "wb") as file:
        subprocess.run(
            ["cpio", "-o", "-H", "newc", "--quiet"], input=listing.encode(), stdout=file, cwd=tree, check=True
        )
    return made
