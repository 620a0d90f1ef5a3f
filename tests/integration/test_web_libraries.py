"""`make web`: the libraries of the page come from npm as they are pinned, or not at all."""

import base64
import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from tools import web

CONTENT = b"export const h = 1;\n"


def package(content: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("package/dist/lib.mjs")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where libraries go; one is pinned, and the only programs are those in `bin`."""
    (tmp_path / "bin").mkdir()
    digest = base64.b64encode(hashlib.sha512(package(CONTENT)).digest()).decode()
    (tmp_path / "pins.toml").write_text(
        f'[lib]\nversion = "1.2.3"\nsha512 = "{digest}"\nfiles = {{ "dist/lib.mjs" = "lib.mjs" }}\n'
    )
    monkeypatch.setattr(web, "PINS", tmp_path / "pins.toml")
    monkeypatch.setattr(web, "TARGET", tmp_path / "vendor")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "vendor"


def npm(target: Path, delivered: bytes | None) -> None:
    """An npm that packs this, whatever it is asked for; without a network when there is nothing to pack."""
    program = target.parent / "bin" / "npm"
    parcel = target.parent / "parcel"
    if delivered is None:
        program.write_text("#!/bin/sh\necho 'npm error network is unreachable' >&2\nexit 1\n")
    else:
        parcel.write_bytes(delivered)
        # npm pack --silent --ignore-scripts --pack-destination FOLDER PACKAGE
        program.write_text(f'#!/bin/sh\n/bin/cp {parcel} "$5/lib-1.2.3.tgz"\n')
    program.chmod(0o755)


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["tools/web.py", *words])
    return web.main()


@pytest.mark.parametrize("has_npm", [False, True], ids=["without npm", "without a network"])
def test_what_cannot_be_fetched_stops_no_cluster_and_says_how_to_add_the_page(
    has_npm: bool, target: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if has_npm:
        npm(target, None)
    assert run(monkeypatch, "--optional") == 0
    said = capsys.readouterr().err
    assert ("network is unreachable" if has_npm else "npm is not installed") in said
    assert "the API is served alone; `make web` adds the page" in said
    assert run(monkeypatch) == 1
    assert not target.exists()


def test_a_package_that_is_not_the_pinned_one_is_refused_and_what_was_there_stays(
    target: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    npm(target, package(CONTENT))
    assert run(monkeypatch) == 0
    assert (target / "lib.mjs").read_bytes() == CONTENT
    (target / web.MARKER).unlink()
    npm(target, package(b"steal();\n"))
    assert run(monkeypatch) == 1
    assert "lib 1.2.3 is not what pins.toml names" in capsys.readouterr().err
    assert (target / "lib.mjs").read_bytes() == CONTENT


def test_what_is_there_is_not_fetched_again(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm(target, package(CONTENT))
    assert run(monkeypatch) == 0
    npm(target, None)
    assert run(monkeypatch) == 0
