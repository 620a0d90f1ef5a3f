"""What a node has at hand at this moment, as far as the choice among equal nodes looks at it: images in its cache, and free GPUs.

An observation, never in the log. See docs/architecture/scheduler.md, "Ties".
"""

from collections.abc import Mapping

from msgspec import Struct

from lattice.core.model.nodes.gpus import EXACT_UP_TO, GpuSet

MAX_IMAGES = 128  # those that were used last; what is beyond is not known
MAX_GPU_SETS = EXACT_UP_TO
IMAGE_FEATURES = frozenset({"uenv", "container"})  # of nodes; work that brings images asks for one of them
_DIGITS = 16


class AtHand(Struct, frozen=True, kw_only=True):
    """`images` by `image_key`. `gpu_sets` has what the best set of one, two and up to all free GPUs is worth."""

    images: tuple[int, ...] = ()
    gpu_sets: tuple[GpuSet, ...] = ()


NOTHING_AT_HAND = AtHand()


class GpuSets(Struct, frozen=True, kw_only=True):
    """What the nodes said of their free GPUs; those that said the same are of one kind."""

    kinds: tuple[tuple[GpuSet, ...], ...] = ()
    by_node: Mapping[str, int] = {}  # the place among `kinds`


NO_SETS = GpuSets()


def image_key(digest: str) -> int:
    """How the digest of an image begins, as a number of 64 bits. Raises ValueError for what is no digest."""
    return int(digest[:_DIGITS], 16)
