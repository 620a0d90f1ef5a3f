"""Debian packages, installed over this system in a namespace of its own: nothing of it is left afterwards."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import require_root

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("lattice-cli", "lattice-server", "lattice-agent")
# Everything is written to an overlay in memory. The checkout is not visible in it.
PREPARE = """\
set -e
mount -t tmpfs tmpfs "$1"; cd "$1"; mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
for each in proc sys dev; do mount --rbind /$each root/$each; done
mkdir -p root/packages root/srv/empty; cp "$2"/*.deb root/packages/
mount --bind root/srv/empty "root$2"
exec chroot root bash -e -c "$3"
"""
LIFE = """\
mkdir /opt/lattice; dpkg -i /packages/lattice-cli_*.deb 2>&1 | grep -q 'belongs to no package; move it away' && echo refused
rmdir /opt/lattice; dpkg -i /packages/*.deb >/dev/null
test "$(readlink -f /usr/bin/lattice)" = /opt/lattice/bin/lattice
export LATTICE_DIR=/srv/cluster
lattice up --dir $LATTICE_DIR --nodes 2 --rest-port 0 --grpc-port 0 --detach >/dev/null
trap 'lattice down --dir $LATTICE_DIR >/dev/null' EXIT
lattice run -- echo ran
lattice submit --walltime=10m --stdout=/dev/null -- sleep 4321 >/dev/null
until pgrep -x -f 'sleep 4321' >/dev/null; do sleep 0.1; done
dpkg -i /packages/lattice-agent_*.deb >/dev/null; pgrep -x -f 'sleep 4321' >/dev/null && echo upgraded
dpkg -r lattice-agent >/dev/null; pgrep -x -f 'sleep 4321' >/dev/null && echo removed
lattice down --dir $LATTICE_DIR >/dev/null
trap - EXIT
man -w lattice-submit
dpkg -P lattice-server lattice-cli >/dev/null 2>&1
test ! -e /opt/lattice && echo purged
"""


@pytest.mark.soak
@pytest.mark.root
@pytest.mark.timeout(1800)
def test_packages_are_installed_upgraded_and_removed_around_work(tmp_path: Path) -> None:
    require_root()
    subprocess.run([sys.executable, ROOT / "tools" / "dist.py"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, ROOT / "tools" / "deb.py"], check=True, stdout=subprocess.DEVNULL)
    packages = [next((ROOT / "dist").glob(f"{name}_*.deb")) for name in PARTS]
    told = subprocess.run(["lintian", "--fail-on", "error", *packages], check=False, capture_output=True, text=True)
    assert (told.returncode, [line for line in told.stdout.splitlines() if line.startswith("E:")]) == (0, [])
    words = [
        "unshare",
        "-m",
        "--propagation",
        "private",
        "bash",
        "-c",
        PREPARE,
        "bash",
        str(tmp_path),
        str(ROOT / "dist"),
        LIFE,
    ]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.stdout.split() == [
        "refused",
        "ran",
        "upgraded",
        "removed",
        "/usr/share/man/man1/lattice-submit.1.gz",
        "purged",
    ], done.stderr
