"""Man pages for all components: there for every command, every daemon and every file, and good to render."""

import subprocess
import tomllib
from pathlib import Path

from lattice.cli.registry import leaves
from lattice.cli.slurm.install import PROGRAMS
from tests.conftest import require_program

PAGES = Path(__file__).resolve().parents[2] / "share" / "man"


def test_every_command_daemon_and_file_has_a_page() -> None:
    commands = {"-".join(("lattice", *words)) for words, leaf in leaves() if not leaf.is_hidden}
    programs = tomllib.loads((PAGES.parents[1] / "pyproject.toml").read_text())["project"]["scripts"]
    wanted = {f"{name}.1" for name in (*commands, *programs)}
    assert {path.name for path in (PAGES / "man1").iterdir()} == wanted
    assert {path.name for path in (PAGES / "man5").iterdir()} == {
        "SlurmConf.5",
        "NodeSpecConf.5",
        "PartitionConf.5",
        "lattice-server.yaml.5",
        "lattice-agent.yaml.5",
        "lattice-config.5",
    }
    assert {path.name for path in (PAGES / "man7").iterdir()} == {"lattice-slurm.7"}


def test_every_key_of_a_server_and_every_slurm_command_is_on_a_page() -> None:
    told = (PAGES / "man5" / "lattice-server.yaml.5").read_text().replace("\\-", "-")
    for key in ("data_dir", "hmac_secret", "cluster_name", "heartbeat_timeout_s", "otlp_endpoint"):
        assert f"\\fB{key}\\fR" in told
    commands = (PAGES / "man7" / "lattice-slurm.7").read_text()
    assert all(command in commands for command in PROGRAMS)


def test_the_pages_render_without_a_warning() -> None:
    require_program("groff")
    pages = sorted(map(str, PAGES.rglob("*.[157]")))
    outcome = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z", *pages], capture_output=True, text=True, check=False
    )
    assert (outcome.returncode, outcome.stderr) == (0, "")


def test_man_shows_what_a_command_takes() -> None:
    require_program("man")
    words = ["man", "--warnings", "-l", str(PAGES / "man1" / "lattice-nodes.1")]
    environment = {"PATH": "/usr/bin:/bin", "MANWIDTH": "100", "LC_ALL": "C.UTF-8"}
    outcome = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert "--sort FIELDS" in outcome.stdout
