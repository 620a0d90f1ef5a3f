"""What a node has for images: a cache that can be used, and a way to mount them. As root that is the kernel; otherwise squashfuse."""

import logging
import os
import shutil
from collections.abc import Collection
from pathlib import Path

from lattice.agent.images.cache import ImageCache
from lattice.agent.images.fetching import ImageFetcher
from lattice.agent.images.mounting import SQUASHFS, SQUASHFUSE
from lattice.ports.nodes.blobs import BlobSource

FEATURE = "uenv"
FILESYSTEMS = Path("/proc/filesystems")
LOOP_CONTROL = Path("/dev/loop-control")
SERVERS = ("squashfuse_ll", "squashfuse")  # the first keeps what it has read in the kernel
SEARCHED = "/usr/local/bin:/usr/bin:/bin"
OLD_LIBRARY = b"libfuse.so.2"  # cannot serve what is mounted already
NO_SERVER = "squashfuse is not installed, which mounts images where the agent does not run as root"
OLD_SERVER = "its squashfuse uses libfuse 2, and version 3.3 or later is needed"
NO_KERNEL = "the kernel has no squashfs or no loop devices"

_log = logging.getLogger(__name__)


class NodeImages:
    """`fetcher` is None on a node that mounts no images: the directory cannot be used, or squashfuse is missing. Without `is_root` the
    node's `path` is searched for it."""

    def __init__(
        self,
        directory: Path | None,
        remote: BlobSource | None = None,
        capacity: int = 0,
        *,
        is_root: bool = True,
        path: str | None = None,
    ) -> None:
        self.fetcher: ImageFetcher | None = None
        self.is_root = is_root
        server = ""
        self._problem = "" if directory is not None else "the agent has no --cache-dir"
        if not is_root and not self._problem:
            server, self._problem = find_server(f"{path or os.environ.get('PATH', '')}:{SEARCHED}")
        if directory is None or self._problem:
            return
        try:
            cache = ImageCache(directory, remote=remote, capacity=capacity)
            cache.prepare()
            self.fetcher = ImageFetcher(cache, server=server)
        except OSError as error:
            self._problem = f"the image cache cannot be used: {error}"
            _log.warning("no images on this node: cannot use the cache: %s", error)

    def why_not(self, mount_problem: str = "") -> str:
        """Why images cannot be mounted here; `mount_problem` is what the shim says of that."""
        if self._problem or not self.is_root:
            return self._problem or mount_problem
        return "" if _has_kernel_support() else NO_KERNEL

    def features(self, mount_kinds: Collection[str]) -> set[str]:
        """What the node can offer, given what its shim mounts."""
        is_known = (SQUASHFS if self.is_root else SQUASHFUSE) in mount_kinds
        return {FEATURE} if is_known and self.fetcher is not None and not self.why_not() else set()


def find_server(path: str) -> tuple[str, str]:
    """The squashfuse to use, or why there is none."""
    problem = NO_SERVER
    for name in SERVERS:
        found = shutil.which(name, path=path)
        if found is None:
            continue
        try:
            if OLD_LIBRARY not in Path(found).read_bytes():
                return os.path.abspath(found), ""
        except OSError:
            continue
        problem = OLD_SERVER
    return "", problem


def _has_kernel_support() -> bool:
    try:
        return SQUASHFS in FILESYSTEMS.read_text().split() and LOOP_CONTROL.exists()
    except OSError:
        return False
