"""What every image registry does, whatever it keeps its images in."""

import asyncio
import contextlib
import itertools
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.images.references import parse_images
from lattice.images.signatures import SUFFIX, PublicKey, read_public_key, sign
from lattice.integrations.directory.registry import DirectoryRegistry
from lattice.integrations.registry.images import OciImages
from lattice.integrations.registry.parts import PIECE
from lattice.integrations.registry.transport import Transport
from lattice.integrations.registry.web import WebImages
from lattice.ports.site.images import FoundImage, ImageRegistry, RegistryUnavailable, UnknownImage, UnusableImage
from tests.conftest import require_program
from tests.image_files import GREETER, make_greeter, make_image
from tests.image_keys import make_key
from tests.image_registry import RegistryProcess, running_registry
from tests.oci_files import layer, make_layout
from tests.web_images import WebServer

NUMBERS = itertools.count(1)


class Folder:
    """Images in a folder that servers see."""

    lists_sizes = True

    def __init__(self, root: Path) -> None:
        self.root = root

    def registry(self, keys: tuple[PublicKey, ...] = ()) -> ImageRegistry:
        return DirectoryRegistry(self.root, keys)

    def path(self, name: str) -> Path:
        return self.root / f"{name.replace(':', '/')}.squashfs"

    def changed(self, name: str) -> None:
        """The file of the image is another one now."""

    def sign(self, name: str, digest: str, key: Path) -> None:
        place = self.path(name)
        place.with_name(place.name + SUFFIX).write_bytes(sign(digest, key.read_bytes()))


class Web(Folder):
    """The same behind a web server, with their sums."""

    lists_sizes = False

    def __init__(self, root: Path, url: str) -> None:
        super().__init__(root)
        self.url = url

    def registry(self, keys: tuple[PublicKey, ...] = ()) -> ImageRegistry:
        return WebImages(Transport(), self.url, keys)

    def changed(self, name: str) -> None:
        files = sorted(path.relative_to(self.root) for path in self.root.glob("*/*/*.squashfs"))
        done = subprocess.run(["sha256sum", *files], cwd=self.root, check=True, capture_output=True)
        (self.root / "SHA256SUMS").write_bytes(done.stdout)


class Oci(Folder):
    """The same as artifacts of an OCI registry."""

    lists_sizes = False

    def __init__(self, root: Path, process: RegistryProcess, prefix: str) -> None:
        super().__init__(root)
        self.process = process
        self.prefix = prefix

    def registry(self, keys: tuple[PublicKey, ...] = ()) -> ImageRegistry:
        return OciImages(Transport(), self.process.host, self.prefix, keys=keys)

    def changed(self, name: str) -> None:
        for path in [self.path(name)] if name else self.root.glob("*/*/*.squashfs"):
            folder = path.parent.relative_to(self.root)
            self.process.push_squashfs(path, f"{self.prefix}/{folder}", path.stem)

    def sign(self, name: str, digest: str, key: Path) -> None:
        repository, _, tag = name.partition(":")
        manifest = self.process.push_squashfs(self.path(name), f"{self.prefix}/{repository}", tag)
        self.process.push_signature(f"{self.prefix}/{repository}", manifest, key)


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with running_registry(tmp_path_factory.mktemp("registry")) as process:
        yield process


@pytest.fixture(params=["folder", "web", "oci"])
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Folder]:
    require_program("mksquashfs")
    for version, tag in (("1.0", "v1"), ("1.0", "v2"), ("2.0", "v1")):
        make_image(tmp_path / "gromacs" / version / f"{tag}.squashfs", {"version": f"{version} {tag}"}, None)
    make_greeter(tmp_path / "greeter" / "1.0" / "v1.squashfs")
    with contextlib.ExitStack() as stack:
        site = Folder(tmp_path)
        if request.param == "web":
            site = Web(tmp_path, stack.enter_context(WebServer(tmp_path)).url)
        elif request.param == "oci":
            site = Oci(tmp_path, request.getfixturevalue("process"), f"site{next(NUMBERS)}")
        site.changed("")
        yield site


@pytest.fixture
def registry(site: Folder) -> ImageRegistry:
    return site.registry()


def resolve(registry: ImageRegistry, text: str) -> FoundImage:
    return asyncio.run(registry.resolve(parse_images(text)[0]))


def test_images_are_listed_by_name_version_and_tag(registry: ImageRegistry, site: Folder) -> None:
    listed = asyncio.run(registry.list_images())
    assert [each.label for each in listed] == [
        *("greeter/1.0:v1", "gromacs/1.0:v1", "gromacs/1.0:v2", "gromacs/2.0:v1"),
    ]
    assert all(each.size > 0 for each in listed if site.lists_sizes)


def test_reference_means_one_image_and_tells_of_it(registry: ImageRegistry) -> None:
    found = resolve(registry, "greeter")
    assert found == resolve(registry, "greeter/1.0:v1") == resolve(registry, f"@sha256:{found.digest}")
    assert found == resolve(registry, f"greeter@sha256:{found.digest}")
    assert found.metadata is not None
    assert sorted(found.metadata.views) == ["default", "other"]
    assert resolve(registry, "gromacs/2.0").metadata is None


def test_image_that_is_replaced_gets_another_digest(registry: ImageRegistry, site: Folder) -> None:
    before = resolve(registry, "greeter")
    make_image(site.path("greeter/1.0:v1"), {"other": "bytes"}, None)
    site.changed("greeter/1.0:v1")
    assert resolve(registry, "greeter").digest != before.digest


def test_reference_that_may_mean_several_images_is_refused_with_their_names(registry: ImageRegistry) -> None:
    with pytest.raises(UnknownImage, match="several images") as refused:
        resolve(registry, "gromacs/1.0")
    assert refused.value.hint == "write one of gromacs/1.0:v1, gromacs/1.0:v2"


def test_unknown_image_is_refused_with_names_like_it(registry: ImageRegistry) -> None:
    with pytest.raises(UnknownImage, match="unknown image") as refused:
        resolve(registry, "gromcas/2.0:v1")
    assert "gromacs/2.0:v1" in refused.value.hint
    with pytest.raises(UnknownImage):
        resolve(registry, f"@sha256:{'0' * 64}")


def test_file_that_is_no_image_is_unusable(registry: ImageRegistry, site: Folder) -> None:
    site.path("greeter/1.0:v1").write_bytes(b"no image")
    site.changed("greeter/1.0:v1")
    with pytest.raises(UnusableImage, match="cannot use image greeter"):
        resolve(registry, "greeter")


def test_a_signature_is_judged_where_the_site_has_keys(site: Folder, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("keys")
    private, public = make_key(folder, "ed25519", "site")
    signed = site.registry((read_public_key("site", public.read_bytes()),))
    digest = resolve(signed, "greeter").digest
    assert resolve(signed, "greeter").signed_by == ""
    site.sign("greeter/1.0:v1", digest, private)
    assert resolve(signed, "greeter").signed_by == "site"
    assert resolve(site.registry(), "greeter").signed_by == ""
    foreign, other = make_key(folder, "p256", "foreign")
    site.sign("greeter/1.0:v1", digest, foreign)
    with pytest.raises(UnusableImage, match="not made by a key of the site"):
        resolve(signed, "greeter")
    both = (read_public_key("site", public.read_bytes()), read_public_key("other", other.read_bytes()))
    assert resolve(site.registry(both), "greeter").signed_by == "other"
    assert len(asyncio.run(signed.list_images())) == 4


def test_metadata_of_a_large_image_is_read_without_the_rest(tmp_path: Path) -> None:
    require_program("mksquashfs")
    (tmp_path / "large").mkdir()
    path = tmp_path / "big" / "1" / "v1.squashfs"
    make_image(path, {"noise": "".join(map(str, range(900_000)))}, GREETER)
    (tmp_path / "SHA256SUMS").write_text(f"{'a' * 64}  ./big/1/v1.squashfs\nnonsense\n")
    with WebServer(tmp_path) as web:
        found = resolve(WebImages(Transport(), web.url), "big")
        assert (found.digest, found.size) == ("a" * 64, path.stat().st_size)
        assert found.metadata is not None
        assert len([each for each in web.asked if each[1]]) * PIECE < path.stat().st_size
        again = len(web.asked)
        assert resolve(WebImages(Transport(), web.url), "big") == found
        assert len(web.asked) > again
    with WebServer(tmp_path, with_ranges=False) as web, pytest.raises(RegistryUnavailable, match="parts of files"):
        resolve(WebImages(Transport(), web.url), "big")
    for away in (WebImages(Transport(), web.url), OciImages(Transport(), web.url.removeprefix("http://"))):
        with pytest.raises(RegistryUnavailable, match="does not answer"):
            resolve(away, "big/1:v1")


def test_a_container_is_no_uenv(process: RegistryProcess, tmp_path: Path) -> None:
    make_layout(tmp_path, [layer([("file", b"content")])])
    process.push_layout(tmp_path, "mixed/tiny/1.0")
    with pytest.raises(UnusableImage, match="it is no squashfs file"):
        resolve(OciImages(Transport(), process.host, "mixed"), "tiny/1.0:v1")
