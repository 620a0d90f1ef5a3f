"""Archives of the programs: run from any folder, the same bytes whoever builds them."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.conftest import require_program
from tools import archives, dist


def test_an_archive_depends_on_its_files_alone(tmp_path: Path) -> None:
    packed = []
    for umask in (0o022, 0o077):
        folder = tmp_path / f"{umask:o}"
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "program").write_text("#!/bin/sh\n")
        (folder / "bin" / "program").chmod(0o777 & ~umask)
        (folder / "data").write_text("1")
        (folder / "data").chmod(0o666 & ~umask)
        (folder / "python").symlink_to("/usr/bin/python3.11")
        os.utime(folder / "data", (umask, umask))
        packed.append(archives._packed(folder, "lattice-0.2.0"))
    assert packed[0] == packed[1]
    with tarfile.open(fileobj=io.BytesIO(packed[0])) as content:
        modes = {entry.name: (entry.mode, entry.uname, entry.linkname) for entry in content}
    assert modes["lattice-0.2.0/bin/program"] == (0o755, "root", "")
    assert modes["lattice-0.2.0/data"] == (0o644, "root", "")
    assert modes["lattice-0.2.0/python"][2] == "/usr/bin/python3.11"


def test_components_of_an_archive_are_pinned_by_hash() -> None:
    lines = dist.pinned_lines({"msgspec"}).splitlines()
    assert lines[0].startswith("msgspec==")
    assert all(line.strip().startswith("--hash=sha256:") for line in lines[1:])


@pytest.mark.soak
def test_the_commands_run_from_the_folder_where_they_are_unpacked(tmp_path: Path) -> None:
    require_program("/usr/bin/python3.11")
    for architecture in archives.PLATFORMS:
        path = archives._archive("lattice", architecture)
        with tarfile.open(path) as content:
            content.extractall(tmp_path / architecture, filter="tar")
    program = tmp_path / "x86_64" / f"lattice-{dist.version()}" / "bin" / "lattice"
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert told.stdout == f"lattice {dist.version()}\n"
    foreign = [path.name for path in (tmp_path / "arm64").rglob("*.so")]
    assert foreign
    assert all("aarch64" in name for name in foreign)
