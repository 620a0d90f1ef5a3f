"""How people name images: `--uenv REF[:MOUNT][,REF...]` and `--view [UENV:]VIEW,...`, taken apart and checked.

A REF is `name/version:tag` of a registry, the same with `@sha256:...`, a digest alone, or the path of a file. The digest of a file is
part of its reference once somebody who may read the file has added it (docs/architecture/images.md).
"""

import os.path
import re
from typing import NamedTuple

MAX_IMAGES = 8
MAX_VIEWS = 16
MAX_TEXT = 4096
RELATIVE = ("./", "../", "~")
NOT_CACHED = "is not in the cache of this node"  # what a node answers of an image that it has not

_WORD = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}"
_NAMED = re.compile(rf"(?P<name>{_WORD})(?:/(?P<version>{_WORD}))?(?::(?P<tag>{_WORD}))?")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_AT = "@sha256:"
_LONELY = "sha256:"


class BadReference(ValueError):
    """What cannot name an image or a view; the text is a sentence, the hint says what could."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


class ImageReference(NamedTuple):
    """One REF. Either `path` or `name` or `digest` is there; `mount` is empty where the image itself says where it belongs."""

    name: str = ""
    version: str = ""
    tag: str = ""
    path: str = ""
    digest: str = ""
    mount: str = ""

    @property
    def label(self) -> str:
        """The reference without digest and mount point, as a person would say it."""
        if self.path:
            return self.path
        version = f"/{self.version}" if self.version else ""
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.name}{version}{tag}" or f"{_AT}{self.digest}"

    def __str__(self) -> str:
        digest = f"{_AT}{self.digest}" if self.digest and (self.path or self.name) else ""
        return f"{self.label}{digest}{f':{self.mount}' if self.mount else ''}"


class ViewReference(NamedTuple):
    """A view, of the image of that name or of the only one that has it."""

    view: str
    image: str = ""

    def __str__(self) -> str:
        return f"{self.image}:{self.view}" if self.image else self.view


def parse_images(text: str) -> tuple[ImageReference, ...]:
    """The images in the order in which they were named. Raises BadReference."""
    parts = _parts(text, MAX_IMAGES, "images")
    return tuple(_image(part) for part in parts)


def parse_views(text: str) -> tuple[ViewReference, ...]:
    """The views in the order in which they were named. Raises BadReference."""
    found = []
    for part in _parts(text, MAX_VIEWS, "views"):
        image, separator, view = part.rpartition(":")
        if not re.fullmatch(_WORD, view) or (separator and not _NAMED.fullmatch(image)):
            raise BadReference(f'"{part[:60]}" is not a view', "write VIEW, or UENV:VIEW for the view of one image")
        found.append(ViewReference(view, image))
    return tuple(found)


def is_relative(reference: ImageReference) -> bool:
    """Whether it is a path that only the submitting process can complete."""
    return bool(reference.path) and not reference.path.startswith("/")


def _parts(text: str, most: int, what: str) -> list[str]:
    if len(text) > MAX_TEXT:
        raise BadReference(f"the list of {what} is too long", f"at most {MAX_TEXT} characters")
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise BadReference(f'"{text[:60]}" has an empty place in its list of {what}', "remove the spare comma")
    if len(parts) > most:
        raise BadReference(f"{len(parts)} {what} are too many", f"at most {most}")
    return parts


def _image(text: str) -> ImageReference:
    body, mount = _split_mount(text)
    body, digest = _split_digest(body)
    if body.startswith(("/", *RELATIVE)) or body.endswith((".squashfs", ".sqfs")):
        if "\0" in body or not body.isprintable():
            raise BadReference("the path of an image has characters that cannot be printed")
        return ImageReference(path=body, digest=digest, mount=mount)
    if not body and digest:
        return ImageReference(digest=digest, mount=mount)
    found = _NAMED.fullmatch(body)
    if found is None:
        raise BadReference(
            f'"{text[:60]}" is not an image',
            "write name/version:tag, a path that begins with / or ./, or either with @sha256:DIGEST",
        )
    return ImageReference(found["name"], found["version"] or "", found["tag"] or "", digest=digest, mount=mount)


def _split_mount(text: str) -> tuple[str, str]:
    body, separator, rest = text.rpartition(":/")
    if not separator or not body:
        return text, ""
    return body, checked_mount(f"/{rest}")


def _split_digest(body: str) -> tuple[str, str]:
    if body.startswith(_LONELY):
        body = f"@{body}"
    name, separator, digest = body.partition(_AT)
    if not separator:
        return body, ""
    if not _DIGEST.fullmatch(digest):
        raise BadReference(f'"{digest[:70]}" is not a sha256 digest', "64 digits from 0 to 9 and a to f")
    return name, digest


# Where the system itself lives: work that could put files of its own there could fool programs that trust them.
_CLOSED = tuple(
    f"/{name}"
    for name in [
        "bin",
        "boot",
        "dev",
        "etc",
        "home",
        "lib",
        "lib32",
        "lib64",
        "proc",
        "root",
        "run",
        "sbin",
        "sys",
        "tmp",
        "usr",
        "var",
    ]
)


def checked_mount(path: str) -> str:
    """The mount point in its plain form. Raises BadReference for one that nothing may be mounted on."""
    plain = os.path.normpath(path)
    if not path.startswith("/") or plain.startswith("//") or not path.isprintable():
        raise BadReference(f'"{path[:60]}" is not a mount point', "write an absolute path such as /user-environment")
    if plain == "/" or any(plain == closed or plain.startswith(f"{closed}/") for closed in _CLOSED):
        raise BadReference(
            f"nothing may be mounted on {plain[:60]}",
            "mount images on /user-environment or another directory of the site",
        )
    return plain


def check_mounts(mounts: list[str]) -> None:
    """Raises BadReference for mount points that hide each other."""
    for place, mount in enumerate(mounts):
        for other in mounts[:place]:
            if mount == other or mount.startswith(f"{other}/") or other.startswith(f"{mount}/"):
                raise BadReference(
                    f"two images would be mounted on each other, at {other} and {mount}",
                    "give one of them another mount point: REF:/other/place",
                )
