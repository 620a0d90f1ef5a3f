"""Builds OCI images of server and agent into dist/images/, from the archives that tools/archives.py left in dist/.

python tools/images.py

The root is a minimal Debian with the Python that the archives need; the server's also has etcd. Needs mmdebstrap and umoci.
Read an image with `skopeo copy oci:dist/images:lattice-server ...`, or unpack it with umoci and run it with crun.
"""

import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import archives, dist  # noqa: E402 - found by the line before, wherever this is started

LAYOUT = dist.ROOT / "dist" / "images"
SUITE = "bookworm"
PACKAGES = {
    "lattice-server": ("python3", "ca-certificates", "etcd-server"),
    "lattice-agent": ("python3", "ca-certificates", "procps"),
}
USERS = {"lattice-server": "lattice"}  # an agent starts work of other users and stays root
COMMANDS = {
    "lattice-server": ("lattice-server", "--config", "/etc/lattice/server.yaml"),
    "lattice-agent": ("lattice-agent", "--config", "/etc/lattice/agent.yaml"),
}


def main() -> None:
    shutil.rmtree(LAYOUT, ignore_errors=True)
    _umoci("init", "--layout", str(LAYOUT))
    for name in PACKAGES:
        _build(name)
        print(f"{LAYOUT.relative_to(ROOT)}:{name}")


def _build(name: str) -> None:
    archive = archives.DIST / f"{name}-{platform.machine().replace('aarch64', 'arm64')}.tar.gz"
    if not archive.exists():
        raise SystemExit(f"images: {archive.name} is missing in dist/; run tools/archives.py")
    image = f"{LAYOUT}:{name}"
    bundle = ROOT / "build" / "images" / name
    shutil.rmtree(bundle, ignore_errors=True)
    bundle.parent.mkdir(parents=True, exist_ok=True)
    _umoci("new", "--image", image)
    _umoci("unpack", "--image", image, str(bundle))
    _fill(bundle / "rootfs", name, archive)
    _umoci("repack", "--image", image, str(bundle))
    shutil.rmtree(bundle)
    program, *arguments = COMMANDS[name]
    words = [f"--config.entrypoint={program}", *(f"--config.cmd={word}" for word in arguments)]
    path = "PATH=/opt/lattice/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    user = [f"--config.user={USERS[name]}"] if name in USERS else []
    about = f"org.opencontainers.image.version={dist.version()}"
    _umoci("config", "--image", image, *words, f"--config.env={path}", f"--config.label={about}", *user)


def _fill(root: Path, name: str, archive: Path) -> None:
    """A minimal system with /opt/lattice, and the folders that configuration and state are mounted to."""
    packed = root.parent / "root.tar"
    include = ",".join(PACKAGES[name])
    made = ["mmdebstrap", "--variant=minbase", "--quiet", f"--include={include}", SUITE, str(packed)]
    if name in USERS:
        made.insert(1, f'--customize-hook=useradd --root "$1" --system --home-dir /var/lib/lattice {USERS[name]}')
    subprocess.run(made, check=True, stdin=subprocess.DEVNULL)
    # Device files are the runtime's to make.
    subprocess.run(["tar", "-xf", packed, "-C", root, "--exclude=./dev/*", "--numeric-owner"], check=True)
    packed.unlink()
    for leftover in ("var/lib/apt/lists", "var/cache/apt", "usr/share/doc", "usr/share/man"):
        shutil.rmtree(root / leftover, ignore_errors=True)
    with tarfile.open(archive) as content:
        content.extractall(root / "opt", filter="tar")
    (root / "opt" / f"{name}-{dist.version()}").rename(root / "opt" / "lattice")
    for folder in ("etc/lattice", "var/lib/lattice", "run/lattice"):
        (root / folder).mkdir(parents=True, exist_ok=True)
        if name in USERS and folder != "etc/lattice":
            subprocess.run(["chroot", root, "chown", f"{USERS[name]}:", f"/{folder}"], check=True)


def _umoci(*words: str) -> None:
    subprocess.run(["umoci", "--log=error", *words], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
