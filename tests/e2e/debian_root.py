"""A minimal Debian with the packages of this checkout, made from nothing: what an administrator has after `dpkg -i`."""

import subprocess
import sys
import time
from functools import cache
from pathlib import Path

from tests.conftest import require_program

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "debian-root"
SUITE = "bookworm"
PARTS = ("lattice-cli", "lattice-server", "lattice-agent")
# With systemd, so that it can be booted; etcd-server for servers that share a log.
INCLUDE = "systemd,systemd-sysv,dbus,python3,ca-certificates,procps,iproute2,etcd-server"


@cache
def packages() -> tuple[Path, ...]:
    """Built once in this process."""
    for tool in ("dist.py", "deb.py"):
        subprocess.run([sys.executable, ROOT / "tools" / tool], check=True, stdout=subprocess.DEVNULL)
    return tuple(next((ROOT / "dist").glob(f"{name}_*.deb")) for name in PARTS)


def make_root(target: Path) -> None:
    """A system without Lattice. The base is fetched once and kept."""
    base = CACHE / f"{SUITE}.tar"
    if not base.exists():
        program = require_program("mmdebstrap")
        CACHE.mkdir(parents=True, exist_ok=True)
        part = base.with_suffix(".part.tar")
        words = [program, "--variant=minbase", "--quiet", f"--include={INCLUDE}", SUITE, str(part)]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
        part.rename(base)
    target.mkdir()
    subprocess.run(["tar", "-xf", base, "-C", target, "--exclude=./dev/*", "--numeric-owner"], check=True)


def install(target: Path) -> float:
    """Puts the packages there and installs them; the seconds that those of a node took."""
    (target / "packages").mkdir()
    for package in packages():
        (target / "packages" / package.name).write_bytes(package.read_bytes())
    begun = time.monotonic()
    inside(target, "dpkg -i /packages/lattice-cli_*.deb /packages/lattice-agent_*.deb")
    took = time.monotonic() - begun
    inside(target, "dpkg -i /packages/lattice-server_*.deb")
    return took


def inside(target: Path, script: str) -> str:
    """What a shell script writes in that system, with nothing of this one but /proc, /sys and /dev."""
    mounts = "; ".join(f'mount --rbind /{each} "$1/{each}"' for each in ("proc", "sys", "dev"))
    words = ["unshare", "-m", "--propagation", "private", "sh", "-ec", f'{mounts}; exec chroot "$1" bash -ec "$2"']
    plain = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        [*words, "sh", target, script], capture_output=True, text=True, env=plain, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode:
        raise AssertionError(f"{script}: {done.stdout[-2000:]} {done.stderr[-2000:]}")
    return done.stdout
