"""The files that install a whole cluster are read by the parsers of the programs that they are for, and fit the programs of this release."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from lattice.config.load import load
from lattice.config.schema import ServerConfig
from tests.conftest import require_program

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = DEPLOY / "compose"
SERVERS = ("s1", "s2", "s3")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((COMPOSE / "compose.yaml").read_text()))


def test_compose_starts_three_servers_and_a_store_and_every_file_it_mounts_is_there(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert set(services) == {*SERVERS, "invite", "victoria-metrics"}
    made_by_hand = {"hmac-secret"}
    for service in services.values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            if source.startswith("./"):
                name = source.removeprefix("./")
                assert name in made_by_hand or (COMPOSE / name).is_file(), name
            else:
                assert source in compose["volumes"], source
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), port


@pytest.mark.parametrize("name", SERVERS)
def test_the_servers_of_compose_have_configurations_that_fit_its_network(compose: dict[str, Any], name: str) -> None:
    config = load(COMPOSE / f"{name}.yaml", ServerConfig)
    (peer,) = config.quorum.peers
    address = compose["services"][name]["networks"]["servers"]["ipv4_address"]
    assert (config.name, peer.name) == (name, name)
    assert (peer.client, peer.peer) == (f"{address}:2379", f"{address}:2380")
    assert compose["services"][name]["hostname"] == name


def test_compose_uses_flags_that_the_programs_have(compose: dict[str, Any]) -> None:
    lines = [word for service in compose["services"].values() for word in service.get("entrypoint", [])]
    lines += [word for service in compose["services"].values() for word in service.get("command", [])]
    told = " ".join(lines)
    flags = {flag for flag in re.findall(r"(?<= )--[a-z-]+", told) if flag not in ("--out",)}
    program = str(Path(sys.executable).with_name("lattice-server"))
    helped = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    assert flags <= set(re.findall(r"--[a-z-]+", helped))
    assert "members add $$name --out" in told


@pytest.mark.soak
def test_packer_reads_its_file() -> None:
    require_program("packer")
    words = ["packer", "validate", "-syntax-only", "-var=project_id=p", "-var=bundle=b"]
    done = subprocess.run(
        [*words, DEPLOY / "gcp" / "packer" / "lattice-compute.pkr.hcl"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.soak
def test_terraform_reads_its_file_and_finds_it_in_its_own_form() -> None:
    require_program("terraform")
    plain = {**os.environ, "TF_CLI_CONFIG_FILE": os.devnull}
    done = subprocess.run(
        ["terraform", "fmt", "-check", "-diff", DEPLOY / "gcp" / "main.tf"],
        capture_output=True,
        text=True,
        env=plain,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
