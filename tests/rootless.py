"""Images for somebody who is not root: what the machine must have, and how to see that nothing is left."""

import os
import subprocess
from pathlib import Path

from tests.conftest import missing, require_program

FUSE = Path("/dev/fuse")
USER = 1  # an ordinary account, which every system has; not nobody, whose number stands for everybody unknown in a namespace
USER_NAME = "daemon"


def require_rootless_images() -> str:
    """The squashfuse of this machine, where users may mount with it. udev opens the device to everybody; without udev it is done here."""
    require_program("mksquashfs")
    server = require_program("squashfuse")
    if not FUSE.exists():
        missing(str(FUSE))
    if os.geteuid() == 0 and FUSE.stat().st_mode & 0o666 != 0o666:
        FUSE.chmod(0o666)
    as_user = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
    tried = subprocess.run(["unshare", "-U", "-m", "true"], check=False, capture_output=True, **as_user)  # type: ignore[call-overload]
    if tried.returncode:
        missing("user namespaces for ordinary users")
    return server


def servers_of(folder: Path | str) -> list[int]:
    """Processes of squashfuse that serve an image below the folder."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            is_server = os.path.basename(words[0]).startswith(b"squashfuse")
            if is_server and any(word.startswith(os.fsencode(folder)) for word in words[1:]):
                found.append(int(name))
    return found


def keepers_of(shim: int) -> list[int]:
    """Children of the shim that keep a file system of a run."""
    return [pid for pid in keepers() if parent_of(pid) == shim]


def keepers() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _about(name, "comm") == "lattice-keeper\n"]


def parent_of(pid: int) -> int:
    """0 when it has ended."""
    return int((_about(pid, "stat").rpartition(")")[2].split() or ["", "0"])[1])


def _about(pid: str | int, what: str) -> str:
    try:
        return Path(f"/proc/{pid}/{what}").read_text()
    except OSError:
        return ""
