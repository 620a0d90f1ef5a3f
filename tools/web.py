"""Fetches the browser libraries of the web page from npm into src/lattice/web/vendor.

python tools/web.py [--optional] [--tests]

Names, versions and sums are in src/lattice/web/libraries.toml; a package that differs from its sum is refused. What is there already is
kept. With --tests those of the tests are fetched instead, into .cache. With --optional a failure says how to add the page and is no error: the servers then serve the API alone.
"""

import base64
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOR_TESTS = "--tests" in sys.argv
PINS = ROOT / ("tests/e2e/web_libraries.toml" if FOR_TESTS else "src/lattice/web/libraries.toml")
TARGET = ROOT / (".cache/web" if FOR_TESTS else "src/lattice/web/vendor")
MARKER = ".complete"
WITHIN_S = 120
# Without a bundler, a library is named by its file.
REWRITTEN = {"hooks.mjs": (b'from"preact"', b'from"./preact.mjs"')}


class Failed(Exception):
    """The libraries could not be had; the text says why."""


def pins() -> dict[str, dict[str, Any]]:
    return tomllib.loads(PINS.read_text())


def is_complete() -> bool:
    marker = TARGET / MARKER
    return marker.exists() and marker.read_text() == _digest(PINS.read_bytes())


def _digest(data: bytes) -> str:
    return base64.b64encode(hashlib.sha512(data).digest()).decode()


def fetch() -> None:
    """Raises Failed; then what was there before stays."""
    npm = shutil.which("npm")
    if npm is None:
        raise Failed("npm is not installed")
    TARGET.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TARGET.parent, prefix=".vendor-") as folder:
        fresh = Path(folder) / "vendor"
        fresh.mkdir()
        for name, pin in pins().items():
            _unpack(name, pin, _packed(npm, f"{name}@{pin['version']}"), fresh)
        (fresh / MARKER).write_text(_digest(PINS.read_bytes()))
        shutil.rmtree(TARGET, ignore_errors=True)
        fresh.rename(TARGET)


def _packed(npm: str, package: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", "--silent", "--ignore-scripts", "--pack-destination", folder, package]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=WITHIN_S, check=False)
        except subprocess.TimeoutExpired:
            raise Failed(f"npm did not fetch {package} within {WITHIN_S} s") from None
        found = list(Path(folder).glob("*.tgz"))
        if done.returncode or not found:
            last = (done.stderr.strip() or "no message").splitlines()[-1]
            raise Failed(f"npm could not fetch {package}: {last}")
        return found[0].read_bytes()


def _unpack(name: str, pin: dict[str, Any], data: bytes, target: Path) -> None:
    if _digest(data) != pin["sha512"]:
        raise Failed(f"{name} {pin['version']} is not what {PINS.name} names: its sha512 is {_digest(data)}")
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        for inside, outside in pin["files"].items():
            member = archive.extractfile(f"package/{inside}")
            if member is None:
                raise Failed(f"{name} {pin['version']} has no {inside}")
            content = member.read()
            if outside in REWRITTEN:
                content = content.replace(*REWRITTEN[outside])
            (target / outside).write_bytes(content)


def main() -> int:
    if is_complete():
        return 0
    try:
        fetch()
    except (Failed, OSError, tarfile.TarError, KeyError) as error:
        sys.stderr.write(f"web: the libraries of the web page could not be fetched: {error}\n")
        if "--optional" not in sys.argv:
            return 1
        sys.stderr.write("web: the API is served alone; `make web` adds the page when npm and a network are there\n")
        return 0
    print(f"web: {', '.join(pins())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
