"""What `mpiexec` and `mpirun` find in the environment of a script."""

import os
from pathlib import Path

from lattice.agent.runs.folders import RunFolders
from lattice.agent.runs.launch import AccountPolicy, own_account, prepare
from lattice.agent.runs.mpi import NAMES
from lattice.ports.nodes.agents import RunKey, StartOrder

LEAKED = {"HYDRA_HOST_FILE": "/of/another/run", "OMPI_MCA_plm": "slurm"}


def environment_of(tmp_path: Path, **fields: object) -> dict[str, str]:
    uid, user = own_account()
    order = StartOrder(key=RunKey(7, 1), user=user, argv=("true",), env=dict(LEAKED), **fields)  # type: ignore[arg-type]
    policy = AccountPolicy(agent_uid=uid, agent_user=user, allowed=frozenset({user}))
    request = prepare(order, RunFolders(tmp_path, reachable=False), policy, "n1", "shim", "/programs")
    environment = request["env"]
    assert isinstance(environment, dict)
    return environment


def test_the_script_of_several_nodes_gets_host_files_and_our_launcher(tmp_path: Path) -> None:
    environment = environment_of(tmp_path, nodes=("n1", "n2"), node_cpus=(4, 8))
    assert environment.keys() >= NAMES
    assert environment["HYDRA_LAUNCHER_EXEC"] == "/programs/lattice-mpi-launcher"
    assert Path(environment["HYDRA_HOST_FILE"]).read_text() == "n1:4\nn2:8\n"
    assert Path(environment["OMPI_MCA_orte_default_hostfile"]).read_text() == "n1 slots=4\nn2 slots=8\n"
    assert os.stat(environment["HYDRA_HOST_FILE"]).st_uid == os.geteuid()


def test_the_script_of_one_node_gets_nothing_and_nothing_of_another_run(tmp_path: Path) -> None:
    environment = environment_of(tmp_path, nodes=("n1",))
    assert not environment.keys() & NAMES
    assert sorted(os.listdir(tmp_path / "runs" / "7.1")) == ["spec.json"]
