"""A registry of images in a folder that servers and nodes see under the same path: NAME/VERSION/TAG.squashfs."""

import asyncio
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from lattice.images.metadata import ImageMetadata, read_metadata
from lattice.images.references import ImageReference
from lattice.images.signatures import MAX_FILE, BadSignature, PublicKey, signer_of
from lattice.images.signatures import SUFFIX as SIGNATURE
from lattice.images.squashfs import BadImage
from lattice.integrations.directory.choosing import choose_image
from lattice.ports.site.images import FoundImage, ListedImage, RegistryUnavailable, UnusableImage

SUFFIX = ".squashfs"

_Identity = tuple[int, int, int, int, int]


class DirectoryRegistry:
    """Implements `ImageRegistry`. What was read of a file is remembered as long as the file is the same."""

    def __init__(self, root: Path, keys: Sequence[PublicKey] = ()) -> None:
        """With keys of the site, an image beside which a signature lies is refused unless one of them made it."""
        self._root = root
        self._keys = keys
        self._known: dict[_Identity, tuple[str, ImageMetadata | None]] = {}

    @property
    def directory(self) -> str:
        return str(self._root)

    async def resolve(self, reference: ImageReference) -> FoundImage:
        return await asyncio.to_thread(self._resolve, reference)

    async def list_images(self) -> list[ListedImage]:
        return await asyncio.to_thread(self._list)

    def _resolve(self, reference: ImageReference) -> FoundImage:
        image = choose_image(reference, self._list(), lambda each: self._look(each)[0])
        digest, metadata = self._look(image)
        return FoundImage(
            label=image.label,
            digest=digest,
            size=image.size,
            source=str(self._path(image)),
            metadata=metadata,
            signed_by=self._signer(image, digest),
        )

    def _signer(self, image: ListedImage, digest: str) -> str:
        path = self._path(image)
        try:
            with open(path.with_name(path.name + SIGNATURE), "rb") as file:
                content = file.read(MAX_FILE)
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise RegistryUnavailable(f"cannot read the signature of {image.label}: {error.strerror}") from error
        try:
            return signer_of(digest, content, self._keys) if self._keys else ""
        except BadSignature as error:
            raise UnusableImage(
                f"cannot use image {image.label}: {error}", "ask the operators to sign it again"
            ) from error

    def _list(self) -> list[ListedImage]:
        found = []
        try:
            for path in sorted(self._root.glob(f"*/*/*{SUFFIX}")):
                name, version, file = path.relative_to(self._root).parts
                tag = file.removesuffix(SUFFIX)
                found.append(ListedImage(name=name, version=version, tag=tag, size=path.stat().st_size))
        except OSError as error:
            raise RegistryUnavailable(f"cannot read the image registry: {error.strerror}") from error
        return found

    def _path(self, image: ListedImage) -> Path:
        return self._root / image.name / image.version / f"{image.tag}{SUFFIX}"

    def _look(self, image: ListedImage) -> tuple[str, ImageMetadata | None]:
        """Digest and metadata of an image. Raises RegistryError."""
        try:
            with open(self._path(image), "rb") as file:
                about = os.fstat(file.fileno())
                identity = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
                if identity not in self._known:
                    metadata = read_metadata(lambda offset, size: os.pread(file.fileno(), size, offset))
                    self._known[identity] = hashlib.file_digest(file, "sha256").hexdigest(), metadata
                return self._known[identity]
        except OSError as error:
            raise RegistryUnavailable(f"cannot read image {image.label}: {error.strerror}") from error
        except BadImage as error:
            raise UnusableImage(f"cannot use image {image.label}: {error}") from error
