"""The site's uenv images on a web server: NAME/VERSION/TAG.squashfs below one address, and beside them SHA256SUMS as `sha256sum` writes it."""

import asyncio
import re
from collections.abc import Sequence
from urllib.parse import quote

from lattice.images.metadata import ImageMetadata, read_metadata
from lattice.images.references import ImageReference
from lattice.images.signatures import MAX_FILE, SUFFIX, BadSignature, PublicKey, signer_of
from lattice.images.squashfs import BadImage
from lattice.integrations.directory.choosing import choose_image
from lattice.integrations.registry.parts import RemoteFile
from lattice.integrations.registry.remote import CONCURRENCY
from lattice.integrations.registry.transport import HttpFailed, Transport, host_of
from lattice.ports.site.images import FoundImage, ListedImage, RegistryUnavailable, UnusableImage

SUMS = "SHA256SUMS"
MAX_SUMS = 4 << 20
MAX_KNOWN = 1000
_WORD = r"[A-Za-z0-9][A-Za-z0-9._+-]*"
_LINE = re.compile(rf"([0-9a-f]{{64}}) [ *](?:\./)?({_WORD})/({_WORD})/({_WORD})\.squashfs")


class WebImages:
    """Implements `ImageRegistry`. The sums are read each time; what a file says of itself is remembered by its digest."""

    directory = ""

    def __init__(self, transport: Transport, url: str, keys: Sequence[PublicKey] = ()) -> None:
        self._transport = transport
        self._url = url.rstrip("/")
        self._keys = keys
        self._known: dict[str, tuple[int, ImageMetadata | None]] = {}
        self._free = asyncio.Semaphore(CONCURRENCY)

    async def resolve(self, reference: ImageReference) -> FoundImage:
        async with self._free:
            return await asyncio.to_thread(self._resolve, reference)

    async def list_images(self) -> list[ListedImage]:
        async with self._free:
            return [image for image, _ in await asyncio.to_thread(self._sums)]

    def _resolve(self, reference: ImageReference) -> FoundImage:
        sums = {image.label: (image, digest) for image, digest in self._sums()}
        image = choose_image(reference, [image for image, _ in sums.values()], lambda each: sums[each.label][1])
        digest = sums[image.label][1]
        source = self._place(image)
        size, metadata = self._about(image, digest, source)
        return FoundImage(
            label=image.label,
            digest=digest,
            size=size,
            source=source,
            metadata=metadata,
            signed_by=self._signer(image, digest, source),
        )

    def _about(self, image: ListedImage, digest: str, source: str) -> tuple[int, ImageMetadata | None]:
        if digest not in self._known:
            file = RemoteFile(self._transport, source)
            try:
                metadata = read_metadata(file.read_at)
            except BadImage as error:
                raise UnusableImage(f"cannot use image {image.label}: {error}") from error
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[digest] = file.size, metadata
        return self._known[digest]

    def _sums(self) -> list[tuple[ListedImage, str]]:
        text = self._read(f"{self._url}/{SUMS}", MAX_SUMS)
        if text is None:
            raise RegistryUnavailable(f"{host_of(self._url)} has no list of its images ({SUMS})")
        found = []
        for line in text.decode("utf-8", "replace").splitlines():
            if said := _LINE.fullmatch(line.strip()):
                digest, name, version, tag = said.groups()
                found.append((ListedImage(name=name, version=version, tag=tag), digest))
        return sorted(found, key=lambda each: (each[0].name, each[0].version, each[0].tag))

    def _signer(self, image: ListedImage, digest: str, source: str) -> str:
        content = self._read(source + SUFFIX, MAX_FILE) if self._keys else None
        if content is None:
            return ""
        try:
            return signer_of(digest, content, self._keys)
        except BadSignature as error:
            raise UnusableImage(
                f"cannot use image {image.label}: {error}", "ask the operators to sign it again"
            ) from error

    def _read(self, url: str, most: int) -> bytes | None:
        """None where there is no such file. Raises RegistryUnavailable."""
        try:
            with self._transport.get(url) as answer:
                if answer.status in (404, 410):
                    return None
                if answer.status != 200:
                    raise RegistryUnavailable(f"{host_of(url)} answered with HTTP {answer.status}", "try again later")
                return answer.body(most)
        except HttpFailed as error:
            raise RegistryUnavailable(f"the registry {error}", "try again later") from error

    def _place(self, image: ListedImage) -> str:
        return f"{self._url}/{quote(image.name)}/{quote(image.version)}/{quote(image.tag)}.squashfs"
