"""Whether a node mounts images, by whom, and what is said where it does not."""

import errno
from pathlib import Path

import pytest

from lattice.agent.images.node import NO_SERVER, OLD_SERVER, NodeImages, find_server
from lattice.agent.shim.rootless.userns import explain


def program(folder: Path, name: str, content: bytes = b"ELF libfuse3.so.3") -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    (folder / name).chmod(0o755)
    return str(folder / name)


def test_the_faster_squashfuse_is_preferred(tmp_path: Path) -> None:
    program(tmp_path / "first", "squashfuse")
    fast = program(tmp_path / "second", "squashfuse_ll")
    assert find_server(f"{tmp_path}/first:{tmp_path}/second") == (fast, "")


def test_a_squashfuse_that_cannot_serve_what_is_mounted_is_passed_over(tmp_path: Path) -> None:
    program(tmp_path, "squashfuse_ll", b"ELF libfuse.so.2")
    assert find_server(str(tmp_path)) == ("", OLD_SERVER)
    other = program(tmp_path, "squashfuse")
    assert find_server(str(tmp_path)) == (other, "")


def test_without_squashfuse_a_users_node_mounts_nothing_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lattice.agent.images.node.SEARCHED", str(tmp_path / "none"))
    images = NodeImages(tmp_path / "cache", is_root=False, path=str(tmp_path))
    assert images.fetcher is None
    assert images.why_not("the shim's reason") == NO_SERVER
    assert images.features(["squashfuse"]) == set()
    assert not (tmp_path / "cache").exists()


def test_with_squashfuse_it_is_for_the_shim_to_say(tmp_path: Path) -> None:
    server = program(tmp_path / "bin", "squashfuse_ll")
    images = NodeImages(tmp_path / "cache", is_root=False, path=str(tmp_path / "bin"))
    assert images.fetcher is not None
    assert images.fetcher.server == server
    assert images.features(["squashfuse"]) == {"uenv"}
    assert images.features([]) == set()
    assert images.why_not() == ""
    assert images.why_not("no user namespaces") == "no user namespaces"


def test_root_has_no_use_for_squashfuse(tmp_path: Path) -> None:
    images = NodeImages(tmp_path / "cache", path=str(tmp_path))
    assert images.fetcher is not None
    assert images.fetcher.server == ""
    assert images.features(["squashfuse"]) == set()


@pytest.mark.parametrize(
    ("stage", "code", "words"),
    [
        ("namespace", errno.EPERM, "users may not make user namespaces here"),
        ("namespace", errno.ENOSPC, "user.max_user_namespaces"),
        ("map", errno.EPERM, "AppArmor"),
        ("rights", errno.EACCES, "AppArmor"),
        ("device", errno.EACCES, "/dev/fuse cannot be opened by this user (Permission denied)"),
        ("device", errno.ENOENT, "/dev/fuse cannot be opened by this user (No such file or directory)"),
        ("fuse", errno.EPERM, "Linux does since 4.18"),
        ("", errno.EIO, "could not be found out"),
    ],
)
def test_each_obstacle_has_its_sentence(stage: str, code: int, words: str) -> None:
    assert words in explain(stage, code)
