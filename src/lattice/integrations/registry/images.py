"""The site's uenv images in a registry that speaks OCI distribution: PREFIX/NAME/VERSION:TAG, each a manifest whose one layer is the file."""

import asyncio
import re
from collections.abc import Sequence

from lattice.images.metadata import ImageMetadata, read_metadata
from lattice.images.oci import Descriptor
from lattice.images.references import ImageReference
from lattice.images.signatures import PublicKey
from lattice.images.squashfs import BadImage
from lattice.integrations.directory.choosing import check_digest, choose_image
from lattice.integrations.registry.parts import RemoteFile
from lattice.integrations.registry.remote import CONCURRENCY, MAX_TAGS, RepositoryClient, base_url, read_page
from lattice.integrations.registry.signed import signer_in
from lattice.integrations.registry.transport import Transport, host_of
from lattice.ports.site.images import FoundImage, ListedImage, RegistryError, UnknownImage, UnusableImage

MAX_PAGES = 50  # of the list of repositories
MAX_KNOWN = 1000
HIDDEN = "sha256-"  # tags under which registries keep what belongs to a digest, such as its signatures
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


class OciImages:
    """Implements `ImageRegistry`. What a file says of itself is remembered by its digest."""

    directory = ""

    def __init__(
        self,
        transport: Transport,
        host: str,
        prefix: str = "",
        *,
        plain_http: bool = False,
        keys: Sequence[PublicKey] = (),
    ) -> None:
        self._transport = transport
        self._host = host
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._plain_http = plain_http
        self._keys = keys
        self._known: dict[str, ImageMetadata | None] = {}
        self._free = asyncio.Semaphore(CONCURRENCY)

    async def resolve(self, reference: ImageReference) -> FoundImage:
        async with self._free:
            return await asyncio.to_thread(self._resolve, reference)

    async def list_images(self) -> list[ListedImage]:
        async with self._free:
            return await asyncio.to_thread(self._list)

    def _resolve(self, reference: ImageReference) -> FoundImage:
        image = self._choose(reference)
        client = self._client(image)
        manifest, layer = self._look(image)
        check_digest(reference, layer.digest)
        source = f"{client.url}/blobs/sha256:{layer.digest}"
        return FoundImage(
            label=image.label,
            digest=layer.digest,
            size=layer.size,
            source=source,
            metadata=self._metadata(image, layer, source),
            signed_by=signer_in(client, manifest, image.label, self._keys),
        )

    def _choose(self, reference: ImageReference) -> ListedImage:
        """A whole name needs no list, which some registries do not give."""
        if reference.name and reference.version and reference.tag:
            image = ListedImage(name=reference.name, version=reference.version, tag=reference.tag)
            try:
                self._look(image)
            except UnknownImage as unknown:
                try:
                    listed = self._list()
                except RegistryError:
                    raise unknown from None
                return choose_image(reference, listed, lambda each: self._look(each)[1].digest)
            return image
        return choose_image(reference, self._list(), lambda each: self._look(each)[1].digest)

    def _look(self, image: ListedImage) -> tuple[str, Descriptor]:
        """The digest of the manifest, and the file. Raises RegistryError."""
        digest, manifest = self._client(image).manifest(image.tag)
        if not manifest.is_squashfs:
            raise UnusableImage(
                f"cannot use image {image.label}: it is no squashfs file", "containers are named with --image"
            )
        return digest, manifest.layers[0]

    def _metadata(self, image: ListedImage, layer: Descriptor, source: str) -> ImageMetadata | None:
        if layer.digest not in self._known:
            try:
                found = read_metadata(RemoteFile(self._transport, source, layer.size).read_at)
            except BadImage as error:
                raise UnusableImage(f"cannot use image {image.label}: {error}") from error
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[layer.digest] = found
        return self._known[layer.digest]

    def _list(self) -> list[ListedImage]:
        found = []
        for repository in self._repositories():
            words = repository.removeprefix(self._prefix).split("/")
            if len(words) != 2 or not all(_WORD.fullmatch(word) for word in words):
                continue
            name, version = words
            tags = self._client(ListedImage(name=name, version=version, tag="")).tags()
            found += [ListedImage(name=name, version=version, tag=tag) for tag in tags if not tag.startswith(HIDDEN)]
        return sorted(found, key=lambda each: (each.name, each.version, each.tag))

    def _repositories(self) -> list[str]:
        root = base_url(self._host, plain_http=self._plain_http)
        url, names = f"{root}/v2/_catalog?n={MAX_TAGS}", list[str]()
        for _ in range(MAX_PAGES):
            told, following = read_page(self._transport, url)
            names += [str(each) for each in (told.get("repositories") or [])[:MAX_TAGS]]
            if not following or host_of(following) != host_of(root):
                break
            url = following
        return sorted({each for each in names if each.startswith(self._prefix)})

    def _client(self, image: ListedImage) -> RepositoryClient:
        name = f"{self._prefix}{image.name}/{image.version}"
        return RepositoryClient(self._transport, self._host, name, plain_http=self._plain_http)
