"""Recipes of applications: what a file may say, which of several wins, and the script that starts one."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lattice.cli.errors import INTERRUPTED, CommandError
from lattice.cli.ports import catalogue
from lattice.cli.ports.catalogue import Recipe, load, script_of
from tests.unit.cli.runner import Cli, allocation
from tests.unit.sdk.fake_api import FakeApi, Reply


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(catalogue, "SITE", tmp_path / "site")
    folder = tmp_path / "lattice" / "apps"
    folder.mkdir(parents=True)
    (tmp_path / "site").mkdir()
    return folder


def loaded(own: Path) -> dict[str, Recipe]:
    return load({"XDG_CONFIG_HOME": str(own.parent.parent)})


def test_the_site_adds_and_the_user_replaces(own: Path) -> None:
    (catalogue.SITE / "site-app.yaml").write_text("command: exec thing\n")
    (catalogue.SITE / "jupyter.yaml").write_text("command: of the site\n")
    (own / "jupyter.yaml").write_text("command: of the user\n")
    found = loaded(own)
    assert list(found) == ["code-server", "jupyter", "site-app", "tensorboard"]
    assert found["jupyter"].command == "of the user"
    assert load({"HOME": "/nowhere"})["jupyter"].command == "of the site"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("x", "command: [1]\n", "not a recipe"),
        ("x", "command: a\nidel: 1h\n", "unknown field `idel`"),
        ("x", "help: nothing to run\n", "command"),
        ("x", "command: x\nidle: 10\n", "idle"),
        ("x", "{", "not a recipe"),
        ("x", "command: x\nprobe: icmp\n", "icmp"),
        ("Bad Name", "command: x\n", "not the name"),
        ("x", "#" * (catalogue.MAX_BYTES + 1), "too large"),
    ],
)
def test_a_file_that_is_no_recipe_is_named(own: Path, name: str, text: str, told: str) -> None:
    (own / f"{name}.yaml").write_text(text)
    with pytest.raises(CommandError, match=told):
        loaded(own)


@pytest.mark.parametrize(
    ("flags", "sent"), [((), "2h"), (("--idle-end=30m",), "30m")], ids=["of the recipe", "of the flag"]
)
def test_an_application_is_cancelled_when_idle_as_its_recipe_or_the_flag_says(
    own: Path, api: FakeApi, cli: Cli, flags: tuple[str, ...], sent: str
) -> None:
    (own / "page.yaml").write_text("command: exec page\nidle: 2h\n")
    cli.environment["XDG_CONFIG_HOME"] = str(own.parent.parent)
    api.on("POST", "/allocations", Reply(status=201, json=allocation(state="Pending")))
    api.on("GET", "/allocations/a17", Reply(json=allocation(state="Pending")))
    outcome = cli("app", "run", "--new", *flags, "page")
    assert outcome.code == INTERRUPTED, outcome.err
    assert next(each.json for each in api.asked if each.method == "POST")["idle_end"] == sent


def test_the_script_leaves_port_and_token_for_the_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "FOLDER", f"{tmp_path}/app-$LATTICE_ALLOC_ID")
    recipe = Recipe(command='echo "$LATTICE_APP_PORT $LATTICE_APP_TOKEN $LATTICE_APP_PROGRAM"', programs=["nope", "sh"])
    environment = {"PATH": "/usr/bin:/bin", "LATTICE_ALLOC_ID": "a1"}

    def started(script: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(["/bin/sh", "-c", script], env=environment, capture_output=True, text=True, check=False)

    said = started(script_of(recipe)).stdout.split()
    file = tmp_path / "app-a1" / "app"
    assert (file.read_text().split(), said[2], len(said[1])) == (said[:2], "sh", 48)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    again = started(script_of(recipe)).stdout.split()
    assert again[1] != said[1]
    assert 20_000 <= int(again[0]) < 32_768, "no connection that goes out can take it"
    missing = started(script_of(Recipe(command="true", programs=["nope"])))
    assert (missing.returncode, "not installed here: nope" in missing.stderr) == (catalogue.MISSING, True)
    file.parent.rename(tmp_path / "elsewhere")
    file.parent.symlink_to(tmp_path / "elsewhere")
    assert started(script_of(recipe)).returncode == 73


def test_what_another_run_or_cluster_left_for_the_same_id_is_not_read() -> None:
    """The terminal may look before the script has come as far as its folder."""
    environments = [
        {"PATH": "/usr/bin:/bin", "LATTICE_ALLOC_ID": "a0", "LATTICE_RUN": run, catalogue.KEY: f"{key}-{os.getpid()}"}
        for run, key in (("1", "x"), ("2", "x"), ("1", "y"))
    ]
    folders = [Path(printed(f'echo "{catalogue.FOLDER}"', each)) for each in environments]
    try:
        for environment, folder in zip(environments, folders, strict=True):
            assert not folder.exists()
            said = printed(script_of(Recipe(command='echo "$LATTICE_APP_PORT $LATTICE_APP_TOKEN"')), environment)
            assert printed(catalogue.FIND, environment) == said
        assert len(set(folders)) == 3
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    old = {"LATTICE_ALLOC_ID": "a0", "LATTICE_RUN": "1"}
    assert printed(f'echo "{catalogue.FOLDER}"', old) == "/tmp/lattice-app-a0", "where earlier releases left it"


def printed(script: str, environment: dict[str, str]) -> str:
    done = subprocess.run(["/bin/sh", "-c", script], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()
