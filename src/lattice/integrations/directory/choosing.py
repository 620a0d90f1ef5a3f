"""Which image of a registry a reference means, whatever the registry keeps its images in."""

from collections.abc import Callable, Sequence

from lattice.images.metadata import near
from lattice.images.references import ImageReference
from lattice.ports.site.images import ListedImage, UnknownImage


def choose_image(
    reference: ImageReference, images: Sequence[ListedImage], digest_of: Callable[[ListedImage], str]
) -> ListedImage:
    """The one image that is meant. Raises UnknownImage, and what `digest_of` raises."""
    if reference.name:
        fits = [each for each in images if _is_meant(reference, each)]
        if len(fits) > 1:
            several = ", ".join(each.label for each in fits[:12])
            raise UnknownImage(f'"{reference.label}" may mean several images', f"write one of {several}")
    else:
        fits = [each for each in images if digest_of(each) == reference.digest]
    if not fits:
        raise UnknownImage(
            f'unknown image "{reference.label}"', near(reference.label, [each.label for each in images], "images")
        )
    check_digest(reference, digest_of(fits[0]))
    return fits[0]


def check_digest(reference: ImageReference, digest: str) -> None:
    """Raises UnknownImage for bytes other than those that were named."""
    if reference.digest and digest != reference.digest:
        raise UnknownImage(
            f"{reference.label} has the digest sha256:{digest} now, not sha256:{reference.digest}",
            "name it without a digest to have what it means now",
        )


def _is_meant(wanted: ImageReference, image: ListedImage) -> bool:
    return image.name == wanted.name and wanted.version in ("", image.version) and wanted.tag in ("", image.tag)
