"""Builds archives of the programs per architecture into dist/, from the wheels that `make dist` left there.

python tools/archives.py

An archive is a private environment that runs from any folder: unpack it, put its bin/ on PATH. It needs the Python that its
components were built for, and nothing else. Archives for another architecture are resolved for it, not run.
"""

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import dist  # noqa: E402 - found by the line before, wherever this is started

DIST = ROOT / "dist"
PYTHON = "3.11"
EPOCH = 1580601600  # as the wheels have it: archives do not depend on the time either
PLATFORMS = {"x86_64": "x86_64-manylinux_2_28", "arm64": "aarch64-manylinux_2_28"}
EXTRAS = {
    "lattice": (),
    "lattice-server": ("server", "s3"),
    "lattice-agent": ("agent", "nvidia"),
    "rm-replay": ("server",),
}
PROGRAMS = {
    "lattice": ("lattice",),
    "lattice-server": (
        "lattice-server",
        "lattice-quorum",
        "lattice-mover",
        "lattice-supervisor",
        "lattice",
        "rm-replay",
    ),
    "lattice-agent": ("lattice-agent", "lattice"),
    "rm-replay": ("rm-replay",),
}


def main() -> None:
    if not list(DIST.glob(f"lattice_hpc-{dist.version()}-*.whl")):
        dist.main()
    for architecture in PLATFORMS:
        for name in EXTRAS:
            path = _archive(name, architecture)
            print(f"{path.relative_to(ROOT)}  {path.stat().st_size >> 20} MB")
    dist.write_sums(DIST)


def _archive(name: str, architecture: str) -> Path:
    folder = f"{name}-{dist.version()}"
    target = ROOT / "build" / "archives" / architecture / folder
    shutil.rmtree(target, ignore_errors=True)
    _install(target, EXTRAS[name], PLATFORMS[architecture])
    _keep(target, PROGRAMS[name])
    path = DIST / f"{name}-{architecture}.tar.gz"
    path.write_bytes(gzip.compress(_packed(target, folder), 9, mtime=0))
    return path


def _install(target: Path, extras: tuple[str, ...], platform: str) -> None:
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "venv", "-q", "--relocatable", "--python", f"/usr/bin/python{PYTHON}", target], check=True)
    known = {dist.normal(each.metadata["Name"]): each for each in distributions()}
    pinned = target.with_name(f"{target.name}.txt")
    pinned.write_text(dist.pinned_lines(dist.closure(known, extras)))
    into = [uv, "pip", "install", "-q", "--python", f"{target}/bin/python", "--python-platform", platform]
    subprocess.run([*into, "--only-binary", ":all:", "--require-hashes", "-r", str(pinned)], check=True)
    subprocess.run([*into, "--no-deps", *map(str, sorted(DIST.glob("lattice_hpc*.whl")))], check=True)


def _keep(target: Path, programs: tuple[str, ...]) -> None:
    """Only what a user runs, and nothing that tells where it was built."""
    for path in (target / "bin").iterdir():
        if path.name not in programs and not path.name.startswith("python"):
            path.unlink()
    for path in target.rglob("__pycache__"):
        shutil.rmtree(path)
    for name in ("direct_url.json", "uv_cache.json"):
        for path in target.rglob(name):
            path.unlink()
    for name in (".lock", ".gitignore", "CACHEDIR.TAG"):
        (target / name).unlink(missing_ok=True)
    (target / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\nrelocatable = true\n")
    shutil.copy(ROOT / "LICENSE", target / "LICENSE")


def _packed(target: Path, folder: str) -> bytes:
    """The same bytes from the same files, whoever builds them and when."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted([target, *target.rglob("*")]):
            entry = archive.gettarinfo(path, arcname=str(Path(folder) / path.relative_to(target)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            entry.mtime = EPOCH
            entry.mode = 0o755 if entry.isdir() or os.access(path, os.X_OK) else 0o644
            with path.open("rb") if entry.isreg() else io.BytesIO() as source:
                archive.addfile(entry, source)
    return content.getvalue()


if __name__ == "__main__":
    main()
