"""The container of a submission: what it names, resolved to a digest once and for all (docs/architecture/images.md)."""

from msgspec.structs import replace

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.submit.lacking import check_any_has
from lattice.core.model.work.allocations import Allocation
from lattice.images.containers import (
    AUTO,
    CREATE,
    EXEC,
    NAMED,
    OCI,
    REGISTRY,
    ContainerReference,
    NamedContainer,
    check_binds,
    checked_target,
    parse_bind,
    parse_container,
    parse_name,
)
from lattice.images.references import BadReference
from lattice.ports.nodes.images import ContainerOrder, ImageOrder
from lattice.ports.site.images import FoundImage, RegistryError, RegistryUnavailable
from lattice.wire.text.problems import BadField
from lattice.wire.work.payloads import decode_work
from lattice.wire.work.steps import StepSubmission
from lattice.wire.work.submissions import CONTAINER_FEATURE, NO_OPTIONS, ContainerOptions, Submission

NO_IMAGE = ImageOrder(reference="", digest="", source="")
PATH_HINT = "write it with @sha256:DIGEST; `lattice submit` adds the digest of an image that you can read"


async def resolve_container(context: Context, request: Submission) -> ContainerOrder:
    """What its nodes run the work in. Raises BadField and ApiError."""
    options = request.container
    named = _named(options)
    if not request.image and named.name:
        raise BadField("container.name", _unknown(named.name), hint="say what it is made of")
    if not request.image:
        raise BadField("container", "options of a container need an image", hint='give "image"')
    if named.way == EXEC:
        raise BadField("container.name", f'nothing runs in "{named.name}" yet', hint=f"leave :{EXEC} out")
    await check_any_has(
        context,
        CONTAINER_FEATURE,
        "image: no node of this cluster has a container runtime",
        "run it without a container, or ask the operators to install crun on nodes whose agent runs as root",
    )
    return replace(await _resolved(context, request.image, options), name=named.name)


async def resolve_step_container(
    context: Context, allocation: Allocation, request: StepSubmission
) -> ContainerOrder | None:
    """What a step runs in, if that is not what its allocation runs in. Raises BadField and ApiError."""
    options = request.container
    if not request.image and options == NO_OPTIONS:
        return None
    named = _named(options)
    work = decode_work(context.state.payload_of(allocation))
    if work.container is not None:
        _check_same(work.container.name, named, request)
        return None
    if not request.image and not named.name:
        raise BadField("container", "options of a container need an image", hint='give "image", or a name')
    if named.way == CREATE and not request.image:
        raise BadField("container.name", f":{CREATE} needs an image", hint=f"say what {named.name} is made of")
    if named.way == EXEC and (options.mounts or options.writable or options.no_home):
        raise BadField(
            "container.name", f":{EXEC} joins a container that runs, as it is", hint="leave its other options out"
        )
    way = "" if named.way == AUTO else named.way
    return replace(await _resolved(context, request.image, options), name=named.name, way=way)


def _check_same(name: str, named: NamedContainer, request: StepSubmission) -> None:
    """A step of work in a container is inside; it may say so. Raises BadField."""
    others = replace(request.container, name="")
    if name and named.name == name and named.way in (AUTO, EXEC) and not request.image and others == NO_OPTIONS:
        return
    whose = f', which has the name "{name}"' if name else ""
    raise BadField(
        "image",
        f"a step has the container of its allocation{whose}",
        hint="submit the work without an image, and give one to each step",
    )


def _named(options: ContainerOptions) -> NamedContainer:
    try:
        return parse_name(options.name) if options.name else NamedContainer()
    except BadReference as problem:
        raise BadField("container.name", str(problem), hint=problem.hint) from None


def _unknown(name: str) -> str:
    return f'a container with name "{name}" does not exist when work begins, and it has no image'


async def _resolved(context: Context, image: str, options: ContainerOptions) -> ContainerOrder:
    """Raises BadField and ApiError."""
    try:
        reference = parse_container(image) if image else None
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
        image=NO_IMAGE if reference is None else await _resolve(context, reference),
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
