"""The image caches of nodes: what is in them, and orders of operators about it. The nodes are asked; nothing of it is in the log."""

import asyncio
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from lattice.api.auth.rbac import Permission, Reach
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.nodes.orders import known_nodes
from lattice.api.submit.containers import named_image
from lattice.images.references import NOT_CACHED
from lattice.ports.nodes.agents import AgentUnreachable
from lattice.ports.nodes.images import CachedImage, ComingImage, ImagesAsk, NodeImagesTold
from lattice.wire.bounds import NodeSet
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import check_line

CONCURRENCY = 64  # nodes that are asked at the same time
MAX_NAME = 512
_UNASKED = "nothing was asked; `lattice nodes` lists those there are"


class CacheQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`nodes`: names and host lists such as `n[1-4]`; `group`: a topology group. All nodes if both are empty."""

    nodes: NodeSet = ""
    group: str = ""


class WarmCache(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`image`: NAME/VERSION:TAG of the site's images, or HOST/REPOSITORY:TAG of a registry."""

    image: str
    nodes: list[str] | NodeSet = ""
    group: str = ""


class CacheChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`image`: a reference as `GET /cache` shows it, or at least 8 digits of a digest."""

    image: str
    nodes: list[str] | NodeSet = ""
    group: str = ""


class CacheEviction(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`image` as for pins; with `all` instead, every image that is neither pinned nor in use."""

    image: str = ""
    all: bool = False
    nodes: list[str] | NodeSet = ""
    group: str = ""


class CachedImageView(Struct, frozen=True, kw_only=True):
    """`image` is empty where it is the path of a user's own image and the caller is no operator."""

    image: str
    digest: str
    size: int
    idle_s: float  # since it was used last
    pinned: bool
    mounted: bool  # work uses it now


class ComingImageView(Struct, frozen=True, kw_only=True):
    """An image on its way; with an `error` one that could not be fetched."""

    image: str
    digest: str
    done: int
    total: int  # 0 = not known
    error: str


class NodeCacheView(Struct, frozen=True, kw_only=True):
    """`error`: why nothing was done on this node, or why it cannot say."""

    node: str
    capacity: int  # bytes for all images together; 0 = the node has no cache
    used: int
    free: int  # of the disk
    images: tuple[CachedImageView, ...]
    coming: tuple[ComingImageView, ...]
    error: str


class CacheView(Struct, frozen=True, kw_only=True):
    """`digest`: of the image that is warmed; empty otherwise."""

    items: tuple[NodeCacheView, ...]
    digest: str = ""


async def cache_status(context: Context, request: CacheQuery) -> CacheView:
    """List the images in the caches of nodes, and those on their way there."""
    return await _ask(context, request.nodes, request.group, ImagesAsk(what="cache"))


async def warm_cache(context: Context, request: WarmCache) -> CacheView:
    """Have nodes fetch an image before work needs it; it continues after the answer."""
    image = await named_image(context, request.image)
    return await _ask(context, request.nodes, request.group, ImagesAsk(what="warm", image=image), image.digest)


async def evict_image(context: Context, request: CacheEviction) -> CacheView:
    """Remove an image from the caches of nodes, unless it is pinned or in use."""
    if bool(request.image) is request.all:
        raise BadField("image", "name an image, or set all", hint="give one of the two")
    return await _change(context, "evict", request.image, request.nodes, request.group)


async def pin_image(context: Context, request: CacheChange) -> CacheView:
    """Keep an image in the caches of nodes: it is not evicted."""
    return await _change(context, "pin", request.image, request.nodes, request.group)


async def unpin_image(context: Context, request: CacheChange) -> CacheView:
    """Let an image be evicted again."""
    return await _change(context, "unpin", request.image, request.nodes, request.group)


async def _change(context: Context, what: str, image: str, nodes: list[str] | NodeSet, group: str) -> CacheView:
    if what != "evict" and not image:
        raise BadField("image", "names no image", hint="GET /cache lists those in the caches")
    name = check_line(image, "image", MAX_NAME)
    told = await _ask(context, nodes, group, ImagesAsk(what=what, name=name))
    if what == "pin" or all(each.error for each in told.items):
        return told
    # Where it was not in the first place nothing had to be done; where it is nowhere, its name is wrong.
    absent = f"{name} {NOT_CACHED}"
    return replace(told, items=tuple(replace(each, error="") if each.error == absent else each for each in told.items))


async def _ask(context: Context, nodes: str | Sequence[str], group: str, ask: ImagesAsk, digest: str = "") -> CacheView:
    names = _chosen(context, nodes, group)
    gate = asyncio.Semaphore(CONCURRENCY)

    async def one(node: str) -> NodeImagesTold:
        async with gate:
            try:
                return await context.services.links.ask_images(node, ask)
            except AgentUnreachable as error:
                return NodeImagesTold(error=str(error))

    told = await asyncio.gather(*(one(name) for name in names))
    sees_paths = context.reach(Permission.CONTROL_NODES) is Reach.ALL
    items = (_view(name, each, sees_paths=sees_paths) for name, each in zip(names, told, strict=True))
    return CacheView(items=tuple(items), digest=digest)


def _chosen(context: Context, nodes: str | Sequence[str], group: str) -> tuple[str, ...]:
    state = context.state
    names = known_nodes(context, nodes, _UNASKED) if nodes else tuple(sorted(state.nodes))
    if group:
        names = tuple(name for name in names if state.nodes[name].hardware.group == group)
    if group and not names:
        raise ApiError("not_found", f'no node is in group "{group[:80]}"', hint="`lattice nodes -o wide` shows groups")
    return names


def _view(node: str, told: NodeImagesTold, *, sees_paths: bool) -> NodeCacheView:
    return NodeCacheView(
        node=node,
        capacity=told.capacity,
        used=told.used,
        free=told.free,
        images=tuple(
            CachedImageView(
                image=_name(each, sees_paths=sees_paths),
                digest=each.digest,
                size=each.size,
                idle_s=round(each.idle_s, 1),
                pinned=each.pinned,
                mounted=each.mounted,
            )
            for each in told.images
        ),
        coming=tuple(
            ComingImageView(
                image=_name(each, sees_paths=sees_paths),
                digest=each.digest,
                done=each.done,
                total=each.total,
                error=each.error if sees_paths else ("could not be fetched" if each.error else ""),
            )
            for each in told.coming
        ),
        error=told.error,
    )


def _name(image: CachedImage | ComingImage, *, sees_paths: bool) -> str:
    name = image.reference.partition("@sha256:")[0]
    return name if sees_paths or not name.startswith(("/", "oci:")) else ""
