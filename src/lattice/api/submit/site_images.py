"""What a vCluster says of images and nodes: its default image, signed images alone, and nodes that enforce every limit.

This comes last: rules of the site and the submit filter may have moved the work to another vCluster.
"""

from msgspec.structs import replace

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.submit.defaults import PreparedSubmission
from lattice.api.submit.images import resolve_images
from lattice.core.model.site.tenants import NO_DEMANDS, SENSITIVE, Confinement, Vcluster
from lattice.ports.nodes.images import ImageOrder
from lattice.wire.text.problems import BadField
from lattice.wire.work.payloads import Work, decode_work, encode_work
from lattice.wire.work.submissions import CONFINED_FEATURE, IO_FEATURE, NO_UENV, Submission


async def settle_images(context: Context, prepared: PreparedSubmission, uenv: str) -> None:
    """`uenv` is what the submission says, `none` where it wants no default. Raises ApiError."""
    vcluster = context.state.vclusters.get(prepared.command.vcluster)
    if vcluster is None:
        return
    demands = vcluster.demands or NO_DEMANDS
    if demands.confinement is Confinement.STRICT:
        add_feature(prepared, CONFINED_FEATURE)
        if demands.read_mb_s or demands.write_mb_s:
            add_feature(prepared, IO_FEATURE)
    needs_signatures = demands.require_signed or vcluster.scheduler == SENSITIVE
    if not demands.default_uenv and not needs_signatures:
        return
    work = decode_work(prepared.command.payload)
    if demands.default_uenv and uenv != NO_UENV and not work.images and work.container is None:
        work = await _with_default(context, prepared, demands.default_uenv, work)
    if needs_signatures:
        images = (*work.images, *((work.container.image,) if work.container is not None else ()))
        for image in images:
            _check_signed(image, vcluster)


def check_step_image(context: Context, name: str, image: ImageOrder) -> None:
    """What the vCluster of a step's allocation says of an image of the step alone. Raises ApiError."""
    vcluster = context.state.vclusters.get(name)
    if vcluster is None or not image.digest:
        return
    if (vcluster.demands or NO_DEMANDS).require_signed or vcluster.scheduler == SENSITIVE:
        _check_signed(image, vcluster)


async def _with_default(context: Context, prepared: PreparedSubmission, default: str, work: Work) -> Work:
    try:
        found = await resolve_images(context, Submission(uenv=default))
    except BadField as problem:
        raise ApiError(
            "infeasible",
            f'the default image of vCluster "{prepared.command.vcluster}" cannot be used: {problem}',
            hint=f"name another one, or uenv {NO_UENV}",
        ) from None
    work = replace(work, images=found.images)
    prepared.command = replace(prepared.command, payload=encode_work(work))
    for feature in found.features:
        add_feature(prepared, feature)
    return work


def add_feature(prepared: PreparedSubmission, feature: str) -> None:
    """Only nodes that have it will do."""
    request = prepared.command.request
    if feature not in request.features:
        features = tuple(sorted((*request.features, feature)))
        prepared.command = replace(prepared.command, request=replace(request, features=features))


def _check_signed(image: ImageOrder, vcluster: Vcluster) -> None:
    if image.signed_by:
        return
    name = image.reference.partition("@sha256:")[0]
    raise ApiError(
        "forbidden",
        f'vCluster "{vcluster.name}" takes signed images only, and {name} is not signed',
        hint="use an image of the site that is signed, or ask the operators to sign it: lattice uenv sign",
    )
