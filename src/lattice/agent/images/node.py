"""What a node has for images: a cache that can be used, and a kernel and a shim that can mount them."""

import logging
from collections.abc import Collection
from pathlib import Path

from lattice.agent.images.cache import ImageCache
from lattice.agent.images.fetching import ImageFetcher
from lattice.agent.images.mounting import SQUASHFS
from lattice.ports.nodes.blobs import BlobSource

FEATURE = "uenv"
FILESYSTEMS = Path("/proc/filesystems")
LOOP_CONTROL = Path("/dev/loop-control")

_log = logging.getLogger(__name__)


class NodeImages:
    """`fetcher` is None on a node that mounts no images: its agent is not root, or the directory cannot be used."""

    def __init__(self, directory: Path | None, remote: BlobSource | None = None, capacity: int = 0) -> None:
        self.fetcher: ImageFetcher | None = None
        self._problem = "" if directory is not None else "the agent does not run as root, or has no --cache-dir"
        if directory is None:
            return
        try:
            cache = ImageCache(directory, remote=remote, capacity=capacity)
            cache.prepare()
            self.fetcher = ImageFetcher(cache)
        except OSError as error:
            self._problem = f"the image cache cannot be used: {error}"
            _log.warning("no images on this node: cannot use the cache: %s", error)

    def why_not(self) -> str:
        """Why images cannot be mounted here, as far as it is not for the shim."""
        return self._problem or ("" if _has_kernel_support() else "the kernel has no squashfs or no loop devices")

    def features(self, mount_kinds: Collection[str]) -> set[str]:
        """What the node can offer, given what its shim mounts."""
        can_mount = self.fetcher is not None and SQUASHFS in mount_kinds and _has_kernel_support()
        return {FEATURE} if can_mount else set()


def _has_kernel_support() -> bool:
    try:
        return SQUASHFS in FILESYSTEMS.read_text().split() and LOOP_CONTROL.exists()
    except OSError:
        return False
