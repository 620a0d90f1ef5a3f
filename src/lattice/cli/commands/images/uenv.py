"""`lattice uenv`: images with software, those of the site and files of one's own."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, UsageError
from lattice.cli.input.images import absolute, describe_file
from lattice.cli.output import Column, sheet, show_list, show_one, structured, table
from lattice.cli.views.allocations import bytes_text
from lattice.images.metadata import ImageMetadata, near
from lattice_sdk.models.images import Image, ImageViewpoint, ListedImage, MountedImage, Patch, VariableChange

PATH_FORMS = ("/", "./", "../", "~")


@dataclass(frozen=True, kw_only=True)
class Options:
    image: str = ""
    view: str = ""


COLUMNS: tuple[Column[ListedImage], ...] = (
    Column("IMAGE", lambda image: image.image),
    Column("SIZE", lambda image: bytes_text(image.size) if image.size else ""),
)
MOUNTED: tuple[Column[MountedImage], ...] = (
    Column("IMAGE", lambda image: image.image),
    Column("MOUNT", lambda image: image.mount),
    Column("VIEWS", lambda image: ",".join(image.views)),
    Column("SIZE", lambda image: bytes_text(image.size)),
    Column("DIGEST", lambda image: image.digest),
)
CHANGES: tuple[Column[VariableChange], ...] = (
    Column("VARIABLE", lambda change: change.variable),
    Column("CHANGE", lambda change: change.operation),
    Column("VIEW", lambda change: change.view),
    Column("VALUE", lambda change: "(unset)" if change.value is None else change.value),
)


class _PatchRow(NamedTuple):
    view: str
    patch: Patch


PATCHES: tuple[Column[_PatchRow], ...] = (
    Column("VIEW", lambda row: row.view),
    Column("VARIABLE", lambda row: row.patch.variable),
    Column("CHANGE", lambda row: row.patch.operation),
    Column("VALUES", lambda row: ":".join(row.patch.values)),
)


def fill_find(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image", metavar="TEXT", help="part of the name, version or tag")


def fill_image(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image", metavar="IMAGE", help="NAME/VERSION:TAG, or the path of a squashfs file")


def fill_views(parser: argparse.ArgumentParser) -> None:
    fill_image(parser)
    parser.add_argument("--view", metavar="VIEW", help="show only this view")


def fill_status(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image", metavar="ID", help="a running allocation")


def run_list(options: Options, context: Context) -> int:
    found = context.client.list_images(options.image).items
    show_list(context, found, COLUMNS, name=lambda image: image.image)
    return OK


def run_inspect(options: Options, context: Context) -> int:
    image = described(options.image, context)
    pairs = [
        ("Image", image.image),
        ("Digest", f"sha256:{image.digest}"),
        ("Size", bytes_text(image.size)),
        ("Signed by", image.signed_by),
        ("Mount", image.mount),
        ("Description", image.description),
        ("Views", ", ".join(view.name for view in image.views)),
        ("Source", image.source),
    ]
    show_one(context, image, [(name, text) for name, text in pairs if text])
    return OK


def run_views(options: Options, context: Context) -> int:
    views = chosen_views(described(options.image, context), options.view)
    if structured(context, views):
        return OK
    for view in views:
        context.streams.write(f"{view.name}{f': {view.description}' if view.description else ''}\n")
    rows = [_PatchRow(view.name, patch) for view in views for patch in view.patches]
    if rows:
        context.streams.write("\n" + table(rows, PATCHES, wide=True, coloured=context.is_coloured))
    return OK


def run_status(options: Options, context: Context) -> int:
    found = context.client.run_images(options.image)
    if structured(context, found):
        return OK
    if not found.images:
        context.say(f"{found.id} has no uenv mounted")
        return OK
    context.streams.write(sheet([("Allocation", found.id), ("Node", found.node)]))
    for rows in (table(found.images, MOUNTED, wide=True, coloured=False), _changes(found.changes)):
        context.streams.write(f"\n{rows}" if rows else "")
    return OK


def _changes(changes: Sequence[VariableChange]) -> str:
    return table(changes, CHANGES, wide=True, coloured=False) if changes else ""


def described(text: str, context: Context) -> Image:
    """An image of the site, or a file that the caller can read. Raises UsageError and ApiError."""
    if not is_path(text):
        return context.client.get_image(text)
    path = absolute(text, context.process.directory())
    digest, size, metadata = describe_file(path)
    about = metadata or ImageMetadata()
    views = [
        ImageViewpoint(
            name=view.name,
            description=view.description,
            patches=[
                Patch(variable=each.variable, operation=each.operation, values=list(each.values))
                for each in view.patches
            ],
        )
        for view in about.views.values()
    ]
    return Image(
        image=path,
        digest=digest,
        size=size,
        source=path,
        mount=about.mount,
        description=about.description,
        views=views,
    )


def is_path(text: str) -> bool:
    return text.startswith(PATH_FORMS) or text.endswith((".squashfs", ".sqfs"))


def chosen_views(image: Image, wanted: str) -> list[ImageViewpoint]:
    """Those that are shown. Raises UsageError for one that the image does not have."""
    if not wanted:
        return image.views
    found = [view for view in image.views if view.name == wanted]
    if not found:
        names = [view.name for view in image.views]
        raise UsageError(f'unknown view "{wanted}" of {image.image}', hint=near(wanted, names, "views"))
    return found


LIST = Command(lists=True, options=Options, run=run_list, examples=("lattice uenv list", "lattice uenv list -o json"))
FIND = Command(lists=True, options=Options, fill=fill_find, run=run_list, examples=("lattice uenv find gnu",))
INSPECT = Command(
    options=Options,
    fill=fill_image,
    run=run_inspect,
    examples=("lattice uenv inspect prgenv-gnu/24.11:v1", "lattice uenv inspect ./tools.squashfs"),
)
VIEWS = Command(
    options=Options,
    fill=fill_views,
    run=run_views,
    examples=("lattice uenv views prgenv-gnu/24.11:v1", "lattice uenv views prgenv-gnu/24.11:v1 --view=default"),
)
STATUS = Command(options=Options, fill=fill_status, run=run_status, examples=("lattice uenv status a17",))
