"""The container that a user names: paths made absolute, read with the user's own rights, and sent with the digest of what is there."""

import hashlib
import os
import platform

from msgspec.structs import replace

from lattice.cli.errors import UsageError
from lattice.cli.input.images import absolute
from lattice.images.containers import (
    OCI,
    SQUASHFS,
    Bind,
    ContainerReference,
    check_binds,
    checked_target,
    parse_bind,
    parse_container,
    parse_name,
)
from lattice.images.metadata import near
from lattice.images.oci import (
    MAX_DOCUMENT,
    Descriptor,
    choose_manifest,
    is_index,
    parse_index,
    parse_manifest,
    platform_of,
)
from lattice.images.references import BadReference
from lattice.images.squashfs import BadImage, SquashfsReader
from lattice_sdk.models.runs import ContainerOptions


def complete_container(
    image: str, options: ContainerOptions, directory: str, *, in_step: bool = False
) -> tuple[str, ContainerOptions]:
    """The image with its digest and the mounts with absolute paths. Raises UsageError for what can be seen to be wrong from here.

    A step may name a container that is there already.
    """
    if not image and not (in_step and options.name):
        raise UsageError("--mount and the options of a container need an image", hint="add --image")
    try:
        reference = parse_container(image) if image else None
    except BadReference as problem:
        raise UsageError(f"--image: {problem}", hint=problem.hint) from None
    if reference is not None and reference.kind in (OCI, SQUASHFS):
        reference = _of_path(reference, directory)
    try:
        if options.name:
            parse_name(options.name)
    except BadReference as problem:
        raise UsageError(f"--container-name: {problem}", hint=problem.hint) from None
    try:
        binds = [_readable(parse_bind(text), directory) for text in options.mounts]
        check_binds(binds)
        if options.workdir not in ("", "/"):
            checked_target(options.workdir)
    except BadReference as problem:
        raise UsageError(f"--mount: {problem}", hint=problem.hint) from None
    return str(reference or ""), replace(options, mounts=[str(each) for each in binds])


def _readable(bind: Bind, directory: str) -> Bind:
    """With an absolute path. What is not here may be there on the nodes."""
    source = absolute(bind.source, directory)
    if os.path.exists(source) and not os.access(source, os.R_OK):
        raise BadReference(f"you cannot read {source}", "only what you may read can be mounted")
    return bind._replace(source=source)


def _of_path(reference: ContainerReference, directory: str) -> ContainerReference:
    path = absolute(reference.path, directory)
    here = reference._replace(path=path)
    if reference.digest and not os.path.exists(path):
        return here  # on the nodes it may be there
    try:
        digest = _layout_digest(here) if reference.kind == OCI else _file_digest(path)
    except OSError as error:
        raise UsageError(f"--image: {path}: {error.strerror}", hint="name an image that you can read") from None
    except BadImage as error:
        hint = (
            "make images with mksquashfs"
            if reference.kind == SQUASHFS
            else "make one with `skopeo copy ... oci:DIR:TAG`"
        )
        raise UsageError(f"--image: {path}: {error}", hint=hint) from None
    if reference.digest and reference.digest != digest:
        raise UsageError(
            f"--image: {path} has the digest sha256:{digest}", hint="leave the digest out to use this image"
        )
    return here._replace(digest=digest)


def _file_digest(path: str) -> str:
    with open(path, "rb") as file:
        SquashfsReader(lambda offset, size: os.pread(file.fileno(), size, offset))
        return hashlib.file_digest(file, "sha256").hexdigest()


def _layout_digest(reference: ContainerReference) -> str:
    """The digest of the manifest that the tag means for this kind of machine."""
    named = parse_index(_document(f"{reference.path}/index.json"))
    if reference.tag:
        found = [each for each in named if each.name == reference.tag]
    elif reference.digest:
        found = [each for each in named if each.digest == reference.digest]
    else:
        found = list(named)
    if not found or (len(found) > 1 and not all(each.platform for each in found)):
        tags = [each.name for each in named if each.name]
        what = f'no image with the tag "{reference.tag}"' if reference.tag else "several images"
        raise UsageError(f"--image: {reference.path} holds {what}", hint=near(reference.tag, tags, "tags"))
    wanted = platform_of(platform.machine())
    manifest = choose_manifest(tuple(found), wanted)
    document = _blob(reference.path, manifest)
    if is_index(document):
        manifest = choose_manifest(parse_index(document), wanted)
        document = _blob(reference.path, manifest)
    parse_manifest(document)
    return manifest.digest


def _blob(folder: str, blob: Descriptor) -> bytes:
    document = _document(f"{folder}/blobs/sha256/{blob.digest}")
    if hashlib.sha256(document).hexdigest() != blob.digest:
        raise BadImage(f"its blob sha256:{blob.digest[:12]}... has other bytes than its name says")
    return document


def _document(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(MAX_DOCUMENT + 1)
