"""Images of registries that speak OCI distribution: a tag resolved to a digest, and the addresses of its bytes."""

import asyncio
import hashlib
import platform
import re
from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import quote, urljoin

import msgspec

from lattice.images.containers import ContainerReference
from lattice.images.metadata import near
from lattice.images.oci import (
    INDEX_TYPES,
    MANIFEST_TYPES,
    MAX_DOCUMENT,
    Manifest,
    choose_manifest,
    is_index,
    parse_index,
    parse_manifest,
    platform_of,
)
from lattice.images.signatures import PublicKey
from lattice.images.squashfs import BadImage
from lattice.integrations.registry.signed import signer_in
from lattice.integrations.registry.transport import HttpFailed, Transport, is_loopback
from lattice.ports.site.images import FoundImage, RegistryUnavailable, UnknownImage, UnusableImage

ACCEPT = ", ".join(sorted(MANIFEST_TYPES | INDEX_TYPES))
CONCURRENCY = 8
MAX_TAGS = 1000
OCI = "oci"
_NEXT = re.compile(r'<([^>]*)>; *rel="?next"?')


class RepositoryClient:
    """One repository of a registry. Its calls wait and are made in threads; they raise RegistryError."""

    def __init__(self, transport: Transport, host: str, name: str, *, plain_http: bool = False) -> None:
        self._transport = transport
        self._host = host
        self._name = name
        self.url = f"{base_url(host, plain_http=plain_http)}/v2/{quote(name)}"

    def manifest(self, wanted: str) -> tuple[str, Manifest]:
        """The digest and content of the image that a tag or digest means for this kind of machine."""
        digest, document = self._document(wanted)
        try:
            if is_index(document):
                chosen = choose_manifest(parse_index(document), platform_of(platform.machine()))
                digest, document = self._document(f"sha256:{chosen.digest}")
            return digest, parse_manifest(document)
        except BadImage as error:
            raise UnusableImage(f"cannot use {self._label(wanted)}: {error}") from error

    def find_document(self, tag: str) -> bytes | None:
        """What lies under the tag, None where nothing does. Raises RegistryUnavailable."""
        try:
            return self._document(tag, hints=False)[1]
        except UnknownImage:
            return None

    def small_blob(self, digest: str, most: int) -> bytes:
        """Raises RegistryUnavailable."""
        url = f"{self.url}/blobs/sha256:{digest}"
        try:
            with self._transport.get(url) as answer:
                if answer.status != 200:
                    raise RegistryUnavailable(f"the registry {self._host} answered with HTTP {answer.status}")
                return answer.body(most)
        except HttpFailed as error:
            raise RegistryUnavailable(f"the registry {error}", "try again later") from error

    def tags(self) -> list[str]:
        with_names = self._answer(f"{self.url}/tags/list?n={MAX_TAGS}")
        return sorted(str(each) for each in (with_names.get("tags") or [])[:MAX_TAGS])

    def _label(self, wanted: str) -> str:
        return f"{self._host}/{self._name}{'@' if wanted.startswith('sha256:') else ':'}{wanted}"

    def _document(self, wanted: str, *, hints: bool = True) -> tuple[str, bytes]:
        label = self._label(wanted)
        try:
            with self._transport.get(f"{self.url}/manifests/{quote(wanted, safe=':')}", {"Accept": ACCEPT}) as answer:
                status = answer.status
                document = answer.body(MAX_DOCUMENT) if status == 200 else b""
        except HttpFailed as error:
            raise RegistryUnavailable(f"the registry {error}", "try again later") from error
        if status == 404:
            raise UnknownImage(f'unknown image "{label}"', self._tags_hint(wanted) if hints else "")
        if status in (401, 403):
            raise UnknownImage(
                f"the registry {self._host} does not let this cluster read {self._name}",
                "check its name, or ask the operators for an account there",
            )
        if status != 200:
            raise RegistryUnavailable(f"the registry {self._host} answered with HTTP {status}", "try again later")
        digest = hashlib.sha256(document).hexdigest()
        if wanted.startswith("sha256:") and wanted != f"sha256:{digest}":
            raise UnusableImage(f"the registry {self._host} has other bytes for {label}: sha256:{digest}")
        return digest, document

    def _tags_hint(self, wanted: str) -> str:
        try:
            return near(wanted, self.tags(), "tags") if not wanted.startswith("sha256:") else ""
        except (RegistryUnavailable, UnknownImage):
            return ""

    def _answer(self, url: str) -> dict[str, Any]:
        return read_object(self._transport, url)


def read_object(transport: Transport, url: str, most: int = MAX_DOCUMENT) -> dict[str, Any]:
    """A JSON object. Raises UnknownImage where there is none, RegistryUnavailable otherwise."""
    return read_page(transport, url, most)[0]


def read_page(transport: Transport, url: str, most: int = MAX_DOCUMENT) -> tuple[dict[str, Any], str]:
    """The same, and where the list continues; empty = nowhere."""
    try:
        with transport.get(url) as answer:
            if answer.status == 404:
                raise UnknownImage("there is no such image")
            if answer.status != 200:
                raise RegistryUnavailable(f"the registry answered with HTTP {answer.status}", "try again later")
            told = msgspec.json.decode(answer.body(most))
            link = _NEXT.match(answer.header("Link"))
    except HttpFailed as error:
        raise RegistryUnavailable(f"the registry {error}", "try again later") from error
    except msgspec.DecodeError as error:
        raise RegistryUnavailable("the registry's answer is not understood") from error
    return told if isinstance(told, dict) else {}, urljoin(url, link[1]) if link else ""


def base_url(host: str, *, plain_http: bool) -> str:
    """Registries on this machine, and those that the site says so of, are asked without TLS."""
    return f"http://{host}" if plain_http or is_loopback(host) else f"https://{host}"


class RemoteRegistries:
    """Implements `ContainerRegistries`: those that the site allows, by host."""

    def __init__(
        self,
        transport: Transport,
        hosts: Collection[str],
        plain_http: Collection[str] = (),
        keys: Sequence[PublicKey] = (),
    ) -> None:
        self._transport = transport
        self._hosts = frozenset(hosts)
        self._plain_http = frozenset(plain_http)
        self._keys = keys
        self._free = asyncio.Semaphore(CONCURRENCY)

    async def resolve(self, reference: ContainerReference) -> FoundImage:
        if reference.host not in self._hosts:
            raise UnknownImage(
                f"this cluster takes no images from {reference.host}",
                near(reference.host, sorted(self._hosts), "registries") if self._hosts else "",
            )
        async with self._free:
            return await asyncio.to_thread(self._resolve, reference)

    def _resolve(self, reference: ContainerReference) -> FoundImage:
        plain_http = reference.host in self._plain_http
        client = RepositoryClient(self._transport, reference.host, reference.name, plain_http=plain_http)
        wanted = f"sha256:{reference.digest}" if reference.digest else reference.tag
        digest, manifest = client.manifest(wanted)
        return FoundImage(
            label=reference.label,
            digest=digest,
            size=manifest.size,
            source=client.url,
            metadata=None,
            signed_by=signer_in(client, digest, reference.label, self._keys),
            kind=OCI,
        )
