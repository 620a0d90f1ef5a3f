"""Puts the images of an order into a request to the shim: mounts, and the environment as the views make it."""

import asyncio
import hashlib
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import msgspec

from lattice.agent.images.cache import CacheFull, FetchStopped, WrongDigest
from lattice.agent.images.fetching import ImageFetcher, Say
from lattice.agent.images.sources import Reader, SourceFailed
from lattice.images.metadata import FILE, ImageMetadata, choose_views, read_metadata
from lattice.images.patches import Change, apply_views
from lattice.images.references import BadReference, ViewReference, check_mounts, checked_mount, parse_images
from lattice.images.squashfs import BadImage
from lattice.ports.nodes.agents import StartOrder
from lattice.ports.nodes.blobs import BlobRefused, BlobUnavailable
from lattice.ports.nodes.images import ImageOrder, MountedImage, VariableChange

SQUASHFS, SQUASHFUSE = "squashfs", "squashfuse"  # the shim's words for the two ways to mount an image
REPORT = "images.json"  # in the folder of the run
# Says what has been done to an environment, so that a step launched from inside does not do it again.
MARKER = "LATTICE_UENV"
# Made on the node when they are missing: public images are built for them.
USUAL_MOUNTS = ("/user-environment", "/user-tools")
MOUNTINFO = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")  # how the kernel writes a space


class ImageRefused(Exception):
    """The work asks for something that no node can do; the text is for the user."""


class ImageUnavailable(Exception):
    """This node cannot have the image now; the text is for the user."""


class ImagesReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has mounted, and which patch set which variable: for `lattice uenv status`."""

    images: tuple[MountedImage, ...] = ()
    changes: tuple[VariableChange, ...] = ()


class _Held(msgspec.Struct, frozen=True):
    order: ImageOrder
    path: Path
    metadata: ImageMetadata | None
    mount: str


async def add_images(
    order: StartOrder, request: dict[str, object], fetcher: ImageFetcher, say: Say = lambda _: True
) -> ImagesReport:
    """Fetches what is missing, then adds mounts and variables. Raises ImageRefused and ImageUnavailable."""
    reader = Reader(
        name=order.user,
        uid=cast("int", request["uid"]),
        gid=cast("int", request["gid"]),
        groups=tuple(cast("list[int]", request.get("groups") or [])),
    )
    try:
        paths = [await fetcher.obtain(image, reader, say) for image in order.images]
        held = await asyncio.to_thread(_open_all, order, paths, is_private=bool(fetcher.server))
    except (WrongDigest, SourceFailed, BlobRefused, BadReference, BadImage) as error:
        hint = f" ({error.hint})" if isinstance(error, BadReference) and error.hint else ""
        raise ImageRefused(f"uenv: {error}{hint}") from error
    except (CacheFull, BlobUnavailable, OSError) as error:
        raise ImageUnavailable(f"images: {error}") from error
    except FetchStopped:
        raise ImageUnavailable("images: the fetch was stopped") from None
    mounts = cast("list[dict[str, str]]", request.setdefault("mounts", []))
    way = {"kind": SQUASHFUSE, "program": fetcher.server} if fetcher.server else {"kind": SQUASHFS}
    mounts += [{**way, "target": each.mount, "source": str(each.path)} for each in held]
    try:
        return _apply(order, request, held)
    except BadReference as error:
        raise ImageRefused(f"uenv: {error}{f' ({error.hint})' if error.hint else ''}") from error


def _open_all(order: StartOrder, paths: Sequence[Path], *, is_private: bool) -> list[_Held]:
    held = []
    for image, path in zip(order.images, paths, strict=True):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            metadata = read_metadata(lambda offset, size: os.pread(fd, size, offset))  # noqa: B023 - called here only
        except BadImage as error:
            raise BadImage(f"{image.reference}: {error}") from error
        finally:
            os.close(fd)
        held.append(_Held(image, path, metadata, _mount_of(image, metadata)))
    check_mounts([each.mount for each in held])
    for each in held:
        check_target(each.mount, is_private=is_private)
    return held


def _mount_of(image: ImageOrder, metadata: ImageMetadata | None) -> str:
    if image.mount:
        return checked_mount(image.mount)
    if metadata is None or not metadata.mount:
        raise BadReference(
            f"{image.reference} does not say where to mount it: it has no {FILE}", "write REF:/mount/point"
        )
    return metadata.mount


def _apply(order: StartOrder, request: dict[str, object], held: list[_Held]) -> ImagesReport:
    wanted = [_view_reference(text) for text in order.views]
    labels = [label_of(each.order.reference) for each in held]
    chosen = choose_views(
        wanted, [(label, each.metadata or ImageMetadata()) for label, each in zip(labels, held, strict=True)]
    )
    known = [each for each in chosen if each is not None]
    environment = cast("dict[str, str]", request["env"])
    mark = _mark(held, order.views)
    changes: list[Change] = []
    if environment.get(MARKER) != mark:
        views = [(f"{labels[each.place]}:{each.view.name}", each.view) for each in known]
        environment, changes = apply_views(environment, views)
        environment[MARKER] = mark
        request["env"] = environment
    return ImagesReport(
        images=tuple(
            MountedImage(
                reference=each.order.reference,
                digest=each.order.digest,
                mount=each.mount,
                size=each.path.stat().st_size,
                views=tuple(view.view.name for view in known if view.place == place),
            )
            for place, each in enumerate(held)
        ),
        changes=tuple(
            VariableChange(variable=each.variable, operation=each.operation, view=each.source, value=each.value)
            for each in changes
        ),
    )


def label_of(reference: str) -> str:
    """What a person calls the image."""
    return parse_images(reference)[0].label


def _view_reference(text: str) -> ViewReference:
    image, _, view = text.rpartition(":")
    return ViewReference(view, image)


def _mark(held: list[_Held], views: tuple[str, ...]) -> str:
    said = [f"{each.order.digest}={each.mount}" for each in held] + list(views)
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]


def check_target(target: str, *, is_private: bool = False) -> None:
    """Raises BadReference for a place where an image could hide what others rely on, or that a user could move meanwhile.

    With `is_private` the usual places need not exist: they are made in the run's own view, since only root can make them on the host.
    """
    if target in USUAL_MOUNTS and not os.path.lexists(target):
        if is_private:
            return
        os.mkdir(target, 0o755)
    at = "/"
    for name in target.strip("/").split("/"):
        at = os.path.join(at, name)
        try:
            found = os.lstat(at)
        except FileNotFoundError:
            raise BadReference(
                f"the mount point {target} does not exist on this node", f"mount it on {USUAL_MOUNTS[0]}"
            ) from None
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0 or found.st_mode & 0o022:
            raise BadReference(
                f"{at} cannot be part of a mount point: it must be a directory that only root can change",
                f"mount it on {USUAL_MOUNTS[0]}",
            )
    for line in MOUNTINFO.read_text(errors="replace").splitlines():
        mounted = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), line.split(" ")[4])
        if mounted == target or mounted.startswith(f"{target}/"):
            raise BadReference(f"{mounted} is mounted already on this node", f"mount it on {USUAL_MOUNTS[0]}")
