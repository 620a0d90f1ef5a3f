"""The images of the site, what is in them, and which of them an allocation has."""

from msgspec import Struct

from lattice.api.auditing import record_access
from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import find
from lattice.api.running.step_launch import single
from lattice.api.submit.images import registry_image
from lattice.core.model.ids import allocation_id
from lattice.images.metadata import ImageMetadata, View
from lattice.ports.nodes.agents import AgentUnreachable, RunKey
from lattice.ports.nodes.images import ImagesAsk, NodeImagesTold
from lattice.ports.site.images import RegistryError

MAX_PATTERN = 512


class ImagesQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`find`: only images whose name contains this."""

    find: str = ""


class ImageQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    image: str


class RunImagesQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str


class ListedImageView(Struct, frozen=True, kw_only=True):
    image: str
    name: str
    version: str
    tag: str
    size: int


class ListedImagesView(Struct, frozen=True, kw_only=True):
    """By name, version and tag. `directory` is where they are kept, for who may write there; empty = in no directory."""

    items: tuple[ListedImageView, ...]
    directory: str = ""


class PatchView(Struct, frozen=True, kw_only=True):
    """A change of a variable: set, append, prepend or unset."""

    variable: str
    operation: str
    values: tuple[str, ...]


class ViewOfImage(Struct, frozen=True, kw_only=True):
    name: str
    description: str
    patches: tuple[PatchView, ...]


class ImageView(Struct, frozen=True, kw_only=True):
    """`source` is where nodes read it."""

    image: str
    digest: str
    size: int
    source: str
    signed_by: str  # the key of the site that signed it; empty = it is not signed
    mount: str
    description: str
    views: tuple[ViewOfImage, ...]


class MountedImageView(Struct, frozen=True, kw_only=True):
    image: str
    digest: str
    mount: str
    size: int
    views: tuple[str, ...]


class VariableChangeView(Struct, frozen=True, kw_only=True):
    """What a view did to a variable, in this order; `value` is null where the variable was unset."""

    variable: str
    operation: str
    view: str
    value: str | None


class RunImagesView(Struct, frozen=True, kw_only=True):
    """The images of a running allocation as its first node mounted them."""

    id: str
    node: str
    images: tuple[MountedImageView, ...]
    changes: tuple[VariableChangeView, ...]


async def list_images(context: Context, request: ImagesQuery) -> ListedImagesView:
    """List the images of the site's registry."""
    registry = context.services.images
    if registry is None:
        return ListedImagesView(items=())
    try:
        found = await registry.list_images()
    except RegistryError as problem:
        raise ApiError("unavailable", str(problem), hint=problem.hint or "try again later") from None
    wanted = request.find[:MAX_PATTERN].lower()
    return ListedImagesView(
        items=tuple(
            ListedImageView(image=each.label, name=each.name, version=each.version, tag=each.tag, size=each.size)
            for each in found
            if wanted in each.label.lower()
        ),
        directory=registry.directory,
    )


async def get_image(context: Context, request: ImageQuery) -> ImageView:
    """Get an image of the site's registry, with its views."""
    found = await registry_image(context, "image", request.image)
    about = found.metadata or ImageMetadata()
    return ImageView(
        image=found.label,
        digest=found.digest,
        size=found.size,
        source=found.source,
        signed_by=found.signed_by,
        mount=about.mount,
        description=about.description,
        views=tuple(_view(each) for each in about.views.values()),
    )


async def run_images(context: Context, request: RunImagesQuery) -> RunImagesView:
    """Get the images that a running allocation has mounted, and what their views did to its environment."""
    found = single(await find(context, request.id))
    if not context.covers(Permission.READ_DETAILS, user=found.user, tenant=found.tenant):
        raise ApiError("forbidden", f"the environment of {allocation_id(found.number)} is its owner's alone")
    await record_access(context, "allocation.details", found, "images")
    node = found.nodes[0] if found.is_holding and found.nodes else ""
    told = NodeImagesTold()
    if node:
        ask = ImagesAsk(what="run", key=RunKey(found.number, found.run))
        try:
            told = await context.services.links.ask_images(node, ask)
        except AgentUnreachable as problem:
            raise ApiError("conflict", str(problem), hint="try again when the node is connected") from None
    return RunImagesView(
        id=allocation_id(found.number),
        node=node,
        images=tuple(
            MountedImageView(
                image=each.reference.partition("@sha256:")[0],
                digest=each.digest,
                mount=each.mount,
                size=each.size,
                views=each.views,
            )
            for each in told.mounted
        ),
        changes=tuple(
            VariableChangeView(variable=each.variable, operation=each.operation, view=each.view, value=each.value)
            for each in told.changes
        ),
    )


def _view(view: View) -> ViewOfImage:
    return ViewOfImage(
        name=view.name,
        description=view.description,
        patches=tuple(
            PatchView(variable=each.variable, operation=each.operation, values=each.values) for each in view.patches
        ),
    )
