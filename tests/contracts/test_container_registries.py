"""What every registry of container images does: a tag resolved to a digest, and its bytes given to nodes."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.images.containers import parse_container
from lattice.images.signatures import BadSignature, parse_attached, read_public_key
from lattice.integrations.registry.pulls import HttpBlobs
from lattice.integrations.registry.remote import RemoteRegistries
from lattice.integrations.registry.transport import Transport
from lattice.ports.nodes.blobs import BlobRefused, BlobUnavailable
from lattice.ports.site.images import FoundImage, RegistryUnavailable, UnknownImage, UnusableImage
from tests.image_keys import make_key
from tests.image_registry import RegistryProcess, running_registry
from tests.oci_files import layer, make_layout


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with running_registry(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture(scope="module")
def digest(registry: RegistryProcess, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("layout")
    make_layout(folder, [layer([("file", b"content")])])
    return registry.push_layout(folder, "tools/tiny")


def resolve(registry: RegistryProcess, rest: str) -> FoundImage:
    registries = RemoteRegistries(Transport(timeout_s=30), [registry.host])
    return asyncio.run(registries.resolve(parse_container(f"{registry.host}/{rest}")))


def test_tag_and_digest_mean_the_same_image(registry: RegistryProcess, digest: str) -> None:
    found = resolve(registry, "tools/tiny:v1")
    assert (found.digest, found.kind, found.label) == (digest, "oci", f"{registry.host}/tools/tiny:v1")
    assert found.size > 0
    assert resolve(registry, f"tools/tiny@sha256:{digest}").digest == digest


def test_unknown_tag_is_refused_with_those_that_there_are(registry: RegistryProcess, digest: str) -> None:
    with pytest.raises(UnknownImage, match="unknown image") as refused:
        resolve(registry, "tools/tiny:v2")
    assert "v1" in refused.value.hint
    for rest in ("tools/other:v1", f"tools/tiny@sha256:{'0' * 64}"):
        with pytest.raises(UnknownImage, match="unknown image"):
            resolve(registry, rest)


def test_index_means_the_image_for_this_kind_of_machine(registry: RegistryProcess, digest: str) -> None:
    kind = "application/vnd.oci.image.manifest.v1+json"
    size = len(b"".join(HttpBlobs(Transport()).read(f"http://{registry.host}/v2/tools/tiny/manifests/sha256:{digest}")))
    entry = {"mediaType": kind, "digest": f"sha256:{digest}", "size": size}
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{**entry, "platform": {"os": "linux", "architecture": name}} for name in ("amd64", "arm64")],
    }
    registry.push_manifest("tools/tiny", "both", json.dumps(index).encode(), str(index["mediaType"]))
    assert resolve(registry, "tools/tiny:both").digest == digest
    index["manifests"] = [{**entry, "platform": {"os": "linux", "architecture": "s390x"}}]
    registry.push_manifest("tools/tiny", "foreign", json.dumps(index).encode(), str(index["mediaType"]))
    with pytest.raises(UnusableImage, match="it is not made for linux/"):
        resolve(registry, "tools/tiny:foreign")


def test_signature_of_a_container_is_judged_where_the_site_has_keys(
    registry: RegistryProcess, digest: str, tmp_path: Path
) -> None:
    mine, public = make_key(tmp_path, "p256", "site")
    foreign, _ = make_key(tmp_path, "ed25519", "foreign")
    key = read_public_key("site", public.read_bytes())
    registries = RemoteRegistries(Transport(timeout_s=30), [registry.host], keys=[key])
    wanted = parse_container(f"{registry.host}/tools/tiny:v1")
    assert asyncio.run(registries.resolve(wanted)).signed_by == ""
    registry.push_signature("tools/tiny", digest, mine)
    assert asyncio.run(registries.resolve(wanted)).signed_by == "site"
    registry.push_signature("tools/tiny", digest, foreign)
    with pytest.raises(UnusableImage, match="not made by a key of the site"):
        asyncio.run(registries.resolve(wanted))
    # The signature of other bytes, under the tag of these.
    document = json.dumps({"layers": [{"digest": "sha256:x", "size": 1, "annotations": {}}]}).encode()
    for text in (document, b"{}", b"[]"):
        with pytest.raises(BadSignature):
            parse_attached(text)
    assert resolve(registry, "tools/tiny:v1").signed_by == ""


def test_registry_that_the_site_does_not_allow_is_never_asked() -> None:
    registries = RemoteRegistries(Transport(), ["images.example.org"])
    with pytest.raises(UnknownImage, match=r"takes no images from 127\.0\.0\.1:1") as refused:
        asyncio.run(registries.resolve(parse_container("127.0.0.1:1/a/b:c")))
    assert "images.example.org" in refused.value.hint


def test_registry_that_is_down_is_unavailable() -> None:
    registries = RemoteRegistries(Transport(), ["127.0.0.1:1"])
    with pytest.raises(RegistryUnavailable, match=r"127\.0\.0\.1:1 does not answer"):
        asyncio.run(registries.resolve(parse_container("127.0.0.1:1/a/b:c")))


def test_bytes_come_from_any_place_on(registry: RegistryProcess, digest: str) -> None:
    source = HttpBlobs(Transport())
    url = f"{resolve(registry, 'tools/tiny:v1').source}/manifests/sha256:{digest}"
    whole = b"".join(source.read(url))
    assert json.loads(whole)["schemaVersion"] == 2
    assert b"".join(source.read(url, 10)) == whole[10:]
    with pytest.raises(BlobRefused, match="does not have it any more"):
        list(source.read(url[:-1] + ("0" if url[-1] != "0" else "1")))
    with pytest.raises(BlobUnavailable, match="does not answer"):
        list(source.read("http://127.0.0.1:1/v2/x/blobs/sha256:0"))
