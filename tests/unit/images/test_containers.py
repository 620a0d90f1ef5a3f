"""References of container images and mounts, taken apart."""

import pytest

from lattice.images.containers import (
    NAMED,
    OCI,
    REGISTRY,
    SQUASHFS,
    Bind,
    check_binds,
    parse_bind,
    parse_container,
    parse_name,
)
from lattice.images.references import BadReference

DIGEST = "ab" * 32


@pytest.mark.parametrize(
    ("text", "kind", "label"),
    [
        ("oci:/a/b:v1", OCI, "oci:/a/b:v1"),
        ("oci:./b", OCI, "oci:./b"),
        ("/a/x.squashfs", SQUASHFS, "/a/x.squashfs"),
        ("x.sqsh", SQUASHFS, "x.sqsh"),
        ("tiny/1.0:v1", NAMED, "tiny/1.0:v1"),
        ("ubuntu:24.04", NAMED, "ubuntu:24.04"),
        ("nvcr.io/nvidia/pytorch:24.01-py3", REGISTRY, "nvcr.io/nvidia/pytorch:24.01-py3"),
        ("nvcr.io#nvidia/pytorch:24.01-py3", REGISTRY, "nvcr.io/nvidia/pytorch:24.01-py3"),
        ("docker://localhost:5000/a/b", REGISTRY, "localhost:5000/a/b:latest"),
        ("localhost:5000/a/b", REGISTRY, "localhost:5000/a/b:latest"),
    ],
)
def test_reference_is_understood(text: str, kind: str, label: str) -> None:
    found = parse_container(text)
    assert (found.kind, found.label) == (kind, label)
    assert parse_container(f"{text}@sha256:{DIGEST}").digest == DIGEST
    assert parse_container(str(found)) == found


@pytest.mark.parametrize(
    "text",
    ["", "a b", "dockerd://x", "x@sha256:12", "oci:", "oci:/a:b c", "docker://", "a#b#c", "docker.io/UPPER", "a/b/c"],
)
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(BadReference):
        parse_container(text)


def test_mounts_are_understood() -> None:
    assert parse_bind("/a:/b") == Bind("/a", "/b")
    assert parse_bind("/a:/b/../c:ro") == Bind("/a", "/c", is_read_only=True)
    assert parse_bind("/a") == Bind("/a", "/a")
    assert parse_bind("a:/b:rw") == Bind("a", "/b")


@pytest.mark.parametrize(
    "text", ["", "a", "/a:b", "/a:/", "/a:/proc", "/a:/dev/x", "/a:/b:x", "/a:/b:ro:c", "/a::ro", "/a:/.."]
)
def test_what_is_no_mount_is_refused(text: str) -> None:
    with pytest.raises(BadReference) as refused:
        parse_bind(text)
    assert refused.value.hint


def test_two_mounts_at_one_place_are_refused() -> None:
    with pytest.raises(BadReference, match="both"):
        check_binds([parse_bind("/a:/c"), parse_bind("/b:/c")])


@pytest.mark.parametrize(
    ("text", "name", "way"),
    [
        ("tools", "tools", "auto"),
        ("tools:auto", "tools", "auto"),
        ("t-1.2_x:create", "t-1.2_x", "create"),
        ("17.3:exec", "17.3", "exec"),
        ("a:no_exec", "a", "no_exec"),
    ],
)
def test_name_of_a_container_says_how_it_is_meant(text: str, name: str, way: str) -> None:
    assert parse_name(text) == (name, way)


@pytest.mark.parametrize("text", ["", ":exec", "a/b", "-a", "a b", "a" * 65, "a:", "a:EXEC", "a:exec:create", "a\n"])
def test_what_is_no_name_of_a_container_is_refused(text: str) -> None:
    with pytest.raises(BadReference) as refused:
        parse_name(text)
    assert refused.value.hint
