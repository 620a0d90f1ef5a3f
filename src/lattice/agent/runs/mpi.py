"""What `mpiexec` and `mpirun` need to use all nodes of an allocation: host files, and a program in the place of ssh.

Only the script of an allocation of several nodes gets them. See docs/guide/mpi.md.
"""

import os
from pathlib import Path

from lattice.agent.runs.folders import write_new
from lattice.ports.nodes.agents import StartOrder

LAUNCHER = "lattice-mpi-launcher"
HYDRA_HOSTS = "hosts.hydra"
OPEN_MPI_HOSTS = "hosts.openmpi"
# Set for the script, and never taken from a submission: in a script that submits another one they name its own nodes.
NAMES = frozenset(
    {
        "HYDRA_LAUNCHER",
        "HYDRA_LAUNCHER_EXEC",
        "HYDRA_HOST_FILE",
        "HYDRA_RMK",
        "OMPI_MCA_plm",
        "OMPI_MCA_plm_rsh_agent",
        "OMPI_MCA_ras",
        "OMPI_MCA_orte_default_hostfile",
        "PRTE_MCA_plm",
        "PRTE_MCA_plm_ssh_agent",
        "PRTE_MCA_ras",
        "PRTE_MCA_prte_default_hostfile",
    }
)
NOTICE_S = 2  # within this mpiexec notices by itself that a proxy which had reached it is gone
# As ssh: the words become one line for the user's shell. What a step says about its one task is not meant for the ranks below it.
# Hydra's mpiexec does not watch its launchers: it waits for ever for a proxy that was never started, and is stopped then.
SCRIPT = f"""#!/bin/sh
# {LAUNCHER} [-x] HOST COMMAND...
# Runs a command on a node of this allocation, in the way that ssh is called by mpiexec and mpirun.
begun() {{ cut -d" " -f22 "/proc/$PPID/stat" 2>/dev/null; }}
leave() {{
    first=$(begun)
    case "$1$(cat "/proc/$PPID/comm" 2>/dev/null)" in
        0*) ;;
        *mpiexec*|*mpirun*) (sleep {NOTICE_S}; [ "$(begun)" = "${{first:-gone}}" ] && kill -TERM $PPID) </dev/null >/dev/null 2>&1 & ;;
    esac
    exit "$1"
}}
fail() {{ echo "{LAUNCHER}: $*" >&2; leave 255; }}
while [ $# -gt 0 ]; do
    case "$1" in
        -x|-X|-n|-q|-T) shift ;;
        --) shift; break ;;
        -*) fail "unknown option $1; usage: {LAUNCHER} [-x] HOST COMMAND..." ;;
        *) break ;;
    esac
done
[ $# -ge 2 ] || fail "usage: {LAUNCHER} [-x] HOST COMMAND..."
[ -n "$LATTICE_ALLOC_ID" ] || fail "not inside an allocation; use it in a script, or \\`lattice launch --alloc ID\\`"
host="$1"; shift
case "$SHELL" in
    */csh|*/tcsh) shell="$SHELL" ;;
    *) shell=/bin/sh ;;
esac
"${{0%/*}}/lattice" launch --nodelist "$host" --nodes 1 --ntasks 1 --overlap --pmi none --input none \\
    env -u PMI_RANK -u PMI_SIZE -u PMI_SPAWNED -u RANK -u WORLD_SIZE -u LOCAL_RANK -u MASTER_ADDR -u MASTER_PORT \\
    "$shell" -c "$*" &
launch=$!
trap 'kill -TERM $launch 2>/dev/null' HUP INT TERM
while :; do
    wait $launch
    code=$?
    kill -0 $launch 2>/dev/null || break
done
leave $code
"""


def offer_launcher(directory: Path) -> None:
    """Write the launcher beside our own commands; replaced as a whole, because it may be running."""
    path = directory / LAUNCHER
    if path.exists() and path.read_text() == SCRIPT and os.access(path, os.X_OK):
        return
    fresh = directory / f".{LAUNCHER}.{os.getpid()}"
    fresh.write_text(SCRIPT)
    fresh.chmod(0o755)
    fresh.replace(path)


def write_hosts(order: StartOrder, folder: str, owner: tuple[int, int]) -> None:
    """Host files of the run, in the forms of Hydra and of Open MPI."""
    pairs = list(zip(order.nodes, order.node_cpus, strict=True))
    hydra = "".join(f"{node}:{cpus}\n" for node, cpus in pairs)
    open_mpi = "".join(f"{node} slots={cpus}\n" for node, cpus in pairs)
    write_new(f"{folder}/{HYDRA_HOSTS}", hydra.encode(), 0o600, owner)
    write_new(f"{folder}/{OPEN_MPI_HOSTS}", open_mpi.encode(), 0o600, owner)


def launcher_variables(folder: str, programs: str) -> dict[str, str]:
    """For Hydra (MPICH), ORTE (Open MPI 4) and PRRTE (Open MPI 5). Where Slurm's variables are set, they do not ask its programs."""
    launcher = f"{programs}/{LAUNCHER}"
    return {
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXEC": launcher,
        "HYDRA_HOST_FILE": f"{folder}/{HYDRA_HOSTS}",
        "HYDRA_RMK": "user",
        "OMPI_MCA_plm": "rsh",
        "OMPI_MCA_plm_rsh_agent": launcher,
        "OMPI_MCA_ras": "^slurm",
        "OMPI_MCA_orte_default_hostfile": f"{folder}/{OPEN_MPI_HOSTS}",
        "PRTE_MCA_plm": "ssh",
        "PRTE_MCA_plm_ssh_agent": launcher,
        "PRTE_MCA_ras": "^slurm",
        "PRTE_MCA_prte_default_hostfile": f"{folder}/{OPEN_MPI_HOSTS}",
    }
