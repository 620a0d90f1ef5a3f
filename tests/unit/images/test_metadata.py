"""What images say of themselves, and which view a name means."""

import json
from typing import Any

import pytest

from lattice.images.metadata import ImageMetadata, Patch, View, choose_views, parse_metadata
from lattice.images.references import BadReference, parse_views
from lattice.images.squashfs import BadImage


def parsed(told: Any) -> ImageMetadata:  # noqa: ANN401 - JSON
    return parse_metadata(json.dumps(told).encode())


def with_values(values: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"mount": "/user-environment", "views": {"v": {"env": {"values": values}}}}


def test_patches_keep_the_order_of_the_file() -> None:
    change = [{"op": "prepend", "value": ["/x"]}, {"op": "unset"}]
    found = parsed(with_values({"scalar": {"A": "1", "B": None}, "list": {"PATH": change}}))
    assert found.views["v"].patches == (
        Patch("A", "set", ("1",)),
        Patch("B", "unset"),
        Patch("PATH", "prepend", ("/x",), is_list=True),
        Patch("PATH", "unset", (), is_list=True),
    )


def test_view_without_environment_and_image_without_views_are_fine() -> None:
    assert parsed({"views": {"v": {"description": "d"}}}).views == {"v": View("v", "d")}
    assert parsed({}) == ImageMetadata()


@pytest.mark.parametrize(
    "told",
    [
        [],
        {"mount": 3},
        {"mount": "relative"},
        {"mount": "/etc"},
        {"views": []},
        {"views": {"v": []}},
        with_values({"other": {}}),
        with_values({"list": {"A": "x"}}),
        with_values({"list": {"A": [{"op": "explode", "value": []}]}}),
        with_values({"list": {"A": [{"op": "set", "value": [1]}]}}),
        with_values({"scalar": {"A": 1}}),
        with_values({"scalar": {"A=B": "x"}}),
        with_values({"scalar": {"A": "x\0y"}}),
    ],
)
def test_what_is_not_understood_is_refused(told: Any) -> None:  # noqa: ANN401 - JSON
    with pytest.raises(BadImage):
        parsed(told)


def test_text_that_is_not_json_is_refused() -> None:
    with pytest.raises(BadImage, match="is not JSON"):
        parse_metadata(b"{")
    with pytest.raises(BadImage, match="is not JSON"):
        parse_metadata(b"[" * 100_000)


A = ("a/1:x", ImageMetadata(views={"default": View("default"), "only": View("only")}))
B = ("b/1:x", ImageMetadata(views={"default": View("default")}))
UNKNOWN = ("/path", None)


def chosen(text: str, *images: tuple[str, ImageMetadata | None]) -> list[tuple[int, str] | None]:
    found = choose_views(parse_views(text), images)
    return [None if each is None else (each.place, each.view.name) for each in found]


def test_view_is_that_of_the_image_it_names_or_of_the_only_one_that_has_it() -> None:
    assert chosen("only,b:default,a/1:default", A, B) == [(0, "only"), (1, "default"), (0, "default")]
    assert chosen("x", A, UNKNOWN) == [None]
    assert chosen("own:only", A, ("/store/own.squashfs", A[1])) == [(1, "only")]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("default", "is in several images: a/1:x, b/1:x", "UENV:VIEW"),
        ("b:only", 'unknown view "only" of b/1:x', "views: default"),
        ("onyl", 'unknown view "onyl" of these images', "did you mean only?"),
        ("c:default", 'unknown image "c"', "images: a/1:x, b/1:x"),
    ],
)
def test_view_that_nobody_can_mean_is_refused(text: str, message: str, hint: str) -> None:
    with pytest.raises(BadReference, match=message) as refused:
        chosen(text, A, B)
    assert hint in refused.value.hint


@pytest.mark.parametrize("name", ["views", "variable", "value"])
def test_text_that_no_process_can_carry_is_refused(name: str) -> None:
    bad = {each: "\ud800" if each == name else "good" for each in ("views", "variable", "value")}
    told = {"views": {bad["views"]: {"env": {"values": {"scalar": {bad["variable"]: bad["value"]}}}}}}
    with pytest.raises(BadImage, match="is not"):
        parse_metadata(json.dumps(told).encode())
