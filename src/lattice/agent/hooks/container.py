"""The container of a run: its image in the cache, then a file system that an OCI runtime made of it, with what earlier hooks mounted.

Nothing has to be undone: the file system goes with the run's last process, and what held it until the shim had it dies with the agent.
"""

from lattice.agent.containers.node import NodeContainers
from lattice.agent.hooks.protocol import Finished, HookFailed, Launch, RunImpossible
from lattice.agent.hooks.runner import CONTAINER
from lattice.agent.images.mounting import ImageRefused, ImageUnavailable
from lattice.ports.nodes.agents import StartOrder

CONTAINER_TIMEOUT_S = 6 * 3600.0  # a large image through a slow link, unpacked; a fetch that stalls ends earlier


class ContainerHook:
    """The last one: it takes over the mounts of the others."""

    name = CONTAINER
    timeout_s = CONTAINER_TIMEOUT_S
    undoes_unrecorded = False

    def __init__(self, containers: NodeContainers) -> None:
        self._containers = containers

    def applies(self, order: StartOrder) -> bool:
        return order.container is not None

    async def prepare(self, launch: Launch) -> None:
        try:
            await self._containers.enter(launch.order, launch.request, say=launch.say)
        except ImageRefused as refusal:
            raise RunImpossible(str(refusal)) from refusal
        except ImageUnavailable as failure:
            raise HookFailed(str(failure)) from failure
        except OSError as error:
            raise HookFailed(f"container: {error}") from error

    async def undo(self, finished: Finished) -> None:
        """Nothing was left."""
