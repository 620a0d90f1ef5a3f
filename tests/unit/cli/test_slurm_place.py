"""Where the Slurm programs find the cluster without asking for long, and when they leave it to the library."""

import json
from pathlib import Path

import pytest

from lattice.cli.slurm.install import install
from lattice.cli.slurm.place import quick_place


def local(folder: Path, url: str = "http://127.0.0.1:8080") -> dict[str, str]:
    (folder / "cluster.json").write_text(json.dumps({"processes": [], "api_url": url}, indent=1))
    (folder / "token").write_text("secret\n")
    return {"LATTICE_DIR": str(folder), "HOME": str(folder)}


def configured(folder: Path, text: str) -> dict[str, str]:
    (folder / ".config" / "lattice").mkdir(parents=True, exist_ok=True)
    (folder / ".config" / "lattice" / "config.yaml").write_text(text)
    return {"HOME": str(folder), "LATTICE_TOKEN": "t"}


def test_variables_come_first(tmp_path: Path) -> None:
    variables = {
        **local(tmp_path),
        "LATTICE_API_URL": "localhost:1, http://127.0.0.2:2/",
        "LATTICE_TOKEN": "t",
        "LATTICE_TENANT": "x",
    }
    place = quick_place(variables)
    assert place is not None
    assert (place.endpoints, place.token, place.tenant) == (("http://localhost:1", "http://127.0.0.2:2"), "t", "x")


@pytest.mark.parametrize("url", ["http://a:1", "a:1", "http://127.evil.example:1", "http://localhost.evil.example:1"])
def test_plain_http_to_other_machines_is_left_to_the_library_unless_asked_for(tmp_path: Path, url: str) -> None:
    variables = {"HOME": str(tmp_path), "LATTICE_API_URL": url, "LATTICE_TOKEN": "t"}
    assert quick_place(variables) is None
    assert quick_place({**variables, "LATTICE_INSECURE_HTTP": "1"}) is not None


def test_the_local_cluster_is_found_with_its_token(tmp_path: Path) -> None:
    place = quick_place(local(tmp_path))
    assert place is not None
    assert (place.endpoints, place.token) == (("http://127.0.0.1:8080",), "secret")


def test_the_local_token_is_for_the_local_cluster_alone(tmp_path: Path) -> None:
    assert quick_place({**local(tmp_path), "LATTICE_API_URL": "http://elsewhere:1"}) is None


def test_a_plain_configuration_file_is_read(tmp_path: Path) -> None:
    place = quick_place(configured(tmp_path, "# mine\nendpoint: http://127.0.0.1:1\ntenant: physics\ncolor: false\n\n"))
    assert place is not None
    assert (place.endpoints, place.tenant) == (("http://127.0.0.1:1",), "physics")


@pytest.mark.parametrize(
    "text",
    [
        'endpoint: "http://h:1"\n',
        "endpoint: [http://h:1]\n",
        "endpoint:\n  - http://h:1\n",
        "endpoint: http://h:1 # here\n",
        "endpoint: https://h:1\n",
        "ca_file: /x\nendpoint: http://h:1\n",
    ],
)
def test_what_says_more_is_left_to_the_library(tmp_path: Path, text: str) -> None:
    assert quick_place(configured(tmp_path, text)) is None


def test_without_a_cluster_or_token_nothing_is_guessed(tmp_path: Path) -> None:
    assert quick_place({"HOME": str(tmp_path)}) is None
    assert quick_place({"HOME": str(tmp_path), "LATTICE_API_URL": "http://h:1"}) is None
    assert (
        quick_place({"HOME": str(tmp_path), "LATTICE_CONFIG": "/x", "LATTICE_API_URL": "h:1", "LATTICE_TOKEN": "t"})
        is None
    )


def test_without_a_compiler_the_programs_are_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    aliases = install(tmp_path / "plain")
    sbatch = aliases.with_name("sbatch")
    assert sbatch.read_text().startswith("#!")
    assert not sbatch.is_symlink()
    assert sbatch.stat().st_mode & 0o111 == 0o111
    before = sbatch.stat().st_mtime_ns
    install(tmp_path / "plain")
    assert sbatch.stat().st_mtime_ns == before, "twice is harmless"
