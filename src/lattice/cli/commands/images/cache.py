"""`lattice cache`: the image caches of nodes."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from lattice.cli.command import short_command
from lattice.cli.context import Context
from lattice.cli.errors import OK, REFUSED, CommandError, UsageError
from lattice.cli.input.node_sets import read_names
from lattice.cli.output import Column, show_list, structured
from lattice.cli.progress import StatusLine
from lattice.cli.times import clock_text
from lattice.cli.views.allocations import bytes_text
from lattice.slurm.text.hostlists import fold
from lattice_sdk.models.images import CachedImage, ComingImage, ImageCaches, NodeCache

LOOK_EVERY_S = 0.5
BAR = 30  # characters


@dataclass(frozen=True, kw_only=True)
class Options:
    image: str = ""
    image_flag: str = ""
    nodes: str = ""
    group: str = ""
    images: bool = False
    all: bool = False
    no_wait: bool = False


class _Row(NamedTuple):
    """An image in the cache of a node, or on its way there."""

    node: str
    image: CachedImage | ComingImage

    @property
    def name(self) -> str:
        return self.image.image or f"sha256:{self.image.digest[:12]}"

    @property
    def size(self) -> int:
        return self.image.size if isinstance(self.image, CachedImage) else self.image.total

    @property
    def state(self) -> str:
        if isinstance(self.image, ComingImage):
            return self.image.error or f"fetching, {bytes_text(self.image.done)} of {bytes_text(self.image.total)}"
        words = ("pinned" if self.image.pinned else "", "in use" if self.image.mounted else "")
        return ", ".join(filter(None, words)) or "unused"


COLUMNS: tuple[Column[NodeCache], ...] = (
    Column("NODE", lambda c: c.node),
    Column("IMAGES", lambda c: str(len(c.images))),
    Column("USED", lambda c: bytes_text(c.used) if c.capacity else ""),
    Column("CAPACITY", lambda c: bytes_text(c.capacity) if c.capacity else ""),
    Column("FREE", lambda c: bytes_text(c.free) if c.capacity else "", is_wide=True),
    Column("FETCHING", lambda c: str(sum(not each.error for each in c.coming))),
    Column("PROBLEM", lambda c: c.error or next((each.error for each in c.coming if each.error), ""), is_sparse=True),
)
IMAGE_COLUMNS: tuple[Column[_Row], ...] = (
    Column("NODE", lambda row: row.node),
    Column("IMAGE", lambda row: row.name),
    Column("SIZE", lambda row: bytes_text(row.size)),
    Column("IDLE", lambda row: clock_text(row.image.idle_s) if isinstance(row.image, CachedImage) else ""),
    Column("STATE", lambda row: row.state),
    Column("DIGEST", lambda row: row.image.digest, is_wide=True),
)


def _fill_nodes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", metavar="NODES", help="only these nodes: n[1-3,7] (default: all)")
    parser.add_argument("--group", metavar="GROUP", help="only nodes of this topology group")


def fill_status(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--images", action="store_true", help="list the images instead of the nodes")
    _fill_nodes(parser)


def fill_warm(parser: argparse.ArgumentParser) -> None:
    help_text = "NAME/VERSION:TAG of the site's images, or HOST/REPOSITORY:TAG of a registry"
    parser.add_argument("image", nargs="?", metavar="IMAGE", help=help_text)
    parser.add_argument("--image", dest="image_flag", metavar="IMAGE", help="the same as a flag")
    parser.add_argument("--no-wait", action="store_true", help="do not wait until the nodes have it")
    _fill_nodes(parser)


def fill_evict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image", nargs="?", metavar="IMAGE", help="image as `lattice cache status --images` shows it")
    parser.add_argument("--all", action="store_true", help="every image that is neither pinned nor in use")
    _fill_nodes(parser)


def fill_pin(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image", metavar="IMAGE", help="image as `lattice cache status --images` shows it")
    _fill_nodes(parser)


def run_status(options: Options, context: Context) -> int:
    found = context.client.cache_status(_nodes(options), options.group)
    if not options.images:
        show_list(context, found.items, COLUMNS, name=lambda each: each.node)
        return OK
    if structured(context, found.items):
        return OK
    rows = [
        row
        for cache in found.items
        for row in (
            *(_Row(cache.node, each) for each in cache.images),
            *(_Row(cache.node, each) for each in cache.coming),
        )
    ]
    show_list(context, rows, IMAGE_COLUMNS, name=lambda row: row.name)
    return OK


def run_warm(options: Options, context: Context) -> int:
    if bool(options.image) is bool(options.image_flag):
        problem = "two images were named" if options.image else "no image was named"
        raise UsageError(problem, hint="use `lattice cache warm NAME/VERSION:TAG`")
    options = replace(options, image=options.image or options.image_flag)
    nodes = _nodes(options)
    found = context.client.warm_cache(options.image, nodes, options.group)
    if not options.no_wait:
        found = _await(options, found, nodes, context)
    return _tell(found, "warm", options, context)


def run_evict(options: Options, context: Context) -> int:
    if bool(options.image) is options.all:
        raise UsageError("name an image, or use --all", hint="`lattice cache status --images` lists them")
    found = context.client.evict_image(options.image, _nodes(options), options.group, all=options.all)
    return _tell(found, "evict", options, context)


def run_pin(options: Options, context: Context) -> int:
    return _tell(context.client.pin_image(options.image, _nodes(options), options.group), "pin", options, context)


def run_unpin(options: Options, context: Context) -> int:
    return _tell(context.client.unpin_image(options.image, _nodes(options), options.group), "unpin", options, context)


def _nodes(options: Options) -> str:
    if options.nodes:
        read_names([options.nodes])  # a mistake is shown with its place
    return options.nodes


def _await(options: Options, found: ImageCaches, nodes: str, context: Context) -> ImageCaches:
    """Looks until no node fetches the image any more."""
    digest = found.digest
    with StatusLine(context) as line:
        while any(_coming(cache, digest) is not None and not _problem(cache, digest) for cache in found.items):
            line.show(bar_text(found.items, digest))
            context.clock.pause(LOOK_EVERY_S)
            found = ImageCaches(items=context.client.cache_status(nodes, options.group).items, digest=digest)
    return found


def bar_text(caches: Sequence[NodeCache], digest: str) -> str:
    """`[#####.....] 3.1 GB of 12.0 GB, 3 of 4 nodes`."""
    sizes = [each.size for cache in caches for each in cache.images if each.digest == digest]
    size = max([*sizes, *(each.total for cache in caches if (each := _coming(cache, digest)) is not None)], default=0)
    done = len(sizes) * size + sum(
        min(each.done, size) for cache in caches if (each := _coming(cache, digest)) is not None
    )
    total = size * len(caches)
    filled = int(BAR * done / total) if total else 0
    amounts = f"{bytes_text(done)} of {bytes_text(total)}"
    return f"[{'#' * filled}{'.' * (BAR - filled)}] {amounts}, {len(sizes)} of {len(caches)} nodes"


def _coming(cache: NodeCache, digest: str) -> ComingImage | None:
    return next((each for each in cache.coming if each.digest == digest), None)


def _problem(cache: NodeCache, digest: str) -> str:
    if cache.error:
        return cache.error
    coming = _coming(cache, digest)
    return coming.error if coming is not None else ""


_DONE: dict[str, tuple[str, str]] = {
    "warm": ("has", "have"),
    "evict": ("evicted", "evicted"),
    "pin": ("pinned", "pinned"),
    "unpin": ("unpinned", "unpinned"),
}


def _tell(found: ImageCaches, what: str, options: Options, context: Context) -> int:
    problems: dict[str, list[str]] = {}
    for cache in found.items:
        problem = _problem(cache, found.digest)
        is_there = any(each.digest == found.digest for each in cache.images)
        if what == "warm" and not options.no_wait and not problem and not is_there:
            problem = "the fetch was interrupted"
        if problem:
            problems.setdefault(problem, []).append(cache.node)
    failed = sum(len(nodes) for nodes in problems.values())
    if not structured(context, found.items) and failed < len(found.items):
        context.say(_done_text(len(found.items) - failed, what, options))
    for problem, nodes in problems.items():
        context.streams.complain(f"error: {fold(nodes)}: {problem}\n")
    if not found.items:
        raise CommandError("there is no node", exit_code=REFUSED)
    return REFUSED if problems else OK


def _done_text(count: int, what: str, options: Options) -> str:
    one, many = ("fetches", "fetch") if what == "warm" and options.no_wait else _DONE[what]
    verb = f"1 node {one}" if count == 1 else f"{count:,} nodes {many}"
    return f"{verb} {options.image or 'all images that were not used'}"


STATUS = short_command(
    Options, fill_status, run_status, "lattice cache status", "lattice cache status --images --nodes=n[1-4]", lists=True
)
WARM = short_command(
    Options,
    fill_warm,
    run_warm,
    "lattice cache warm prgenv-gnu/24.11:v1 --group=3",
    "lattice cache warm pytorch/2.4:v2",
)
EVICT = short_command(
    Options,
    fill_evict,
    run_evict,
    "lattice cache evict prgenv-gnu/24.11:v1 --nodes=n[1-4]",
    "lattice cache evict --all",
)
PIN = short_command(Options, fill_pin, run_pin, "lattice cache pin prgenv-gnu/24.11:v1")
UNPIN = short_command(Options, fill_pin, run_unpin, "lattice cache unpin prgenv-gnu/24.11:v1")
