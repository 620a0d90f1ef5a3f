"""How people name container images and what is bound into them: `--image REF` and `--mount SRC:DST[:ro]`, taken apart and checked.

A REF is `oci:DIRECTORY[:TAG]`, the path of a squashfs file, `name/version:tag` of the site's images, or `HOST/REPOSITORY:TAG` of a
registry (also `docker://...`, and `HOST#REPOSITORY` as pyxis writes it), each possibly with `@sha256:DIGEST`.
"""

import os.path
import re
from typing import NamedTuple

from lattice.images.references import RELATIVE, BadReference, ImageReference

MAX_TEXT = 4096
MAX_BINDS = 32
OCI, SQUASHFS, NAMED, REGISTRY = "oci", "squashfs", "named", "registry"
DEFAULT_TAG = "latest"
FORMS = "write oci:DIRECTORY:TAG, the path of a squashfs file, NAME/VERSION:TAG, or HOST/REPOSITORY:TAG"

_AT = "@sha256:"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,127}")
_HOST = re.compile(
    r"(?:localhost|[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9-]+)+|\[[0-9A-Fa-f:]+\]|[A-Za-z0-9.-]+(?=:))(?::[0-9]{1,5})?"
)
_REPOSITORY = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")
_FOREIGN = (
    "dockerd://",
    "podman://",
    "docker-archive:",
    "docker-daemon:",
    "containers-storage:",
    "library://",
    "shub://",
    "sif:",
)


class ContainerReference(NamedTuple):
    """`path` and `tag` of a layout, `path` of a squashfs file, `name` of the site's own, or `host` and `name` of a registry."""

    kind: str
    path: str = ""
    host: str = ""
    name: str = ""
    version: str = ""
    tag: str = ""
    digest: str = ""

    @property
    def label(self) -> str:
        """The reference without its digest."""
        tag = f":{self.tag}" if self.tag else ""
        if self.kind == OCI:
            return f"oci:{self.path}{tag}"
        if self.kind == SQUASHFS:
            return self.path
        if self.kind == REGISTRY:
            return f"{self.host}/{self.name}{tag}"
        return f"{self.name}{f'/{self.version}' if self.version else ''}{tag}"

    def __str__(self) -> str:
        return f"{self.label}{_AT}{self.digest}" if self.digest else self.label

    @property
    def as_image(self) -> ImageReference:
        """The same for those who know images of the site's folder."""
        return ImageReference(self.name, self.version, self.tag, self.path, self.digest)


class Bind(NamedTuple):
    """A directory or file of the node that the container sees at `target`."""

    source: str
    target: str
    is_read_only: bool = False

    def __str__(self) -> str:
        return f"{self.source}:{self.target}{':ro' if self.is_read_only else ''}"


def parse_container(text: str) -> ContainerReference:
    """Raises BadReference."""
    if not text or len(text) > MAX_TEXT or not text.isprintable() or any(char.isspace() for char in text):
        raise BadReference(f'"{text[:60]}" is not an image', FORMS)
    for scheme in _FOREIGN:
        if text.startswith(scheme):
            raise BadReference(f"images cannot be taken from {scheme.rstrip(':/')}", FORMS)
    body, digest = _split_digest(text)
    if body.startswith("oci:"):
        return _layout(body.removeprefix("oci:"), digest, text)
    if body.startswith("docker://"):
        return _registry(body.removeprefix("docker://"), digest, text)
    if body.startswith(("/", *RELATIVE)) or body.endswith((".squashfs", ".sqsh", ".sqfs")):
        return ContainerReference(SQUASHFS, path=body, digest=digest)
    first = re.split("[/#]", body, maxsplit=1)[0]
    if "#" in body or ("/" in body and _HOST.fullmatch(first)):
        return _registry(body, digest, text)
    return _named(body, digest, text)


def _split_digest(text: str) -> tuple[str, str]:
    body, separator, digest = text.partition(_AT)
    if separator and not _DIGEST.fullmatch(digest):
        raise BadReference(f'"{digest[:70]}" is not a sha256 digest', "64 digits from 0 to 9 and a to f")
    return body, digest


def _layout(rest: str, digest: str, text: str) -> ContainerReference:
    path, separator, tag = rest.rpartition(":")
    if not separator or "/" in tag:
        path, tag = rest, ""
    if not path or (tag and not _TAG.fullmatch(tag)):
        raise BadReference(f'"{text[:60]}" is not a directory with images', "write oci:DIRECTORY:TAG")
    return ContainerReference(OCI, path=path, tag=tag, digest=digest)


def _registry(rest: str, digest: str, text: str) -> ContainerReference:
    host, separator, name = rest.partition("#")
    if not separator:
        host, _, name = rest.partition("/")
    name, colon, tag = name.partition(":")
    if not _HOST.fullmatch(host) and host != "localhost":
        raise BadReference(f'"{text[:60]}" names no registry', "write HOST/REPOSITORY:TAG")
    if not _REPOSITORY.fullmatch(name) or len(name) > 255 or (colon and not _TAG.fullmatch(tag)):
        raise BadReference(
            f'"{text[:60]}" is not an image of a registry', "write HOST/REPOSITORY:TAG, in small letters"
        )
    return ContainerReference(REGISTRY, host=host, name=name, tag=tag or ("" if digest else DEFAULT_TAG), digest=digest)


def _named(body: str, digest: str, text: str) -> ContainerReference:
    name, _, tag = body.partition(":")
    name, _, version = name.partition("/")
    if not _WORD.fullmatch(name) or (version and not _WORD.fullmatch(version)) or (tag and not _TAG.fullmatch(tag)):
        raise BadReference(f'"{text[:60]}" is not an image', FORMS)
    return ContainerReference(NAMED, name=name, version=version, tag=tag, digest=digest)


# How a step means the container that it names, as pyxis has it: whether it may begin it, and whether it joins the one that runs.
AUTO, CREATE, EXEC, NO_EXEC = "auto", "create", "exec", "no_exec"
WAYS = (AUTO, CREATE, EXEC, NO_EXEC)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")


class NamedContainer(NamedTuple):
    """A container that steps of an allocation share under this name."""

    name: str = ""
    way: str = AUTO


def parse_name(text: str) -> NamedContainer:
    """`NAME[:auto|create|exec|no_exec]`. Raises BadReference."""
    name, separator, way = text.partition(":")
    if not _NAME.fullmatch(name):
        raise BadReference(
            f'"{name[:70]}" is not the name of a container',
            "up to 64 letters, digits and . _ + -, the first one a letter or digit",
        )
    if separator and way not in WAYS:
        raise BadReference(f'"{way[:20]}" is not a way to use a container', f"NAME:WAY with {', '.join(WAYS)}")
    return NamedContainer(name, way or AUTO)


# What a container has of its own, or of the node: nothing else may lie there.
_CLOSED = ("/proc", "/sys", "/dev", "/.lattice")


def parse_bind(text: str) -> Bind:
    """`SRC[:DST][:ro|rw]`; a relative SRC is left for the submitting process to complete. Raises BadReference."""
    hint = "write SRC:DST, SRC:DST:ro, or SRC for the same place inside"
    if not text or len(text) > MAX_TEXT or not text.isprintable():
        raise BadReference(f'"{text[:60]}" is not a mount', hint)
    parts = text.split(":")
    flags: list[str] = []
    if len(parts) > 2:
        flags = parts.pop().split("+" if "+" in parts[-1] else ",")
    if len(parts) > 2 or not all(parts):
        raise BadReference(f'"{text[:60]}" is not a mount', hint)
    for flag in flags:
        if flag not in ("ro", "rw"):
            raise BadReference(f'"{flag[:20]}" is not a way to mount', "ro or rw")
    source, target = parts[0], parts[-1]
    if len(parts) == 1 and not source.startswith("/"):
        raise BadReference(f'"{text[:60]}" does not say where to mount it', hint)
    return Bind(source, checked_target(target), "ro" in flags)


def checked_target(path: str) -> str:
    """The place inside in its plain form. Raises BadReference for one that nothing may be mounted on."""
    plain = os.path.normpath(path)
    if not path.startswith("/") or plain.startswith("//"):
        raise BadReference(f'"{path[:60]}" is not an absolute path', "write SRC:/place/inside")
    if plain == "/" or any(plain == closed or plain.startswith(f"{closed}/") for closed in _CLOSED):
        raise BadReference(f"nothing may be mounted on {plain[:60]}", "choose a directory such as /data")
    return plain


def check_binds(binds: list[Bind]) -> None:
    """Raises BadReference for two at the same place, and for too many."""
    if len(binds) > MAX_BINDS:
        raise BadReference(f"{len(binds)} mounts are too many", f"at most {MAX_BINDS}")
    seen: dict[str, str] = {}
    for each in binds:
        if each.target in seen:
            raise BadReference(
                f"{seen[each.target][:60]} and {each.source[:60]} would both be mounted on {each.target}",
                "choose another place for one",
            )
        seen[each.target] = each.source
