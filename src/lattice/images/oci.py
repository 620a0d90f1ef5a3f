"""OCI images as their documents describe them: an index names manifests, a manifest its configuration and layers, all by digest.

Bytes in, records out. Everything in these documents was written by strangers: sizes and counts are bounded before they are used.
"""

import json
import re
from typing import Any, NamedTuple

from lattice.images.squashfs import BadImage, is_plain_text

MAX_DOCUMENT = 4 << 20  # bytes of an index, a manifest or a configuration
MAX_LAYERS = 256
MAX_BLOB = 1 << 40
MAX_VARIABLES = 1000

INDEX_TYPES = frozenset(
    {"application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"}
)
MANIFEST_TYPES = frozenset(
    {"application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"}
)
PLAIN, GZIP, ZSTD = "plain", "gzip", "zstd"
LAYER_TYPES = {
    "application/vnd.oci.image.layer.v1.tar": PLAIN,
    "application/vnd.oci.image.layer.v1.tar+gzip": GZIP,
    "application/vnd.oci.image.layer.v1.tar+zstd": ZSTD,
    "application/vnd.docker.image.rootfs.diff.tar": PLAIN,
    "application/vnd.docker.image.rootfs.diff.tar.gzip": GZIP,
}
SQUASHFS_TYPES = frozenset({"application/x-squashfs", "application/vnd.sylabs.sif.layer.v1.squashfs"})
_NAME = "org.opencontainers.image.ref.name"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "riscv64": "riscv64", "s390x": "s390x"}


class Descriptor(NamedTuple):
    """A blob: the sha256 of its bytes in hexadecimal, and how many there are."""

    digest: str
    size: int
    media_type: str = ""
    name: str = ""  # the tag, in the index of a layout
    platform: str = ""  # linux/amd64, where it is said


class Manifest(NamedTuple):
    config: Descriptor
    layers: tuple[Descriptor, ...]

    @property
    def size(self) -> int:
        """Bytes of all layers, as they are stored."""
        return sum(each.size for each in self.layers)

    @property
    def is_squashfs(self) -> bool:
        """Whether its one layer is a squashfs image, as registries of uenv images have them."""
        return len(self.layers) == 1 and self.layers[0].media_type in SQUASHFS_TYPES


class ImageConfig(NamedTuple):
    """What the image says of the processes in it."""

    env: tuple[tuple[str, str], ...] = ()
    workdir: str = ""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


def platform_of(machine: str) -> str:
    """What images call the machine that `uname -m` names so."""
    return f"linux/{_MACHINES.get(machine, machine)}"


def is_index(document: bytes) -> bool:
    told = _read(document, "the index")
    return told.get("mediaType") in INDEX_TYPES or "manifests" in told


def parse_index(document: bytes) -> tuple[Descriptor, ...]:
    """The manifests that an index names. Raises BadImage."""
    told = _read(document, "the index").get("manifests")
    if not isinstance(told, list):
        raise BadImage("its index names no manifests")
    return tuple(_descriptor(each, "a manifest") for each in told[:MAX_LAYERS])


def choose_manifest(manifests: tuple[Descriptor, ...], platform: str) -> Descriptor:
    """The one for this kind of machine. Raises BadImage."""
    fits = [each for each in manifests if each.platform in ("", platform)]
    if not fits:
        others = ", ".join(sorted({each.platform for each in manifests if not each.platform.startswith("unknown")}))
        raise BadImage(f"it is not made for {platform} but for {others or 'nothing'}")
    return next((each for each in fits if each.platform), fits[0])


def parse_manifest(document: bytes) -> Manifest:
    """Raises BadImage for what cannot be unpacked here."""
    told = _read(document, "its manifest")
    layers = told.get("layers")
    if not isinstance(layers, list) or not layers:
        raise BadImage("its manifest names no layers")
    if len(layers) > MAX_LAYERS:
        raise BadImage(f"it has {len(layers)} layers, more than {MAX_LAYERS}")
    found = Manifest(
        _descriptor(told.get("config"), "its configuration"), tuple(_descriptor(each, "a layer") for each in layers)
    )
    if found.is_squashfs:
        return found
    for layer in found.layers:
        if layer.media_type not in LAYER_TYPES:
            raise BadImage(f'a layer has the type "{layer.media_type[:80]}", which cannot be unpacked')
    if found.config.size > MAX_DOCUMENT:
        raise BadImage("its configuration is too large")
    return found


def parse_config(document: bytes) -> ImageConfig:
    """Raises BadImage."""
    told = _read(document, "its configuration").get("config") or {}
    if not isinstance(told, dict):
        raise BadImage("its configuration is not understood")
    env = []
    for text in _texts(told.get("Env"))[:MAX_VARIABLES]:
        name, separator, value = text.partition("=")
        if separator and name:
            env.append((name, value))
    workdir = told.get("WorkingDir")
    return ImageConfig(
        tuple(env),
        workdir if isinstance(workdir, str) and workdir.startswith("/") and is_plain_text(workdir) else "",
        _texts(told.get("Entrypoint")),
        _texts(told.get("Cmd")),
    )


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(each for each in value if isinstance(each, str) and is_plain_text(each))


def _descriptor(told: object, what: str) -> Descriptor:
    if not isinstance(told, dict):
        raise BadImage(f"{what} is not described")
    digest = _DIGEST.fullmatch(str(told.get("digest")))
    size = told.get("size")
    if digest is None:
        raise BadImage(f"the digest of {what} is not a sha256")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= MAX_BLOB:
        raise BadImage(f"the size of {what} cannot be")
    notes = told.get("annotations")
    platform = told.get("platform")
    return Descriptor(
        digest[1],
        size,
        str(told.get("mediaType") or ""),
        str(notes.get(_NAME) or "") if isinstance(notes, dict) else "",
        f"{platform.get('os')}/{platform.get('architecture')}" if isinstance(platform, dict) else "",
    )


def _read(document: bytes, what: str) -> dict[str, Any]:
    if len(document) > MAX_DOCUMENT:
        raise BadImage(f"{what} is too large")
    try:
        told = json.loads(document)
    except (ValueError, RecursionError):
        raise BadImage(f"{what} is not JSON") from None
    if not isinstance(told, dict):
        raise BadImage(f"{what} is not an object")
    return told
