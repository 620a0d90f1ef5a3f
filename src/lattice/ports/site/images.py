"""Where the site keeps its images: names, and the bytes that they mean now.

Errors of this boundary::

    RegistryError
      UnknownImage         no image has this name; carries names that may have been meant
      UnusableImage        the image is there and is no image that can be used
      RegistryUnavailable  the registry cannot be asked now
"""

from typing import Protocol

from msgspec import Struct

from lattice.images.containers import ContainerReference
from lattice.images.metadata import ImageMetadata
from lattice.images.references import ImageReference


class RegistryError(Exception):
    """The text is a sentence for the user; the hint says what helps."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


class UnknownImage(RegistryError):
    pass


class UnusableImage(RegistryError):
    pass


class RegistryUnavailable(RegistryError):
    pass


class ListedImage(Struct, frozen=True, kw_only=True):
    """One image of the registry; `size` in bytes, 0 where it is not known without asking for the image itself."""

    name: str
    version: str
    tag: str
    size: int = 0

    @property
    def label(self) -> str:
        return f"{self.name}/{self.version}:{self.tag}"


class FoundImage(Struct, frozen=True, kw_only=True):
    """What a reference means now. `source` is where a node gets the bytes; `metadata` is None where the image has none."""

    label: str
    digest: str
    size: int
    source: str
    metadata: ImageMetadata | None
    signed_by: str = ""  # the key of the site that signed it; empty = it is not signed
    kind: str = ""  # empty = a squashfs file; "oci" = an OCI image, whose digest is that of its manifest


class ContainerRegistries(Protocol):
    async def resolve(self, reference: ContainerReference) -> FoundImage:
        """What `HOST/REPOSITORY:TAG` means now; raises RegistryError, also for a host that the site does not allow."""
        ...


class ImageRegistry(Protocol):
    @property
    def directory(self) -> str:
        """The folder with the images; empty where they are no files."""
        ...

    async def resolve(self, reference: ImageReference) -> FoundImage:
        """The one image that the reference means; raises RegistryError, also when it may mean several."""
        ...

    async def list_images(self) -> list[ListedImage]:
        """All images, by name, version and tag; raises RegistryError."""
        ...
