"""deploy/make-provision-bundle and the scripts that install from a bundle, with small archives in place of the real ones."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.conftest import require_program

DEPLOY = Path(__file__).parents[2] / "deploy"


def run(program: Path, *words: object) -> "subprocess.CompletedProcess[str]":
    line = [str(program), *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)


def archive(path: Path, program: str, version: str) -> None:
    with tarfile.open(path, "w:gz") as made:
        for name, mode in ((program, 0o755), ("python3", 0o755)):
            text = f"#!/bin/sh\necho {program} {version} $*\n".encode()
            about = tarfile.TarInfo(f"{program}-{version}/bin/{name}")
            about.size, about.mode = len(text), mode
            made.addfile(about, io.BytesIO(text))


def bundle(folder: Path, version: str) -> Path:
    """An unpacked bundle of that version."""
    dist, out, place = folder / "dist", folder / f"{version}.tar.gz", folder / version
    dist.mkdir(exist_ok=True)
    for program in ("lattice", "lattice-server", "lattice-agent"):
        archive(dist / f"{program}-x86_64.tar.gz", program, version)
    assert run(DEPLOY / "make-provision-bundle", dist, out, "x86_64").returncode == 0
    place.mkdir()
    with tarfile.open(out) as packed:
        packed.extractall(place, filter="data")
    return place / "lattice-provision"


@pytest.fixture
def as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("the scripts install files of root")


@pytest.mark.usefixtures("as_root")
def test_an_agent_is_installed_upgraded_and_keeps_its_configuration(tmp_path: Path) -> None:
    root, token = tmp_path / "root", tmp_path / "n1.token"
    token.write_text("secret\n")
    words = ("--root", root, "--node", "n1", "--servers", "s1:50051,s2:50051", "--token-file", token)
    first = run(bundle(tmp_path, "0.2.0") / "install-compute", *words)
    assert first.returncode == 0, first.stderr
    file = root / "etc" / "lattice" / "agent.yaml"
    assert file.read_text().splitlines()[:3] == [
        'node_id: "n1"',
        "state_dir: /var/lib/lattice/agent",
        "servers: [s1:50051,s2:50051]",
    ]
    assert "scratch_dir: /var/lib/lattice/scratch" in file.read_text().splitlines(), "work would share /tmp"
    assert (root / "etc" / "lattice" / "agent.token").stat().st_mode & 0o777 == 0o600
    unit = (root / "etc" / "systemd" / "system" / "lattice-agent.service").read_text()
    assert "ExecStart=/opt/lattice/bin/lattice-agent --config /etc/lattice/agent.yaml" in unit
    programs = root / "opt" / "lattice" / "bin"
    assert [each.name for each in programs.iterdir()] == ["lattice-agent"]

    file.write_text("node_id: changed\n")
    second = run(bundle(tmp_path, "0.3.0") / "install-compute", "--root", root)
    assert second.returncode == 0, second.stderr
    assert "kept:" in second.stdout
    assert file.read_text() == "node_id: changed\n"
    assert (programs / "lattice-agent").readlink() == Path("/opt/lattice-agent-0.3.0/bin/lattice-agent")
    assert (root / "opt" / "lattice-agent-0.2.0").is_dir()  # the way back


@pytest.mark.usefixtures("as_root")
def test_a_server_is_installed_with_a_configuration_of_the_site(tmp_path: Path) -> None:
    require_program("systemd-sysusers")
    root, config, invitation = tmp_path / "root", tmp_path / "s2.yaml", tmp_path / "s2.join"
    root.mkdir()
    config.write_text("name: s2\n")
    invitation.write_text("invitation\n")
    done = run(bundle(tmp_path, "0.2.0") / "install-quorum", "--root", root, "--config", config, "--join", invitation)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("--join --join-token-file /etc/lattice/server.join\n")
    assert (root / "etc" / "lattice" / "server.yaml").read_text() == "name: s2\n"
    assert (root / "etc" / "lattice" / "server.join").stat().st_mode & 0o777 == 0o600
    assert "lattice:" in (root / "etc" / "passwd").read_text()


@pytest.mark.usefixtures("as_root")
def test_a_bundle_is_not_unpacked_over_the_debian_packages(tmp_path: Path) -> None:
    place, root, token = bundle(tmp_path, "0.2.0"), tmp_path / "root", tmp_path / "token"
    token.write_text("secret\n")
    known = root / "var" / "lib" / "dpkg" / "info" / "lattice-cli.list"
    known.parent.mkdir(parents=True)
    known.write_text("/.\n/opt\n/opt/lattice\n/opt/lattice/bin\n")
    words = ("--root", root, "--node", "n1", "--servers", "s1:50051", "--token-file", token)
    done = run(place / "install-compute", *words)
    assert done.returncode == 2
    assert "/opt/lattice belongs to the Debian packages here; upgrade these, or remove them first" in done.stderr
    assert not (root / "opt").exists()
    known.write_text("/etc/lattice/config.yaml\n")  # removed, and not purged
    assert run(place / "install-compute", *words).returncode == 0


@pytest.mark.usefixtures("as_root")
def test_a_damaged_bundle_installs_nothing(tmp_path: Path) -> None:
    place, root, token = bundle(tmp_path, "0.2.0"), tmp_path / "root", tmp_path / "token"
    token.write_text("secret\n")
    archive(place / "lattice-agent.tar.gz", "lattice-agent", "6.6.6")
    words = ("--root", root, "--node", "n1", "--servers", "s1:50051", "--token-file", token)
    done = run(place / "install-compute", *words)
    assert done.returncode == 1
    assert "is damaged; copy the bundle again" in done.stderr
    assert not root.exists()


@pytest.mark.usefixtures("as_root")
def test_a_system_with_another_python_is_told_which_one_is_needed(tmp_path: Path) -> None:
    place, root, token = bundle(tmp_path, "0.2.0"), tmp_path / "root", tmp_path / "token"
    token.write_text("secret\n")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as made:
        link = tarfile.TarInfo("lattice-agent-0.3.0/bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, "/usr/bin/python3.99"
        made.addfile(link)
    (place / "lattice-agent.tar.gz").write_bytes(packed.getvalue())
    sums = "find . -type f ! -name SHA256SUMS | xargs sha256sum > SHA256SUMS"
    subprocess.run(["bash", "-c", sums], cwd=place, check=True)
    words = ("--root", root, "--node", "n1", "--servers", "s1:50051", "--token-file", token)
    done = run(place / "install-compute", *words)
    assert done.returncode == 2
    assert "needs /usr/bin/python3.99, which is not on this system" in done.stderr
    assert list((root / "opt").glob("*lattice-agent*")) == []


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("make-provision-bundle", ()),
        ("make-provision-bundle", ("dist", "out", "x86_64", "more")),
        ("install-quorum", ()),
        ("install-quorum", ("--hsot", "s1")),
        ("install-compute", ("--node", "n1")),
        ("install-compute", ("--node", "n1\nservers: [evil:1]", "--servers", "s1:1", "--token-file", "/dev/null")),
    ],
)
def test_wrong_usage_is_told_and_nothing_is_installed(script: str, words: tuple[str, ...], tmp_path: Path) -> None:
    done = run(DEPLOY / script, *words, *(("--root", tmp_path / "root") if script.startswith("install") else ()))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr
    assert not (tmp_path / "root").exists()


def test_a_missing_archive_is_named(tmp_path: Path) -> None:
    done = run(DEPLOY / "make-provision-bundle", tmp_path, tmp_path / "out.tar.gz", "arm64")
    assert done.returncode == 1
    assert "lattice-arm64.tar.gz is missing; run `make archives`" in done.stderr
    assert not (tmp_path / "out.tar.gz").exists()
