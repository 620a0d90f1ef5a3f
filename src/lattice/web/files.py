"""The files of the page, read once: ours, and the libraries that `make web` fetched."""

import gzip
import hashlib
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
PAGE = HERE / "page"
LIBRARIES = HERE / "vendor"
MARKER = ".complete"  # written when every library is there
COMPRESS_FROM = 1024
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class File(NamedTuple):
    kind: str
    tag: bytes  # for If-None-Match
    plain: bytes
    compressed: bytes  # empty where that is not worth while


def is_installed() -> bool:
    return (LIBRARIES / MARKER).exists()


def page_files() -> dict[str, File]:
    """By address. Blocks."""
    found: dict[str, File] = {}
    for folder, prefix in ((PAGE, "/assets/"), (LIBRARIES, "/assets/vendor/")):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix in KINDS:
                found[prefix + path.relative_to(folder).as_posix()] = _read(path)
    return found


def _read(path: Path) -> File:
    data = path.read_bytes()
    compressed = gzip.compress(data, 6, mtime=0) if len(data) >= COMPRESS_FROM else b""
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'.encode()
    return File(KINDS[path.suffix], tag, data, compressed)
