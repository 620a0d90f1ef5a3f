"""The images of a submission: what it names, resolved to digests once and for all (docs/architecture/images.md).

Resolution happens here, before the command: the log holds digests, so that every run, step and requeue has the same bytes.
"""

from msgspec.structs import replace

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.submit.containers import resolve_container
from lattice.api.submit.lacking import check_any_has
from lattice.core.machine.levels import OLDEST
from lattice.images.metadata import ImageMetadata, choose_views
from lattice.images.references import (
    BadReference,
    ImageReference,
    check_mounts,
    is_relative,
    parse_images,
    parse_views,
)
from lattice.ports.nodes.images import ImageOrder
from lattice.ports.site.images import FoundImage, RegistryError, RegistryUnavailable
from lattice.wire.text.problems import BadField
from lattice.wire.work.submissions import IMAGE_NAMES, NO_OPTIONS, NO_UENV, UENV_FEATURE, Images, Submission

PATH_HINT = "write PATH@sha256:DIGEST; `lattice submit` adds the digest of a file that you can read"


def with_image_fields(request: Submission) -> Submission:
    """The same with what `environment` says of images in the fields that are for it. Raises BadField."""
    environment = request.environment
    if not environment:
        return request
    named = {name: environment[name] for name in IMAGE_NAMES if name in environment}
    if not named:
        return request
    for name, value in named.items():
        given = getattr(request, name)
        if given and given != value:
            raise BadField(
                f"environment.{name}", f"says {value[:60]}, but {name} says {given[:60]}", hint="give one of the two"
            )
    others = {name: value for name, value in environment.items() if name not in named}
    return replace(request, environment=others, **named)


async def resolve_images(context: Context, request: Submission) -> Images:
    """What its nodes mount and apply. Raises BadField and ApiError; nothing was changed then."""
    if request.scratch:
        _check_level(context, "scratch of a size needs")
    if request.image or request.container != NO_OPTIONS:
        if request.uenv or request.tools_uenv or request.view:
            raise BadField("image", "image and uenv exclude each other", hint="give one of the two")
        _check_level(context)
        return Images(container=await resolve_container(context, request))
    if request.uenv == NO_UENV:
        request = replace(request, uenv="")
    if not request.uenv and not request.tools_uenv:
        if request.view:
            raise BadField("view", "a view needs an image", hint="name the image that it belongs to: uenv")
        return Images()
    _check_level(context)
    orders: list[ImageOrder] = []
    known: list[tuple[str, ImageMetadata | None]] = []
    for field, text in (("uenv", request.uenv), ("tools_uenv", request.tools_uenv)):
        for reference in _parse(field, text):
            order, name, metadata = await _resolve(context, field, reference)
            orders.append(order)
            known.append((name, metadata))
    views = _views(request.view, known)
    try:
        check_mounts(
            [mount for order, (_, about) in zip(orders, known, strict=True) if (mount := _mount(order, about))]
        )
    except BadReference as problem:
        raise BadField("uenv", str(problem), hint=problem.hint) from None
    await _check_nodes(context)
    return Images(images=tuple(orders), views=views)


async def _check_nodes(context: Context) -> None:
    """A machine without nodes yet refuses nothing."""
    if context.state.nodes:
        await check_any_has(
            context,
            UENV_FEATURE,
            "uenv: no node of this cluster mounts images",
            "install squashfuse on nodes whose agent does not run as root and restart their agents; "
            "`lattice nodes ID` shows what a node lacks",
        )


def _check_level(context: Context, what: str = "images need") -> None:
    if context.state.level <= OLDEST:
        raise ApiError(
            "conflict",
            f"{what} level {OLDEST + 1}; this cluster still runs at level {context.state.level}",
            hint="When every server runs the new release, raise the level: lattice admin upgrade finalize.",
        )


def _parse(field: str, text: str) -> tuple[ImageReference, ...]:
    try:
        return parse_images(text) if text else ()
    except BadReference as problem:
        raise BadField(field, str(problem), hint=problem.hint) from None


def _views(text: str, known: list[tuple[str, ImageMetadata | None]]) -> tuple[str, ...]:
    try:
        wanted = parse_views(text) if text else ()
        choose_views(wanted, known)
    except BadReference as problem:
        raise BadField("view", str(problem), hint=problem.hint) from None
    return tuple(str(each) for each in wanted)


def _mount(order: ImageOrder, metadata: ImageMetadata | None) -> str:
    return order.mount or ("" if metadata is None else metadata.mount)


async def _resolve(
    context: Context, field: str, reference: ImageReference
) -> tuple[ImageOrder, str, ImageMetadata | None]:
    """The order for the node; the image's name and, where it is known here, what it says of itself."""
    if reference.path:
        return _of_user(field, reference), reference.label, None
    found = await _ask(context, field, reference)
    return _of_registry(field, reference, found), found.label, found.metadata or ImageMetadata()


async def registry_image(context: Context, field: str, text: str) -> FoundImage:
    """The one image of the site's registry that is meant. Raises BadField and ApiError."""
    references = _parse(field, text)
    if len(references) != 1 or references[0].path:
        raise BadField(field, "names no image of the registry", hint="write NAME/VERSION:TAG")
    return await _ask(context, field, references[0])


async def _ask(context: Context, field: str, reference: ImageReference) -> FoundImage:
    registry = context.services.images
    if registry is None:
        raise BadField(
            field, "this cluster has no image registry", hint="give the path of an image that nodes can read"
        )
    try:
        return await registry.resolve(reference)
    except RegistryUnavailable as problem:
        # A folder of the site is back in a moment; a registry elsewhere may be down for long, and a caller must not wait for it.
        code = "unavailable" if registry.directory else "conflict"
        raise ApiError(code, f"{field}: {problem}", hint=problem.hint or "try again later") from None
    except RegistryError as problem:
        raise BadField(field, str(problem), hint=problem.hint) from None


def _of_user(field: str, reference: ImageReference) -> ImageOrder:
    if is_relative(reference):
        raise BadField(field, f"{reference.path[:60]} is not an absolute path", hint=PATH_HINT)
    if not reference.digest:
        raise BadField(field, f"{reference.path[:60]} is given without its digest", hint=PATH_HINT)
    return ImageOrder(
        reference=str(reference), digest=reference.digest, source=reference.path, mount=reference.mount, by_user=True
    )


def _of_registry(field: str, reference: ImageReference, found: FoundImage) -> ImageOrder:
    if not reference.mount and (found.metadata is None or not found.metadata.mount):
        raise BadField(
            field, f"{found.label} does not say where to mount it", hint=f"write {found.label}:/user-environment"
        )
    return ImageOrder(
        reference=f"{found.label}@sha256:{found.digest}",
        digest=found.digest,
        source=found.source,
        mount=reference.mount,
        size=found.size,
        signed_by=found.signed_by,
    )
