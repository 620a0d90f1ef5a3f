"""`lattice cache` and `lattice uenv`: what is sent, shown, and said when a node cannot."""

import os
from pathlib import Path
from typing import Any

import pytest

from lattice.images.signatures import read_public_key, signer_of
from tests.conftest import require_program
from tests.image_files import make_greeter, make_image
from tests.image_keys import make_key
from tests.unit.cli.runner import Cli, StandingClock, allocation
from tests.unit.sdk.fake_api import FakeApi, refusal
from tests.web_images import WebServer

DIGEST = "a" * 64


def cached(**more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"image": "gnu/1.0:v1", "digest": DIGEST, "size": 4_000_000, "idle_s": 65, **more}


def cache(node: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"node": node, "capacity": 10**9, "used": 4_000_000, "free": 10**10, "images": [], "coming": [], **more}


def test_caches_are_listed_by_node_or_by_image(api: FakeApi, cli: Cli) -> None:
    coming = {"image": "py/3:v1", "digest": "b" * 64, "done": 1000, "total": 2000, "error": ""}
    items = [cache("n1", images=[cached(pinned=True, mounted=True)], coming=[coming]), cache("n2", error="no cache")]
    api.on("GET", "/cache", {"items": items})
    lines = cli("cache", "status", "--nodes=n[1-2]", "--group=3").lines
    assert lines[1].split() == ["n1", "1", "4.0", "MB", "1.0", "GB", "1", "-"]
    assert lines[2].endswith("no cache")
    assert dict(api.last().query) == {"nodes": "n[1-2]", "group": "3"}
    rows = cli("cache", "status", "--images").lines
    assert rows[1].split() == ["n1", "gnu/1.0:v1", "4.0", "MB", "00:01:05", "pinned,", "in", "use"]
    assert rows[2].endswith("fetching, 1.0 kB of 2.0 kB")
    assert cli("cache", "status", "-o", "json").json[0]["images"][0]["pinned"] is True


def test_warming_shows_a_bar_until_the_nodes_have_the_image(api: FakeApi, cli: Cli) -> None:
    coming = {"image": "gnu/1.0:v1", "digest": DIGEST, "done": 2_000_000, "total": 4_000_000, "error": ""}
    answer = {"items": [cache("n1", coming=[coming]), cache("n2", images=[cached()])]}
    api.on("POST", "/cache/warm", {**answer, "digest": DIGEST})
    api.on("GET", "/cache", {"items": [cache("n1", images=[cached()]), cache("n2", images=[cached()])]})
    cli.clock, cli.is_stderr_terminal = StandingClock(after=9), True
    outcome = cli("cache", "warm", "gnu/1.0:v1", "--nodes=n[1-2]", COLUMNS="120")
    assert f"[{'#' * 22}{'.' * 8}] 6.0 MB of 8.0 MB, 1 of 2 nodes" in outcome.err
    assert (outcome.code, outcome.out) == (0, "2 nodes have gnu/1.0:v1\n")


def test_nodes_that_failed_are_named_with_the_cause(api: FakeApi, cli: Cli) -> None:
    failed = {"image": "gnu/1.0:v1", "digest": DIGEST, "error": "no room"}
    items = [cache("n1", images=[cached()]), *(cache(f"n{n}", coming=[failed]) for n in (2, 3)), cache("n4")]
    api.on("POST", "/cache/warm", {"items": items, "digest": DIGEST})
    outcome = cli("cache", "warm", "--image=gnu/1.0:v1")
    assert (outcome.code, outcome.out) == (1, "1 node has gnu/1.0:v1\n")
    assert outcome.err.splitlines() == ["error: n[2-3]: no room", "error: n4: the fetch was interrupted"]


def test_pins_and_evictions_are_orders(api: FakeApi, cli: Cli) -> None:
    for what, word in (("pin", "pinned"), ("unpin", "unpinned"), ("evict", "evicted")):
        api.on("POST", f"/cache/{what}", {"items": [cache("n1")]})
        outcome = cli("cache", what, "gnu/1.0:v1", "--nodes=n1")
        assert (outcome.code, outcome.out) == (0, f"1 node {word} gnu/1.0:v1\n")
        assert api.last().json["nodes"] == "n1"
    assert cli("cache", "evict", "--all").code == 0
    assert (api.last().json["image"], api.last().json["all"]) == ("", True)
    api.on("POST", "/cache/evict", {"items": [cache("n1", error="gnu/1.0:v1 stays: work uses it")]})
    refused = cli("cache", "evict", "gnu/1.0:v1")
    assert (refused.code, refused.err) == (1, "error: n1: gnu/1.0:v1 stays: work uses it\n")


def test_wrong_use_asks_nothing(api: FakeApi, cli: Cli) -> None:
    for words in (
        ("cache", "warm"),
        ("cache", "warm", "a/1:v1", "--image=b/1:v1"),
        ("cache", "evict"),
        ("cache", "evict", "x/1:v1", "--all"),
        ("cache", "status", "--nodes=n[1"),
        ("uenv", "inspect", "./nothing.squashfs"),
    ):
        assert cli(*words).code == 2, words
    assert api.asked == []


def test_images_of_the_site_are_listed_and_described(api: FakeApi, cli: Cli) -> None:
    listed = {"image": "gnu/1.0:v1", "name": "gnu", "version": "1.0", "tag": "v1", "size": 4_000_000}
    api.on("GET", "/images", {"items": [listed]})
    assert cli("uenv", "list").lines[1].split() == ["gnu/1.0:v1", "4.0", "MB"]
    cli("uenv", "find", "gn")
    assert dict(api.last().query) == {"find": "gn"}
    patch = {"variable": "PATH", "operation": "prepend", "values": ["/a", "/b"]}
    views = [{"name": "default", "description": "compilers", "patches": [patch]}, {"name": "spack"}]
    about = {"image": "gnu/1.0:v1", "digest": DIGEST, "size": 4_000_000, "mount": "/user-environment", "views": views}
    api.on("GET", "/images/one", about)
    shown = cli("uenv", "inspect", "gnu").out
    assert f"sha256:{DIGEST}" in shown
    assert "default, spack" in shown
    lines = cli("uenv", "views", "gnu").lines
    assert lines[:2] == ["default: compilers", "spack"]
    assert lines[4].split() == ["default", "PATH", "prepend", "/a:/b"]
    wrong = cli("uenv", "views", "gnu", "--view=defalt")
    assert (wrong.code, "did you mean default?" in wrong.err) == (2, True)
    api.on("GET", "/images/one", refusal(400, "invalid", 'unknown image "gnv"'))
    assert 'unknown image "gnv"' in cli("uenv", "inspect", "gnv").err


def test_a_file_of_ones_own_is_described_without_the_server(api: FakeApi, cli: Cli, tmp_path: Path) -> None:
    require_program("mksquashfs")
    digest = make_greeter(tmp_path / "own.squashfs")
    assert cli("uenv", "inspect", str(tmp_path / "own.squashfs"), "-o", "json").json["digest"] == digest
    assert "GREETING" in cli("uenv", "views", str(tmp_path / "own.squashfs"), "--view=other").out
    assert api.asked == []


def test_images_of_an_allocation_are_shown_with_what_views_did(api: FakeApi, cli: Cli) -> None:
    mounted = {"image": "gnu/1.0:v1", "digest": DIGEST, "mount": "/user-environment", "size": 5, "views": ["default"]}
    changes = [
        {"variable": "PATH", "operation": "prepend", "view": "gnu/1.0:v1:default", "value": "/a:/b"},
        {"variable": "OLD", "operation": "unset", "view": "gnu/1.0:v1:default", "value": None},
    ]
    api.on("GET", "/allocations/a17/images", {"id": "a17", "node": "n1", "images": [mounted], "changes": changes})
    shown = cli("uenv", "status", "a17").out
    assert "/user-environment" in shown
    assert "(unset)" in shown
    api.on("GET", "/allocations/a18/images", {"id": "a18"})
    assert cli("uenv", "status", "a18").out == "a18 has no uenv mounted\n"


def test_an_image_is_signed_tested_pushed_and_pulled_as_files(api: FakeApi, cli: Cli, tmp_path: Path) -> None:
    require_program("mksquashfs")
    site, own = tmp_path / "site", cli.folder / "own.squashfs"
    site.mkdir()
    digest = make_greeter(own)
    private, public = make_key(tmp_path, "ed25519")
    assert cli("uenv", "sign", "own.squashfs", f"--key={private}").code == 0
    key = read_public_key("site", public.read_bytes())
    assert signer_of(digest, (cli.folder / "own.squashfs.sig").read_bytes(), [key]) == "site"
    assert "views: default, other" in cli("uenv", "test", "own.squashfs").out
    api.on("GET", "/images", {"items": [], "directory": str(site)})
    assert cli("uenv", "push", "own.squashfs", "greeter/1.0:v1").code == 0
    pushed = site / "greeter" / "1.0" / "v1.squashfs"
    assert pushed.read_bytes() == own.read_bytes()
    assert (site / "greeter" / "1.0" / "v1.squashfs.sig").exists()
    again = cli("uenv", "push", "own.squashfs", "greeter/1.0:v1")
    assert (again.code, "already" in again.err) == (1, True)
    (cli.folder / "own.squashfs.sig").unlink()
    assert cli("uenv", "push", "--force", "own.squashfs", "greeter/1.0:v1").code == 0
    assert os.listdir(pushed.parent) == ["v1.squashfs"]
    about = {"image": "greeter/1.0:v1", "digest": digest, "size": 5, "source": str(pushed)}
    api.on("GET", "/images/one", about)
    assert cli("uenv", "pull", "greeter").code == 0
    assert (cli.folder / "greeter-1.0-v1.squashfs").read_bytes() == own.read_bytes()
    assert cli("uenv", "pull", "greeter").code == 1
    api.on("GET", "/images/one", {**about, "digest": "e" * 64})
    changed = cli("uenv", "pull", "greeter", "other.squashfs")
    assert (changed.code, (cli.folder / "other.squashfs").exists()) == (1, False)
    with WebServer(site) as web:
        api.on("GET", "/images/one", {**about, "source": f"{web.url}/greeter/1.0/v1.squashfs"})
        assert cli("uenv", "pull", "greeter", "x").code == 0
    assert (cli.folder / "x").read_bytes() == own.read_bytes()
    away = cli("uenv", "pull", "greeter", "y")
    assert (away.code, "cannot copy http://" in away.err) == (1, True)
    api.on("GET", "/images", {"items": []})
    refused = cli("uenv", "push", "own.squashfs", "a/1:b")
    assert "keeps no images in a directory" in refused.err
    assert "oras push HOST/PREFIX/a/1:b own.squashfs:application/x-squashfs" in refused.err


def test_mistakes_with_files_of_images_are_named(api: FakeApi, cli: Cli, tmp_path: Path) -> None:
    require_program("mksquashfs")
    make_image(cli.folder / "bare.squashfs", {"x": "y"}, None)
    cli.write("junk.squashfs", "junk")
    cli.write("junk.pem", "junk")
    tested = cli("uenv", "test", "bare.squashfs")
    assert (tested.code, "has no meta/env.json" in tested.err) == (1, True)
    for words in (
        ("uenv", "test", "junk.squashfs"),
        ("uenv", "sign", "bare.squashfs", "--key=junk.pem"),
        ("uenv", "sign", "bare.squashfs", "--key=nothing.pem"),
        ("uenv", "push", "bare.squashfs", "bare"),
        ("uenv", "push", "bare.squashfs", "a b"),
        ("uenv", "pull", "./bare.squashfs"),
    ):
        assert cli(*words).code == 2, words
    assert api.asked == []


def test_two_images_on_one_place_are_refused_before_anything_is_sent(api: FakeApi, cli: Cli) -> None:
    require_program("mksquashfs")
    make_greeter(cli.folder / "one.squashfs")
    for words in (
        ("--uenv=one.squashfs,one.squashfs",),
        ("--uenv=one.squashfs", "--tools-uenv=one.squashfs:/user-environment/x"),
    ):
        outcome = cli("submit", *words, "--", "true")
        assert (outcome.code, "two images would be mounted on each other" in outcome.err) == (2, True)
    assert api.asked == []


@pytest.mark.parametrize("flag", ["--image=", "--uenv=", "--view=", "--tools-uenv=", "--scratch=", "--container-name="])
def test_a_flag_with_an_empty_variable_does_not_start_work_without_it(flag: str, api: FakeApi, cli: Cli) -> None:
    outcome = cli("submit", flag, "--", "true")
    assert (outcome.code, "it is empty; give a value, or leave the flag out" in outcome.err) == (2, True)
    assert api.asked == []


def test_default_image_of_the_configuration_counts_where_none_is_named(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/allocations", allocation())
    config = cli.write("config.yaml", "default_uenv: gnu/1.0:v1\n")
    for words, wanted in ((("--", "true"), "gnu/1.0:v1"), (("--uenv=none", "--", "true"), "none")):
        assert cli("submit", *words, LATTICE_CONFIG=config).code == 0
        assert api.last().json["uenv"] == wanted
    assert cli("submit", f"--image=/x.squashfs@sha256:{DIGEST}", "--", "true", LATTICE_CONFIG=config).code == 0
    assert "uenv" not in api.last().json


def test_a_vcluster_is_told_what_it_says_of_images(api: FakeApi, cli: Cli) -> None:
    api.on("PUT", "/vclusters/gpu", {"name": "gpu"})
    line = ("--default-uenv=gnu/1.0:v1", "--require-signed", "--confinement=strict")
    assert cli("admin", "vcluster", "update", "gpu", *line).code == 0
    assert api.last().json == {"default_uenv": "gnu/1.0:v1", "require_signed": True, "confinement": "strict"}
    assert cli("admin", "vcluster", "update", "gpu", "--allow-unsigned", "--set", "up=false").code == 0
    assert api.last().json == {"require_signed": False, "up": False}
