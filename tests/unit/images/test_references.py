"""Names of images and views: what they mean, and what is refused with a hint."""

import pytest

from lattice.images.references import (
    BadReference,
    ImageReference,
    ViewReference,
    check_mounts,
    checked_mount,
    parse_images,
    parse_views,
)

DIGEST = "a" * 64


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("gromacs/2024:v1", ImageReference("gromacs", "2024", "v1")),
        ("gromacs/2024", ImageReference("gromacs", "2024")),
        ("gromacs", ImageReference("gromacs")),
        ("gromacs/2024:v1:/opt/g", ImageReference("gromacs", "2024", "v1", mount="/opt/g")),
        (f"gromacs/2024:v1@sha256:{DIGEST}", ImageReference("gromacs", "2024", "v1", digest=DIGEST)),
        (f"gromacs/2024@sha256:{DIGEST}:/opt/g", ImageReference("gromacs", "2024", digest=DIGEST, mount="/opt/g")),
        (f"@sha256:{DIGEST}", ImageReference(digest=DIGEST)),
        (f"sha256:{DIGEST}", ImageReference(digest=DIGEST)),
        ("/store/a.squashfs", ImageReference(path="/store/a.squashfs")),
        ("./a.img:/mnt/a", ImageReference(path="./a.img", mount="/mnt/a")),
        ("a.squashfs", ImageReference(path="a.squashfs")),
        (f"/store/a@sha256:{DIGEST}:/mnt/a", ImageReference(path="/store/a", digest=DIGEST, mount="/mnt/a")),
    ],
)
def test_reference_means_what_it_says_and_says_it_again(text: str, meant: ImageReference) -> None:
    (found,) = parse_images(text)
    assert found == meant
    assert parse_images(str(found)) == (meant,)


def test_several_images_keep_their_order() -> None:
    assert [each.name for each in parse_images("b/1:x, a/1:x:/opt/a")] == ["b", "a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty place"),
        ("a,,b", "empty place"),
        ("a/b/c", "is not an image"),
        ("-x", "is not an image"),
        ("a@sha256:12", "is not a sha256 digest"),
        ("a:/", "nothing may be mounted on /"),
        ("a:/proc/x", "nothing may be mounted on /proc/x"),
        ("a:/opt/../etc", "nothing may be mounted on /etc"),
        (",".join("abcdefghi"), "9 images are too many"),
        ("x" * 5000, "too long"),
    ],
)
def test_what_cannot_name_an_image_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadReference, match=message):
        parse_images(text)


def test_views_name_their_image_where_they_have_to() -> None:
    assert parse_views("default,g:modules") == (ViewReference("default"), ViewReference("modules", "g"))
    assert [str(each) for each in parse_views("default,g/1:modules")] == ["default", "g/1:modules"]


@pytest.mark.parametrize("text", ["", "a b", ":x", "x:", "/x:y"])
def test_what_cannot_name_a_view_is_refused(text: str) -> None:
    with pytest.raises(BadReference):
        parse_views(text)


@pytest.mark.parametrize("path", ["", "relative", "//x", "/usr", "/usr/local/x", "/tmp/x", "/home/ada", "/dev", "/a\n"])
def test_mount_points_of_the_system_are_closed(path: str) -> None:
    with pytest.raises(BadReference):
        checked_mount(path)


def test_mount_points_may_not_hide_each_other() -> None:
    check_mounts(["/user-environment", "/user-tools"])
    for hidden in (["/a", "/a"], ["/a", "/a/b"], ["/a/b", "/a"]):
        with pytest.raises(BadReference, match="mounted on each other"):
            check_mounts(hidden)
