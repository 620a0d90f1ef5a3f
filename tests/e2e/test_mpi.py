"""MPI programs without SSH: Debian's MPICH through `lattice launch` and `srun`, on nodes that are real processes."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.cli.slurm.install import install
from lattice.testing import LocalCluster, eventually
from tests.conftest import missing, require_program
from tests.e2e.launching import launched, rest_of

pytestmark = pytest.mark.e2e

NODES = 4
PROGRAMS = Path(__file__).parent / "programs"
PMI2_HEADER = Path("/usr/include/slurm/pmi2.h")


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, in a folder that every user can read."""
    compiler = require_program("mpicc.mpich")
    folder = tmp_path_factory.mktemp("mpi")
    for parent in (folder, folder.parent, folder.parent.parent):
        parent.chmod(parent.stat().st_mode | 0o055)
    program = folder / "mpi_walk"
    subprocess.run([compiler, "-o", program, PROGRAMS / "mpi_walk.c"], check=True, capture_output=True)
    return program


@pytest.fixture(scope="module")
def open_walk(walk: Path) -> Path:
    """The same program, built with Open MPI."""
    program = walk.with_name("openmpi_walk")
    line = [require_program("mpicc.openmpi"), "-o", str(program), str(PROGRAMS / "mpi_walk.c")]
    subprocess.run(line, check=True, capture_output=True)
    return program


@pytest.fixture(scope="module")
def mpi_cluster() -> Iterator[LocalCluster]:
    # An agent that is killed must be back before its node counts as lost, also on a busy machine.
    patient = {"node_agent.heartbeat_timeout_s": "60"}
    with LocalCluster(nodes=NODES, settings=patient, arguments=["--node-cpus", "4"]) as cluster:
        yield cluster


@pytest.fixture
def cluster(mpi_cluster: LocalCluster) -> Iterator[LocalCluster]:
    yield mpi_cluster
    mpi_cluster.wait_serving()
    mpi_cluster.post("/allocations/cancel", {"all_mine": True})
    for node in mpi_cluster.nodes():
        mpi_cluster.wait_node(node, "Ready")


@pytest.fixture
def alloc(cluster: LocalCluster) -> str:
    submitted = cluster.submit(["sleep", "600"], resources={"nodes": NODES})
    cluster.wait_state(submitted["id"], "Running")
    return str(submitted["id"])


def run(cluster: LocalCluster, alloc: str, *words: str) -> "subprocess.CompletedProcess[str]":
    return cluster.cli("launch", "--alloc", alloc, *words, check=False, timeout_s=120)


def told(how: str, size: int, token: int = 0) -> list[str]:
    total = size * (size - 1) // 2
    return [f"{how} {rank} of {size} sum {total} token {token if rank == 0 else 0}" for rank in range(size)]


@pytest.mark.parametrize("layout", [("-N", "1", "-n", "4"), ("-n", "4"), ("-n", "6", "-m", "cyclic")])
def test_an_mpi_program_is_one_program_of_all_its_ranks(
    cluster: LocalCluster, alloc: str, walk: Path, layout: tuple[str, ...]
) -> None:
    done = run(cluster, alloc, *layout, str(walk), "hello")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == told("hello", int(layout[layout.index("-n") + 1]))


def test_messages_go_round_all_nodes(cluster: LocalCluster, alloc: str, walk: Path) -> None:
    done = run(cluster, alloc, "-n", "8", str(walk), "ring")
    assert done.returncode == 0, done.stderr
    first = next(line for line in done.stdout.splitlines() if line.startswith("ring 0 "))
    assert first == "ring 0 of 8 sum 28 token 8"


def test_the_code_of_an_abort_is_the_steps(cluster: LocalCluster, alloc: str, walk: Path) -> None:
    done = run(cluster, alloc, "-n", "4", str(walk), "abort")
    assert done.returncode == 7, done.stderr
    assert "task 1 on n2: exited with code 7" in done.stderr


def test_a_rank_that_fails_is_named_and_no_other_is_left(cluster: LocalCluster, alloc: str, walk: Path) -> None:
    done = run(cluster, alloc, "-n", "4", str(walk), "exit")
    assert done.returncode == 9, done.stderr
    assert "task 1 on n2: exited with code 9" in done.stderr
    assert not processes_of(walk)


def test_a_rank_that_never_comes_is_named_after_the_time_out(cluster: LocalCluster, alloc: str, walk: Path) -> None:
    done = run(cluster, alloc, "-n", "4", "--fence-timeout", "8s", str(walk), "late")
    assert done.returncode == 128 + signal.SIGKILL
    assert "PMI fence timeout: waited for rank 1 on n2" in done.stderr
    assert not processes_of(walk)


def test_a_fence_does_not_wait_for_ranks_that_have_ended(cluster: LocalCluster, alloc: str, walk: Path) -> None:
    done = run(cluster, alloc, "-n", "4", str(walk), "leave")
    assert done.returncode == 128 + signal.SIGKILL
    assert "rank 1 on n2 ended while others waited in a PMI fence" in done.stderr
    assert not processes_of(walk)


@pytest.mark.parametrize(("victim", "said"), [("rank", "killed by signal 9 (SIGKILL)"), ("shim", "task 3 on n4: lost")])
def test_a_rank_or_a_shim_that_is_killed_ends_the_step_and_the_ranks_are_named(
    cluster: LocalCluster, alloc: str, walk: Path, scratch: Path, victim: str, said: str
) -> None:
    with launched(cluster, alloc, "-n", "4", str(walk), "wait", str(scratch / "never")) as step:
        assert step.stdout is not None
        for _ in range(4):
            step.stdout.readline()
        if victim == "shim":
            cluster.wait_replaced(cluster.kill("shim", "n4"))
        else:
            os.kill(processes_of(walk)[0], signal.SIGKILL)
        _, errors = rest_of(step)
    assert step.returncode != 0
    assert said in errors
    eventually(lambda: not processes_of(walk), "no rank is left")


def test_a_program_that_wants_to_start_others_is_told_that_it_cannot(
    cluster: LocalCluster, alloc: str, walk: Path, open_walk: Path, pmix: list[str]
) -> None:
    alone = run(cluster, alloc, "-n", "2", str(walk), "spawn")
    assert alone.returncode != 0
    assert "Comm_spawn" in alone.stderr  # Debian's MPICH does not ask, and names the call itself
    asked = run(cluster, alloc, "-n", "2", *pmix, str(open_walk), "spawn")
    assert asked.returncode != 0
    assert "warning: a rank called MPI_Comm_spawn, which is not supported" in asked.stderr


def test_the_list_of_steps_tells_how_ranks_found_each_other_while_they_run_and_after(
    cluster: LocalCluster, alloc: str, walk: Path, scratch: Path
) -> None:
    def told_of_it() -> str:
        found = cluster.get(f"/allocations/{alloc}/steps")["items"]
        told = r"pmi1: 4 ranks, \d+ fences, [\d,]+ bytes exchanged, slowest fence [\d.]+ ms"
        return next((str(step["state"]) for step in found if re.fullmatch(told, step["message"])), "")

    with launched(cluster, alloc, "-n", "4", str(walk), "wait", str(scratch / "go")) as step:
        eventually(lambda: told_of_it() == "running", "the figures of all four nodes")
        assert "pmi1: 4 ranks, " in cluster.cli("steps", alloc).stdout
        (scratch / "go").touch()
        assert rest_of(step)[1] == ""
    eventually(lambda: told_of_it() == "ended", "the step's record")


def test_without_pmi_each_task_is_a_program_of_one_rank(cluster: LocalCluster, alloc: str, walk: Path) -> None:
    done = run(cluster, alloc, "-n", "2", "--pmi", "none", str(walk))
    assert (done.returncode, done.stdout) == (0, "hello 0 of 1 sum 0 token 0\n" * 2)


def test_ranks_that_never_met_are_warned_of(cluster: LocalCluster, alloc: str, open_walk: Path) -> None:
    done = run(cluster, alloc, "-n", "2", "--pmi", "pmi2", str(open_walk))
    assert (done.returncode, done.stdout) == (0, "hello 0 of 1 sum 0 token 0\n" * 2)
    assert "warning: 2 tasks ran as 2 programs of one rank each: they loaded libmpi.so" in done.stderr
    assert "Open MPI needs PMIx" in done.stderr
    assert run(cluster, alloc, "-n", "2", "sleep", "0.5").stderr == ""


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("--pmi", "pmi3", "true"), 1, "use auto, pmi1, pmi2, pmix or none"),
        (("--fence-timeout", "soon", "true"), 1, "soon"),
    ],
)
def test_what_is_not_there_is_refused_by_name(
    cluster: LocalCluster, alloc: str, words: tuple[str, ...], code: int, why: str
) -> None:
    done = run(cluster, alloc, *words)
    assert (done.returncode, why in done.stderr) == (code, True), done.stderr


def test_a_program_of_another_protocol_than_the_one_asked_for_is_told(
    cluster: LocalCluster, alloc: str, walk: Path
) -> None:
    done = run(cluster, alloc, "-n", "2", "--pmi", "pmi2", str(walk))
    assert done.returncode != 0
    assert "speaks PMI-1; the step was launched with --pmi=pmi2: leave that out" in done.stderr


def test_programs_of_slurms_pmi2_library_exchange_keys(cluster: LocalCluster, alloc: str, walk: Path) -> None:
    if not PMI2_HEADER.exists():
        missing("libpmi2-0-dev")
    program = walk.with_name("pmi2_walk")
    line = [require_program("cc"), "-o", str(program), str(PROGRAMS / "pmi2_walk.c"), "-lpmi2"]
    subprocess.run(line, check=True, capture_output=True)
    done = run(cluster, alloc, "-n", "4", str(program))
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == [
        f"{rank} of 4: address;of={other}" for rank in range(4) for other in range(4)
    ]


# All nodes are one host here: ranks of different ones may not share memory.
APART = {"OMPI_MCA_btl": "self,tcp", "OMPI_MCA_pml": "ob1"}


@pytest.fixture(scope="module")
def pmix(mpi_cluster: LocalCluster, open_walk: Path) -> list[str]:
    """Flags for a program of Open MPI; the nodes have PMIx wherever libpmix and its headers are."""
    require_program("cc")
    if not list(Path("/usr/lib").glob("*/pmix2/include/pmix.h")):
        missing("libpmix-dev")
    assert all("pmix" in node["features"] for node in mpi_cluster.nodes().values())
    return [word for name, value in APART.items() for word in ("--env", f"{name}={value}")]


def test_programs_of_open_mpi_are_one_program_of_all_their_ranks(
    cluster: LocalCluster, alloc: str, open_walk: Path, pmix: list[str]
) -> None:
    done = run(cluster, alloc, "-n", "6", *pmix, str(open_walk), "ring")
    assert done.returncode == 0, done.stderr
    assert "ring 0 of 6 sum 15 token 6" in done.stdout
    wordy = ("--env", "OMPI_MCA_hwloc_base_verbose=1")
    alone = run(cluster, alloc, "-N", "1", "-n", "2", "--pmi", "pmix", *wordy, *pmix, str(open_walk), "hello")
    assert (alone.returncode, sorted(alone.stdout.splitlines())) == (0, told("hello", 2))
    assert alone.stderr.count("loading topology from XML") == 2  # they do not look for themselves
    aborted = run(cluster, alloc, "-n", "4", "--pmi", "pmix", *pmix, str(open_walk), "abort")
    assert aborted.returncode == 7, aborted.stderr
    assert not processes_of(open_walk)


FLOOD = """
import os, socket
port = int(next(value for name, value in os.environ.items() if name.startswith("PMIX_SERVER_URI")).rpartition(":")[2])
while True:
    with socket.create_connection(("127.0.0.1", port)) as caller:
        try:
            while True:
                caller.sendall(os.urandom(1 << 20))
        except OSError:
            pass
"""


def test_a_rank_that_floods_the_pmix_server_ends_its_step_and_disturbs_no_other(
    cluster: LocalCluster, alloc: str, open_walk: Path, pmix: list[str]
) -> None:
    flood = run(cluster, alloc, "-N", "1", "-n", "1", "--pmi", "pmix", sys.executable, "-c", FLOOD)
    assert flood.returncode != 0
    assert re.search(r"PMIx on n\d: \d+ connections of its ranks did not speak PMIx", flood.stderr), flood.stderr
    beside = run(cluster, alloc, "-n", "4", *pmix, str(open_walk), "ring")
    assert "ring 0 of 4 sum 6 token 4" in beside.stdout, beside.stderr


def test_mpi4py_is_one_program_of_all_its_ranks(cluster: LocalCluster, alloc: str, pmix: list[str]) -> None:
    """Debian's is built with Open MPI."""
    if not Path("/usr/lib/python3/dist-packages/mpi4py").exists():
        missing("python3-mpi4py")
    code = "from mpi4py import MPI; c = MPI.COMM_WORLD; print(c.rank, c.size, c.allreduce(c.rank))"
    done = run(cluster, alloc, "-n", "2", *pmix, "/usr/bin/python3", "-c", code)
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, ["0 2 1", "1 2 1"]), done.stderr


def test_mpi4py_with_mpich_is_one_program_of_all_its_ranks(cluster: LocalCluster, alloc: str, scratch: Path) -> None:
    """That of PyPI takes the library that it is told to."""
    libraries = list(Path("/usr/lib").glob("*/libmpich.so.12"))
    if not libraries or importlib.util.find_spec("mpi4py") is None:
        missing("mpi4py, or MPICH")
    (scratch / "libmpi.so.12").symlink_to(libraries[0])
    code = "from mpi4py import MPI; c = MPI.COMM_WORLD; print(MPI.Get_library_version()[:5], c.rank, c.size, c.allreduce(c.rank))"
    variables = ("--env", "MPI4PY_MPIABI=mpich", "--env", f"LD_LIBRARY_PATH={scratch}")
    done = run(cluster, alloc, "-n", "4", *variables, sys.executable, "-c", code)
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, [f"MPICH {rank} 4 6" for rank in range(4)]), (
        done.stderr
    )


def test_a_rank_of_open_mpi_that_never_comes_is_named(
    cluster: LocalCluster, alloc: str, open_walk: Path, pmix: list[str]
) -> None:
    done = run(cluster, alloc, "-n", "4", "--fence-timeout", "5s", *pmix, str(open_walk), "late")
    assert "PMI fence timeout: waited for rank 1 on n2" in done.stderr
    assert not processes_of(open_walk)


def test_srun_runs_programs_of_open_mpi(
    cluster: LocalCluster, open_walk: Path, pmix: list[str], tmp_path: Path
) -> None:
    programs = install(tmp_path).parent
    line = [str(programs / "srun"), "-N", "2", "-n", "2", "--mpi=pmix", str(open_walk), "hello"]
    environment = cluster.environment() | APART
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, told("hello", 2)), done.stderr


def test_srun_runs_mpi_programs_and_lists_what_it_knows(cluster: LocalCluster, walk: Path, tmp_path: Path) -> None:
    programs = install(tmp_path).parent
    environment = cluster.environment()
    environment["PATH"] = f"{programs}:{environment.get('PATH', '/usr/bin:/bin')}"

    def srun(*words: str) -> "subprocess.CompletedProcess[str]":
        line = ["srun", *words]
        return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120, check=False)

    done = srun("-N", "2", "-n", "4", "--mpi=pmi1", str(walk), "hello")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == told("hello", 4)
    assert srun("--mpi=list").stdout.split() == ["MPI", "plugin", "types", "are...", "none", "pmi1", "pmi2", "pmix"]


def script_of(cluster: LocalCluster, line: str, **variables: str) -> tuple[int, str, set[str]]:
    """Exit code and output of a script on all nodes, and the nodes that its steps used."""
    ended = cluster.run(["sh", "-c", line], resources={"nodes": NODES}, environment=variables, within_s=120)
    steps = cluster.get(f"/allocations/{ended['id']}/steps")["items"]
    used = {node for step in steps for node in step["nodes"]}
    return int(ended["exit_code"]), cluster.logs(ended["id"]), used


def test_mpiexec_in_a_script_uses_all_nodes_of_the_allocation(cluster: LocalCluster, walk: Path) -> None:
    mpiexec = require_program("mpiexec.hydra")
    line = f"{mpiexec} -n 4 -ppn 1 {walk} ring && {mpiexec} -n 2 -ppn 1 {walk} abort"
    code, output, used = script_of(cluster, line)
    assert code == 7
    assert "ring 0 of 4 sum 6 token 4" in output
    assert used == {"n1", "n2", "n3", "n4"}


def test_mpirun_of_open_mpi_in_a_script_uses_all_nodes_of_the_allocation(
    cluster: LocalCluster, open_walk: Path
) -> None:
    mpirun = require_program("mpirun.openmpi")
    # Slurm's variables must not lead it astray.
    asked = {"OMPI_MCA_btl": "self,tcp", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    line = f"SLURM_JOBID=1 SLURM_NODELIST=elsewhere {mpirun} -n 4 --map-by node {open_walk} ring"
    code, output, used = script_of(cluster, line, **asked)
    assert code == 0
    assert "ring 0 of 4 sum 6 token 4" in output
    assert used == {"n1", "n2", "n3", "n4"}


def test_mpiexec_ends_when_a_node_cannot_be_reached(cluster: LocalCluster, walk: Path) -> None:
    mpiexec = require_program("mpiexec.hydra")
    code, output, used = script_of(cluster, f"{mpiexec} -hosts n2,n9 -n 2 {walk} hello 2>&1")
    assert code not in (0, 124), output
    assert "n9" in output
    assert "hello" not in output
    assert "n9" not in used


def test_the_launcher_refuses_what_ssh_would_do_and_it_does_not(cluster: LocalCluster) -> None:
    line = "lattice-mpi-launcher -x n2 echo '\"$LATTICE_NODE_ID\"' ${RANK-none}; exit $(lattice-mpi-launcher n3 exit 5; echo $?)"
    code, output, used = script_of(cluster, line)
    assert (code, output, used) == (5, "n2 none\n", {"n2", "n3"})
    code, output, _ = script_of(cluster, "lattice-mpi-launcher -l root n2 true 2>&1")
    assert (code, "unknown option -l" in output) == (255, True)


@pytest.mark.parametrize("victim", ["agent", "server"])
def test_an_mpi_program_goes_on_without_agent_and_server(
    cluster: LocalCluster, alloc: str, walk: Path, scratch: Path, victim: str
) -> None:
    gate = scratch / "go"
    with launched(cluster, alloc, "-n", "4", str(walk), "wait", str(gate)) as step:
        assert step.stdout is not None
        first = [step.stdout.readline() for _ in range(4)]
        killed = cluster.kill(victim)
        if victim == "agent":
            cluster.wait_replaced(killed)
        cluster.wait_serving()
        gate.touch()
        _, errors = rest_of(step)
    assert step.returncode == 0, errors
    assert sorted(line.strip() for line in first) == told("wait", 4)


def test_the_key_of_a_launch_is_in_no_argument_and_no_environment(
    cluster: LocalCluster, alloc: str, walk: Path, scratch: Path
) -> None:
    gate = scratch / "go"
    with launched(cluster, alloc, "-n", "4", str(walk), "wait", str(gate)) as step:
        assert step.stdout is not None
        for _ in range(4):
            step.stdout.readline()
        pids = processes_of(walk)
        variables = b"".join(Path(f"/proc/{pid}/environ").read_bytes() for pid in pids)
        names = sorted({entry.partition(b"=")[0].decode() for entry in variables.split(b"\0") if b"PMI" in entry})
        gate.touch()
        rest_of(step)
    assert len(pids) == 4
    plain = [name for name in names if not name.startswith(("PMIX_", "MPIR_CVAR_"))]
    assert plain == ["PMI_FD", "PMI_JOBID", "PMI_RANK", "PMI_SIZE", "PMI_SPAWNED"]


def test_tasks_get_an_address_to_meet_at(cluster: LocalCluster, alloc: str) -> None:
    script = "echo $RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR $MASTER_PORT"
    done = run(cluster, alloc, "-N", "2", "-n", "4", "sh", "-c", script)
    rows = sorted(line.split() for line in done.stdout.splitlines())
    assert [row[:3] for row in rows] == [["0", "4", "0"], ["1", "4", "1"], ["2", "4", "0"], ["3", "4", "1"]]
    assert {tuple(row[3:]) for row in rows} == {("127.0.0.1", rows[0][4])}
    own = run(cluster, alloc, "-n", "1", "--env", "MASTER_PORT=99", "sh", "-c", "echo $MASTER_ADDR $MASTER_PORT")
    assert own.stdout.split() == ["99"]


def processes_of(program: Path) -> list[int]:
    """Processes that execute the program."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(folder / "exe") == str(program):
                found.append(int(folder.name))
        except OSError:
            continue
    return found
