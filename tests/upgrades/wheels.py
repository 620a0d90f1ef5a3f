"""The wheels of a release, kept so that its programs run beside those of later ones, whatever the history holds."""

import shutil
import tempfile
import zipfile
from pathlib import Path

from tools import dist

WHEELS = "wheels"


def record_wheels(target: Path) -> None:
    """Both, as `make dist` builds them, without the libraries of the web page, which npm keeps."""
    (target / WHEELS).mkdir()
    with tempfile.TemporaryDirectory() as folder:
        for wheel in dist.build(Path(folder)):
            _copy_without(wheel, target / WHEELS / wheel.name, "lattice/web/vendor/")


def _copy_without(wheel: Path, target: Path, folder: str) -> None:
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            if not entry.filename.startswith(folder):
                new.writestr(entry, old.read(entry))


def unpack_wheels(release: Path, target: Path) -> None:
    """The modules of both, importable from `target`, with what an installation says of them."""
    for wheel in sorted((release / WHEELS).glob("*.whl")):
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(target)
    for data in target.glob("*.data"):
        shutil.rmtree(data)
