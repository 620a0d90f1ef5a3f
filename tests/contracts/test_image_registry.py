"""What every image registry does, whatever it keeps its images in."""

import asyncio
from pathlib import Path

import pytest

from lattice.images.references import parse_images
from lattice.images.signatures import read_public_key, sign
from lattice.integrations.directory.registry import DirectoryRegistry
from lattice.ports.site.images import FoundImage, ImageRegistry, UnknownImage, UnusableImage
from tests.conftest import require_program
from tests.image_files import make_greeter, make_image
from tests.image_keys import make_key


@pytest.fixture
def root(tmp_path: Path) -> Path:
    require_program("mksquashfs")
    for version, tag in (("1.0", "v1"), ("1.0", "v2"), ("2.0", "v1")):
        make_image(tmp_path / "gromacs" / version / f"{tag}.squashfs", {"version": f"{version} {tag}"}, None)
    make_greeter(tmp_path / "greeter" / "1.0" / "v1.squashfs")
    return tmp_path


@pytest.fixture
def registry(root: Path) -> ImageRegistry:
    return DirectoryRegistry(root)


def resolve(registry: ImageRegistry, text: str) -> FoundImage:
    return asyncio.run(registry.resolve(parse_images(text)[0]))


def test_images_are_listed_by_name_version_and_tag(registry: ImageRegistry) -> None:
    listed = asyncio.run(registry.list_images())
    assert [each.label for each in listed] == [
        *("greeter/1.0:v1", "gromacs/1.0:v1", "gromacs/1.0:v2", "gromacs/2.0:v1"),
    ]
    assert all(each.size > 0 for each in listed)


def test_reference_means_one_image_and_tells_of_it(registry: ImageRegistry, root: Path) -> None:
    found = resolve(registry, "greeter")
    assert found == resolve(registry, "greeter/1.0:v1") == resolve(registry, f"@sha256:{found.digest}")
    assert found == resolve(registry, f"greeter@sha256:{found.digest}")
    assert found.metadata is not None
    assert sorted(found.metadata.views) == ["default", "other"]
    assert resolve(registry, "gromacs/2.0").metadata is None


def test_image_that_is_replaced_gets_another_digest(registry: ImageRegistry, root: Path) -> None:
    before = resolve(registry, "greeter")
    make_image(root / "greeter" / "1.0" / "v1.squashfs", {"other": "bytes"}, None)
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


def test_file_that_is_no_image_is_unusable(registry: ImageRegistry, root: Path) -> None:
    (root / "greeter" / "1.0" / "v1.squashfs").write_bytes(b"no image")
    with pytest.raises(UnusableImage, match="cannot use image greeter"):
        resolve(registry, "greeter")


def test_a_signature_is_judged_where_the_site_has_keys(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("keys")
    private, public = make_key(folder, "ed25519", "site")
    signed = DirectoryRegistry(root, (read_public_key("site", public.read_bytes()),))
    path = root / "greeter" / "1.0" / "v1.squashfs"
    digest = resolve(signed, "greeter").digest
    assert resolve(signed, "greeter").signed_by == ""
    signature = path.with_name("v1.squashfs.sig")
    signature.write_bytes(sign(digest, private.read_bytes()))
    assert resolve(signed, "greeter").signed_by == "site"
    assert resolve(DirectoryRegistry(root), "greeter").signed_by == ""
    foreign, _ = make_key(folder, "p256", "foreign")
    signature.write_bytes(sign(digest, foreign.read_bytes()))
    with pytest.raises(UnusableImage, match="not made by a key of the site"):
        resolve(signed, "greeter")
