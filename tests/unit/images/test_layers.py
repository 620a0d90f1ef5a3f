"""Layers over each other: what is seen in the end, and what a hostile layer is refused for."""

import pytest

from lattice.images.layers import DIRECTORY, FILE, SYMLINK, Member, Tree, plain_path
from lattice.images.squashfs import BadImage


def tree(*layers: list[tuple[str, str, str]]) -> dict[str, int]:
    """Paths that are seen, with the layer that they come from."""
    image = Tree()
    for number, entries in enumerate(layers):
        image.add_layer(
            [Member(path, kind, number, place, target) for place, (path, kind, target) in enumerate(entries)]
        )
    return {path: member.layer for path, member in image.shown()}


def test_upper_layer_hides_and_removes() -> None:
    low = [("etc", DIRECTORY, ""), ("etc/a", FILE, ""), ("etc/b", FILE, ""), ("opt/x/y", FILE, "")]
    high = [("etc/.wh.a", FILE, ""), ("etc/b", FILE, ""), ("opt/.wh..wh..opq", FILE, ""), ("opt/z", FILE, "")]
    assert tree(low, high) == {"etc": 0, "etc/b": 1, "opt/z": 1}


def test_whiteout_leaves_what_its_own_layer_brings() -> None:
    assert tree([("a/b", FILE, "")], [("a", DIRECTORY, ""), ("a/b", FILE, ""), (".wh.a", FILE, "")]) == {
        "a": 1,
        "a/b": 1,
    }


def test_file_replaces_a_directory_and_the_other_way_round() -> None:
    assert tree([("a", DIRECTORY, ""), ("a/b", FILE, "")], [("a", FILE, "")]) == {"a": 1}
    assert tree([("a", FILE, "")], [("a", DIRECTORY, ""), ("a/b", FILE, "")]) == {"a": 1, "a/b": 1}


def test_links_on_the_way_stay_inside_the_image() -> None:
    low = [("usr/lib", DIRECTORY, ""), ("lib", SYMLINK, "usr/lib"), ("out", SYMLINK, "../../../../etc")]
    seen = tree(low, [("lib/new", FILE, ""), ("out/passwd", FILE, "")])
    assert seen["usr/lib/new"] == 1
    assert seen["etc/passwd"] == 1


def test_links_in_circles_are_refused() -> None:
    with pytest.raises(BadImage, match="circles"):
        tree([("a", SYMLINK, "b"), ("b", SYMLINK, "a")], [("a/x", FILE, "")])


@pytest.mark.parametrize("name", ["../etc/passwd", "a/../../b", "/../x"])
def test_name_that_leads_out_is_refused(name: str) -> None:
    with pytest.raises(BadImage, match="leads out"):
        plain_path(name)


def test_leading_slashes_and_dots_mean_nothing() -> None:
    assert plain_path("./a//b/.") == plain_path("/a/b") == "a/b"


def test_directories_may_be_as_deep_as_paths_are_long() -> None:
    deep = "a/" * 1500 + "x"
    assert tree([(deep, FILE, "")], [(".wh.a", FILE, "")]) == {}


def test_path_that_grows_through_links_is_bounded() -> None:
    step = "d" * 200
    entries = [("/".join([step] * 15), DIRECTORY, ""), ("l", SYMLINK, "/".join([step] * 15))]
    with pytest.raises(BadImage, match="too long"):
        tree([*entries, ("l/" + "/".join([step] * 15) + "/x", FILE, "")])
