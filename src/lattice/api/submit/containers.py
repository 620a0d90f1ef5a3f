"""The container of a submission: what it names, resolved to a digest once and for all (docs/architecture/images.md)."""

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.submit.lacking import check_any_has
from lattice.images.containers import (
    NAMED,
    OCI,
    REGISTRY,
    ContainerReference,
    check_binds,
    checked_target,
    parse_bind,
    parse_container,
)
from lattice.images.references import BadReference
from lattice.ports.nodes.images import ContainerOrder, ImageOrder
from lattice.ports.site.images import FoundImage, RegistryError, RegistryUnavailable
from lattice.wire.text.problems import BadField
from lattice.wire.work.submissions import CONTAINER_FEATURE, Submission

PATH_HINT = "write it with @sha256:DIGEST; `lattice submit` adds the digest of an image that you can read"


async def resolve_container(context: Context, request: Submission) -> ContainerOrder:
    """What its nodes run the work in. Raises BadField and ApiError."""
    if not request.image:
        raise BadField("container", "options of a container need an image", hint='give "image"')
    options = request.container
    await check_any_has(
        context,
        CONTAINER_FEATURE,
        "image: no node of this cluster has a container runtime",
        "run it without a container, or ask the operators to install crun on nodes whose agent runs as root",
    )
    try:
        reference = parse_container(request.image)
    except BadReference as problem:
        raise BadField("image", str(problem), hint=problem.hint) from None
    try:
        binds = [parse_bind(text) for text in options.mounts]
        check_binds(binds)
    except BadReference as problem:
        raise BadField("container.mounts", str(problem), hint=problem.hint) from None
    try:
        workdir = checked_workdir(options.workdir)
    except BadReference as problem:
        raise BadField("container.workdir", str(problem), hint=problem.hint) from None
    for each in binds:
        if not each.source.startswith("/"):
            raise BadField("container.mounts", f"{each.source[:60]} is not an absolute path", hint="write /SRC:/DST")
    return ContainerOrder(
        image=await _resolve(context, reference),
        binds=tuple(str(each) for each in binds),
        writable=options.writable,
        workdir=workdir,
        no_home=options.no_home,
    )


def checked_workdir(path: str) -> str:
    """Raises BadReference."""
    if not path or path == "/":
        return path
    return checked_target(path)


async def named_image(context: Context, text: str) -> ImageOrder:
    """What nodes fetch for an image that the site or a registry has by this name. Raises BadField and ApiError."""
    try:
        reference = parse_container(text)
    except BadReference as problem:
        raise BadField("image", str(problem), hint=problem.hint) from None
    if reference.kind not in (NAMED, REGISTRY):
        raise BadField(
            "image", "only images of registries can be named here", hint="write NAME/VERSION:TAG or HOST/REPOSITORY:TAG"
        )
    return await _resolve(context, reference)


async def _resolve(context: Context, reference: ContainerReference) -> ImageOrder:
    if reference.kind not in (NAMED, REGISTRY):
        return _of_user(reference)
    try:
        found = await _ask(context, reference)
    except RegistryUnavailable as problem:
        # A folder of the site is back in a moment; a registry elsewhere may be down for long, and a caller must not wait for it.
        code = "unavailable" if reference.kind == NAMED else "conflict"
        raise ApiError(code, f"image: {problem}", hint=problem.hint or "try again later") from None
    except RegistryError as problem:
        raise BadField("image", str(problem), hint=problem.hint) from None
    return ImageOrder(
        reference=f"{found.label}@sha256:{found.digest}",
        digest=found.digest,
        source=found.source,
        size=found.size,
        kind=found.kind,
        signed_by=found.signed_by,
    )


async def _ask(context: Context, reference: ContainerReference) -> FoundImage:
    """Raises RegistryError and BadField."""
    if reference.kind == REGISTRY:
        registries = context.services.registries
        if registries is None:
            raise BadField(
                "image",
                f"this cluster takes no images from {reference.host}: it has no registries",
                hint="use oci:DIRECTORY:TAG, or ask the operators to add it to images.registries",
            )
        return await registries.resolve(reference)
    if context.services.images is None:
        raise BadField(
            "image", "this cluster has no image registry", hint="give the path of an image that nodes can read"
        )
    return await context.services.images.resolve(reference.as_image)


def _of_user(reference: ContainerReference) -> ImageOrder:
    if not reference.path.startswith("/"):
        raise BadField("image", f"{reference.path[:60]} is not an absolute path", hint=PATH_HINT)
    if not reference.digest:
        raise BadField("image", f"{reference.label[:80]} is given without its digest", hint=PATH_HINT)
    return ImageOrder(
        reference=str(reference),
        digest=reference.digest,
        source=reference.path,
        by_user=True,
        kind=OCI if reference.kind == OCI else "",
    )
