"""Images that a user names by path: made absolute, read with the user's own rights, and sent with the digest of their bytes."""

import hashlib
import os

from lattice.cli.errors import UsageError
from lattice.images.metadata import ImageMetadata, choose_views, read_metadata
from lattice.images.references import BadReference, ImageReference, check_mounts, parse_images, parse_views
from lattice.images.squashfs import BadImage


def complete_images(uenv: str, view: str, tools: str, directory: str) -> tuple[str, str]:
    """Both lists of images with absolute paths and digests. Raises UsageError for what can be seen to be wrong from here."""
    images = _completed(uenv, "--uenv", directory)
    more = _completed(tools, "--tools-uenv", directory)
    try:
        wanted = parse_views(view) if view else ()
        if wanted and not images and not more:
            raise BadReference("a view needs an image", "add --uenv")
        known = [(reference.label, metadata) for reference, metadata in (*images, *more)]
        choose_views(wanted, known)
    except BadReference as problem:
        raise UsageError(f"--view: {problem}", hint=problem.hint) from None
    try:
        check_mounts([mount for each in (*images, *more) if (mount := _mount(*each))])
    except BadReference as problem:
        raise UsageError(f"--uenv: {problem}", hint=problem.hint) from None
    return _joined(images), _joined(more)


def describe_file(path: str) -> tuple[str, int, ImageMetadata | None]:
    """Digest, size and metadata of an image. Raises UsageError."""
    try:
        with open(path, "rb") as file:
            metadata = read_metadata(lambda offset, size: os.pread(file.fileno(), size, offset))
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return digest, os.fstat(file.fileno()).st_size, metadata
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="name an image that you can read") from None
    except BadImage as error:
        raise UsageError(f"{path}: {error}", hint="make images with mksquashfs") from None


def absolute(path: str, directory: str) -> str:
    return os.path.normpath(os.path.join(directory, os.path.expanduser(path)))


_Known = list[tuple[ImageReference, ImageMetadata | None]]


def _completed(text: str, flag: str, directory: str) -> _Known:
    try:
        references = parse_images(text) if text else ()
    except BadReference as problem:
        raise UsageError(f"{flag}: {problem}", hint=problem.hint) from None
    return [_complete(each, flag, directory) for each in references]


def _complete(reference: ImageReference, flag: str, directory: str) -> tuple[ImageReference, ImageMetadata | None]:
    """What the registry has is known to the server alone: no metadata."""
    if not reference.path:
        return reference, None
    path = absolute(reference.path, directory)
    if reference.digest and not os.path.exists(path):
        return reference._replace(path=path), None  # on the nodes it may be there
    digest, _, metadata = describe_file(path)
    if reference.digest and reference.digest != digest:
        raise UsageError(f"{flag}: {path} has the digest sha256:{digest}", hint="leave the digest out to use this file")
    if not reference.mount and (metadata is None or not metadata.mount):
        raise UsageError(
            f"{flag}: {path} does not say where to mount it: it has no metadata", hint=f"write {path}:/user-environment"
        )
    return reference._replace(path=path, digest=digest), metadata or ImageMetadata()


def _mount(reference: ImageReference, metadata: ImageMetadata | None) -> str:
    return reference.mount or (metadata.mount if metadata else "")


def _joined(images: _Known) -> str:
    return ",".join(str(reference) for reference, _ in images)
