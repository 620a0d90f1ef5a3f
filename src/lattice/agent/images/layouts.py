"""An OCI image on its way into the cache: its documents and layers fetched by digest, then made into one squashfs file."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from lattice.agent.images.pulling import Pull
from lattice.agent.images.sources import Reader, identify, read_pieces
from lattice.agent.images.unpacking import Layer, UnpackingFailed, make_squashfs
from lattice.images.oci import LAYER_TYPES, MAX_DOCUMENT, Descriptor, Manifest, parse_config, parse_manifest
from lattice.images.squashfs import BadImage, SquashfsReader
from lattice.ports.nodes.images import ImageOrder


class Unpacked(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an image that was unpacked here: the sha256 of the file, those of its blobs, and what it says of itself."""

    content: str = ""
    blobs: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    workdir: str = ""
    passwd: str = ""
    group: str = ""


class BlobStore(Protocol):
    """Where the blobs of one image come from."""

    def fetch(self, blob: Descriptor, target: Path, count: Callable[[int], None]) -> None:
        """The blob in a file, verified; `count` gets the size of each piece.

        Raises BadImage, SourceFailed, BlobUnavailable and OSError.
        """
        ...


class LayoutBlobs:
    """A directory of the user's, read with the user's rights."""

    def __init__(self, image: ImageOrder, reader: Reader, is_stopped: Callable[[], bool]) -> None:
        self._image = image
        self._reader = reader
        self._is_stopped = is_stopped

    def fetch(self, blob: Descriptor, target: Path, count: Callable[[int], None]) -> None:
        order = blob_order(self._image, blob.digest)
        identify(order.source, self._reader)  # a file, and nothing that is never read to its end
        with open(target, "wb") as file:
            left, digest = blob.size, hashlib.sha256()
            for chunk in read_pieces(order, self._reader, self._is_stopped):
                left -= len(chunk)
                if left < 0:
                    raise BadImage(f"its blob sha256:{blob.digest[:12]}... is larger than its manifest says")
                file.write(chunk)
                digest.update(chunk)
                count(len(chunk))
        if digest.hexdigest() != blob.digest:
            raise BadImage(
                f"its blob sha256:{blob.digest[:12]}... has other bytes than its name says: "
                f"sha256:{digest.hexdigest()[:12]}..."
            )


class RegistryBlobs:
    """A repository of a registry, whose URL is the image's source."""

    def __init__(self, image: ImageOrder, pull: Pull) -> None:
        self._image = image
        self._pull = pull

    def fetch(self, blob: Descriptor, target: Path, count: Callable[[int], None]) -> None:
        kind = "manifests" if blob.digest == self._image.digest else "blobs"
        url = f"{self._image.source}/{kind}/sha256:{blob.digest}"
        self._pull.fetch(url, blob.digest, blob.size, target, count)


def blob_order(image: ImageOrder, digest: str) -> ImageOrder:
    """One blob of a layout as an image of its own."""
    return ImageOrder(
        reference=image.reference, digest=digest, source=f"{image.source}/blobs/sha256/{digest}", by_user=True
    )


def unpack(
    image: ImageOrder,
    store: BlobStore,
    folder: Path,
    room: int,
    is_stopped: Callable[[], bool],
    progress: Callable[[int, int], None],
) -> tuple[Path, Unpacked]:
    """The image as one file in `folder`, which may hold what came of it before.

    Raises BadImage, SourceFailed, BlobUnavailable, UnpackingFailed and OSError.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    done, total = 0, 0

    def count(size: int) -> None:
        nonlocal done
        done += size
        progress(done, total)

    manifest = parse_manifest(_document(store, Descriptor(image.digest, MAX_DOCUMENT), folder))
    total = manifest.size
    if total > room:
        raise UnpackingFailed(f"its layers have {total:,} bytes, more than this node has room for")
    if manifest.is_squashfs:
        return _as_it_is(image, manifest, store, folder, count)
    config = parse_config(_document(store, manifest.config, folder))
    layers: list[Layer] = []
    for layer in manifest.layers:
        path = folder / layer.digest
        if path not in [each.path for each in layers]:  # the same layer may be there twice
            store.fetch(layer, path, count)
        layers.append(Layer(path, LAYER_TYPES[layer.media_type]))
    target = folder / "image.squashfs"
    kept = make_squashfs(layers, target, room, is_stopped, lambda: progress(done, total))
    with open(target, "rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    return target, Unpacked(
        content=content,
        blobs=_all_blobs(image, manifest),
        env=config.env,
        workdir=config.workdir,
        passwd=kept.get("etc/passwd", b"").decode("utf-8", "replace"),
        group=kept.get("etc/group", b"").decode("utf-8", "replace"),
    )


def _as_it_is(
    image: ImageOrder, manifest: Manifest, store: BlobStore, folder: Path, count: Callable[[int], None]
) -> tuple[Path, Unpacked]:
    """An image whose one layer is a squashfs file: there is nothing to unpack."""
    layer = manifest.layers[0]
    path = folder / layer.digest
    store.fetch(layer, path, count)
    with open(path, "rb") as file:
        SquashfsReader(lambda offset, size: os.pread(file.fileno(), size, offset))
        os.fsync(file.fileno())
    return path, Unpacked(content=layer.digest, blobs=(image.digest, layer.digest))


def _all_blobs(image: ImageOrder, manifest: Manifest) -> tuple[str, ...]:
    return (image.digest, manifest.config.digest, *(each.digest for each in manifest.layers))


def _document(store: BlobStore, blob: Descriptor, folder: Path) -> bytes:
    path = folder / blob.digest
    store.fetch(blob, path, lambda _: None)
    return path.read_bytes()
