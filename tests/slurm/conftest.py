"""One live cluster with the Slurm commands, shared by a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.cli.slurm.install import install
from lattice.testing import LocalCluster
from tests.slurm.live import Commands

NODES = 4


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    folder = tmp_path_factory.mktemp("programs")
    install(folder)
    home = tmp_path_factory.mktemp("home")
    home.chmod(0o777)
    with LocalCluster(nodes=NODES, arguments=["--node-cpus", "4"]) as cluster:
        yield Commands(cluster, Path(folder), home)
