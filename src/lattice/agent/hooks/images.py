"""The images of a run, mounted in its own view of the file system, and its environment as their views make it.

Nothing has to be undone: the mounts go with the run's last process and the loop devices with the mounts; the images stay in the cache.
"""

from pathlib import Path

import msgspec

from lattice.agent.hooks.protocol import Finished, HookFailed, Launch, RunImpossible
from lattice.agent.hooks.runner import IMAGES
from lattice.agent.images.fetching import ImageFetcher
from lattice.agent.images.mounting import REPORT, ImageRefused, ImageUnavailable, add_images
from lattice.ports.nodes.agents import StartOrder

IMAGES_TIMEOUT_S = 6 * 3600.0  # a large image through a slow link; one that does not get any further ends earlier


class ImagesHook:
    """`fetcher` is None on a node that cannot mount images."""

    name = IMAGES
    timeout_s = IMAGES_TIMEOUT_S
    undoes_unrecorded = False

    def __init__(self, fetcher: ImageFetcher | None) -> None:
        self._fetcher = fetcher

    def applies(self, order: StartOrder) -> bool:
        return bool(order.images)

    async def prepare(self, launch: Launch) -> None:
        if self._fetcher is None:
            raise HookFailed("images: this node has no image cache")
        try:
            report = await add_images(launch.order, launch.request, self._fetcher, launch.say)
        except ImageRefused as refusal:
            raise RunImpossible(str(refusal)) from refusal
        except ImageUnavailable as failure:
            raise HookFailed(str(failure)) from failure
        write_report(Path(str(launch.request["dir"])), report)

    async def undo(self, finished: Finished) -> None:
        """Nothing was left."""


def write_report(folder: Path, report: object) -> None:
    try:
        (folder / REPORT).write_bytes(msgspec.json.encode(report))
    except OSError as error:
        raise HookFailed(f"images: cannot write {REPORT}: {error.strerror}") from error
