"""MPI programs of ordinary users over four hosts and three servers: both libraries, every way to start them, and what goes wrong midway."""

import base64
import hmac
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.agent.shim.pmi.seal import ports as sealed_ports
from lattice.testing import eventually
from tests.conftest import missing, require_program
from tests.e2e.mpi_hosts import MpiHosts, person
from tests.e2e.open_programs import open_programs
from tests.e2e.quorum_load import wait_healthy
from tests.e2e.test_mpi import PROGRAMS, processes_of
from tests.image_files import MOUNT, make_image
from tests.oci_files import layer, make_layout

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.timeout(240)]

ADA, BOB = f"ada{os.getpid()}", f"bob{os.getpid()}"
PATIENCE = {"node_agent.heartbeat_timeout_s": "5", "node_agent.grace_period_s": "120"}
# Servers without TLS on other hosts; a host's own place for temporary files.
OPEN = ["--env", "LATTICE_INSECURE_HTTP=1", "--env", "TMPDIR=/dev/shm"]
RING = "ring 0 of 4 sum 6 token 4"
SYSTEM = ("usr", "etc", "etc/alternatives", "etc/openmpi", "opt", "proc", "sys", "dev", "tmp", "var", "run")


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    for program in ("etcd", "nsenter", "useradd", "mpicc.mpich", "mpicc.openmpi", "mksquashfs", "crun"):
        require_program(program)
    if not list(Path("/usr/lib").glob("*/pmix2/include/pmix.h")):
        missing("libpmix-dev")
    folder = Path(tempfile.mkdtemp(prefix="lattice-", dir="/var/tmp"))
    folder.chmod(0o755)
    for library in ("mpich", "openmpi"):
        line = [f"mpicc.{library}", "-o", str(folder / library), str(PROGRAMS / "mpi_walk.c")]
        subprocess.run(line, check=True, capture_output=True)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def ada(place: Path) -> Iterator[Path]:
    if not Path("/usr/lib/python3/dist-packages/mpi4py").exists() or importlib.util.find_spec("mpi4py") is None:
        missing("python3-mpi4py, or mpi4py")
    with person(ADA, place) as home:
        # The mpi4py of PyPI takes the library that it is told to.
        (home / "lib").mkdir()
        (home / "lib" / "libmpi.so.12").symlink_to(next(Path("/usr/lib").glob("*/libmpich.so.12")))
        yield home


@pytest.fixture(scope="module")
def bob(place: Path) -> Iterator[Path]:
    with person(BOB, place) as home:
        yield home


@pytest.fixture(scope="module")
def hosts(place: Path, ada: Path, bob: Path) -> Iterator[MpiHosts]:
    with open_programs() as programs, MpiHosts(programs, settings=PATIENCE) as cluster:
        subprocess.run(
            [programs / "lattice", "compat-aliases"], check=True, capture_output=True, env=cluster.environment()
        )
        cluster.put("/vclusters/default", {"node_sharing": "shared"})
        assert all("pmix" in node["features"] for node in cluster.nodes().values())
        yield cluster


@pytest.fixture
def alloc(hosts: MpiHosts, ada: Path) -> Iterator[str]:
    number = hosts.allocate(ADA, ada, "--nodes", "4", "--cpus", "2", "--requeue", "never")
    yield number
    if hosts.allocation(number)["state"] == "Running":
        hosts.delete(f"/allocations/{number}")
    hosts.wait_end(number, within_s=60)


@pytest.fixture
def gate(ada: Path) -> Iterator[Path]:
    """A file that ranks wait for; they are not root, and folders of pytest are their owner's alone."""
    yield ada / "go"
    (ada / "go").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def images(place: Path) -> dict[str, list[str]]:
    """Flags of a submission in each kind of environment; the programs are in /opt of the container and in bin of the uenv."""
    uenv = place / "mpi.squashfs"
    make_image(uenv, {"bin/greet": "#!/bin/sh\n"}, {"mount": MOUNT, "views": {}})
    entries: list[tuple[str, bytes | str | None]] = [(name, None) for name in SYSTEM]
    entries += [(name, f"-> usr/{name}") for name in ("bin", "lib", "lib64", "sbin")]
    entries += [(f"opt/{library}", (place / library).read_bytes()) for library in ("mpich", "openmpi")]
    make_layout(place / "oci", [layer(entries)], env={"PATH": "/usr/bin:/bin"})
    return {"bare": [], "uenv": ["--uenv", str(uenv)], "container": ["--image", f"oci:{place}/oci:v1"]}


# Ways to start both libraries; a line for each that did what it should. The second argument is `few` or `all`.
SCRIPT = r"""#!/bin/sh
bin=$1
check() { # NAME CODE TEXT COMMAND...
    name=$1 code=$2 text=$3; shift 3
    "$@" > "out.$name" 2>&1; got=$?
    if [ $got = $code ] && grep -q -- "$text" "out.$name"; then echo "$name ok"; else echo "$name: $got"; cat "out.$name"; fi
}
launch="lattice launch -n 4 -N 4" srun="SLURM/srun -n 4 -N 4" mpiexec="mpiexec.hydra -n 4 -ppn 1" mpirun="mpirun.openmpi -n 4 --map-by node"
check mpich.launch 0 "RING" $launch $bin/mpich ring
check openmpi.launch 0 "RING" $launch $bin/openmpi ring
check mpich.mpiexec 0 "RING" $mpiexec $bin/mpich ring
check openmpi.mpirun 0 "RING" $mpirun $bin/openmpi ring
check mpich.launch.abort 7 abort $launch $bin/mpich abort
check openmpi.srun.abort 7 abort $srun $bin/openmpi abort
[ $2 = few ] && exit
check mpich.srun 0 "RING" $srun $bin/mpich ring
check openmpi.srun 0 "RING" $srun $bin/openmpi ring
check mpich.mpiexec.abort 7 abort $mpiexec $bin/mpich abort
check openmpi.mpirun.abort 7 abort $mpirun $bin/openmpi abort
check openmpi.mpi4py 0 "3 of 4 sum 6 Open" $launch /usr/bin/python3 walk.py
check mpich.mpi4py 0 "3 of 4 sum 6 MPICH" $launch env MPI4PY_MPIABI=mpich LD_LIBRARY_PATH=HOME/lib PROGRAMS/python walk.py
"""
WALK = """from mpi4py import MPI
c = MPI.COMM_WORLD
print(f"{c.rank} of {c.size} sum {c.allreduce(c.rank)} {MPI.Get_library_version()}", flush=True)
"""
FEW = ["mpich.launch", "openmpi.launch", "mpich.mpiexec", "openmpi.mpirun", "mpich.launch.abort", "openmpi.srun.abort"]
REST = ["mpich.srun", "openmpi.srun", "mpich.mpiexec.abort", "openmpi.mpirun.abort", "openmpi.mpi4py", "mpich.mpi4py"]
WAYS = {"few": FEW, "all": [*FEW, *REST]}


@pytest.mark.parametrize(
    ("where", "which"),
    [
        ("bare", "all"),
        ("uenv", "few"),
        ("container", "few"),
        pytest.param("uenv", "all", marks=pytest.mark.soak),
        pytest.param("container", "all", marks=pytest.mark.soak),
    ],
)
def test_both_libraries_run_in_every_way(
    hosts: MpiHosts, ada: Path, place: Path, images: dict[str, list[str]], where: str, which: str
) -> None:
    script = ada / f"{where}.sh"
    # By its path: in a container the image decides about PATH.
    places = {"RING": RING, "SLURM": str(hosts.slurm), "HOME": str(ada), "PROGRAMS": str(hosts.programs)}
    text = SCRIPT
    for name, value in places.items():
        text = text.replace(name, value)
    script.write_text(text)
    script.chmod(0o755)
    (ada / "walk.py").write_text(WALK)
    flags = [*images[where], *(hosts.mounts_of_programs if where == "container" else [])]
    words = ["lattice", "submit", "-q", "--wait", "--nodes", "4", "--cpus", "2", *flags]
    path = hosts.environment_of(ADA)["PATH"]
    folder = "/opt" if where == "container" else str(place)
    done = hosts.as_user(ADA, *words, "--env", f"PATH={path}", *OPEN, str(script), folder, which, cwd=ada)
    number = done.stdout.split()[0] if done.stdout else "?"
    assert done.returncode == 0, (hosts.allocation(number)["message"], hosts.logs(number, "stderr"))
    said = hosts.logs(number)
    assert said.splitlines() == [f"{way} ok" for way in WAYS[which]], said


def test_both_libraries_run_from_sbatch_and_salloc(hosts: MpiHosts, ada: Path, place: Path) -> None:
    script = ada / "batch.sh"
    script.write_text(
        f"#!/bin/sh\n#SBATCH -N 4 -c 2\nsrun -n 4 {place}/mpich ring && mpirun.openmpi -n 4 {place}/openmpi ring\n"
    )
    variables = f"--export=ALL,PATH={hosts.environment_of(ADA)['PATH']},LATTICE_INSECURE_HTTP=1,TMPDIR=/dev/shm"
    batch = hosts.as_user(ADA, "sbatch", "--wait", "--output=out", variables, str(script), cwd=ada)
    said = (ada / "out").read_text()
    assert (batch.returncode, said.count(RING)) == (0, 2), (batch.stderr, said)
    inside = hosts.as_user(ADA, "salloc", "-N", "4", "-c", "2", "srun", "-n", "4", f"{place}/mpich", "ring", cwd=ada)
    assert (inside.returncode, RING in inside.stdout) == (0, True), inside.stderr


def begin(hosts: MpiHosts, alloc: str, home: Path, program: Path, gate: Path) -> "subprocess.Popen[str]":
    """A step of four ranks, one on each host, that have met and wait for the gate."""
    words = ("--env", "TMPDIR=/dev/shm", "-n", "4", "-N", "4", "--overlap", str(program), "wait", str(gate))
    step = hosts.command(ADA, "lattice", "launch", "--alloc", alloc, *words, cwd=home)
    assert step.stdout is not None
    lines = sorted(step.stdout.readline().strip() for _ in range(4))
    if lines[-1:] != ["wait 3 of 4 sum 6 token 0"]:
        raise AssertionError(step.communicate(timeout=60))
    return step


def ended(step: "subprocess.Popen[str]") -> tuple[int, str]:
    with step:
        _, errors = step.communicate(timeout=120)
    return step.returncode, errors


@pytest.mark.parametrize("library", ["mpich", "openmpi"])
def test_a_program_goes_on_without_its_agent_its_leader_and_for_a_while_its_link(
    hosts: MpiHosts, alloc: str, ada: Path, place: Path, gate: Path, library: str
) -> None:
    step = begin(hosts, alloc, ada, place / library, gate)
    hosts.restart_agent("h2")
    leader = hosts.leader()
    hosts.kill_server(leader)
    hosts.wait_back(leader)
    wait_healthy(hosts)
    with hosts.unplugged("h3"):
        hosts.wait_node("h3", "Degraded", within_s=60)
    hosts.wait_node("h3", "Ready", within_s=60)
    gate.touch()
    assert ended(step) == (0, "")


def test_the_ranks_of_a_lost_node_are_named_and_no_other_is_left(
    hosts: MpiHosts, alloc: str, ada: Path, place: Path, gate: Path
) -> None:
    step = begin(hosts, alloc, ada, place / "mpich", gate)
    with hosts.unplugged("h4"):
        hosts.put("/settings/node.grace_s", {"value": "1"})
        try:
            code, errors = ended(step)
        finally:
            hosts.put("/settings/node.grace_s", {"value": "120"})
        assert code != 0
        assert "task 3 on h4: lost" in errors
        eventually(lambda: len(processes_of(place / "mpich")) <= 1, "the ranks of the others ended", within_s=60)
    hosts.wait_node("h4", "Ready", within_s=60)
    eventually(lambda: not processes_of(place / "mpich"), "no rank is left", within_s=60)


# Rank 0 is where all meet, as in torch's `env://`.
RENDEZVOUS = """
import os, socket, time
rank, size, place = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank:
    while True:
        try:
            connection = socket.create_connection(place)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    connection.sendall(b"%d\\n" % rank)
    print(rank, connection.makefile().readline().strip())
else:
    with socket.create_server(place) as server:
        others = [server.accept()[0] for _ in range(size - 1)]
        total = sum(int(other.makefile().readline()) for other in others)
        time.sleep(1)  # the other step wants a port meanwhile
        for other in others:
            other.sendall(b"%d\\n" % total)
    print(0, total)
"""


def test_programs_that_meet_by_address_do_not_collide(hosts: MpiHosts, alloc: str, ada: Path) -> None:
    (ada / "meet.py").write_text(RENDEZVOUS)
    words = ("lattice", "launch", "--alloc", alloc, "-n", "4", "-N", "4", "--overlap", "python3", str(ada / "meet.py"))
    steps = [hosts.command(ADA, *words, cwd=ada) for _ in range(3)]
    for step in steps:
        with step:
            output, errors = step.communicate(timeout=120)
        assert sorted(output.splitlines()) == [f"{rank} 6" for rank in range(4)], errors


# What another user on the same host tries. Prints what it got.
INTRUDER = r"""
import os, socket, sys
uid = int(sys.argv[1])
print("looking")
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        if os.stat(f"/proc/{pid}").st_uid == os.getuid():
            continue
    except OSError:
        continue
    for name in ("environ", "mem", "maps", "fd"):
        try:
            seen = os.listdir(f"/proc/{pid}/{name}") if name == "fd" else open(f"/proc/{pid}/{name}", "rb").read(1)
            if seen:
                print("read", name, pid, seen)
        except OSError:
            pass
ports = {
    int(fields[1].split(":")[1], 16)
    for fields in (line.split() for line in open("/proc/net/tcp"))
    if fields[3] == "0A" and fields[7] == str(uid)
}
print("ports", *sorted(ports))
for port in sorted(ports):
    for said in (b"LPMI1\0\0\0\1" + b"n" * 16, b"\0" * 4096):
        try:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.settimeout(5)
                connection.sendall(said)
                first = connection.recv(65536)
                if said.startswith(b"LPMI1") and len(first) == 48:
                    connection.sendall(b"p" * 32)
                    first = connection.recv(65536)
                if first:
                    print("got", port, first)
        except OSError:
            pass
print("done")
"""


def test_another_user_on_the_host_can_neither_join_nor_read(
    hosts: MpiHosts, alloc: str, ada: Path, bob: Path, place: Path, gate: Path
) -> None:
    steps = [begin(hosts, alloc, ada, place / library, gate) for library in ("mpich", "openmpi")]
    (bob / "intruder.py").write_text(INTRUDER)
    number = hosts.allocate(BOB, bob, "--nodes", "1", "--cpus", "1", "--nodelist", "h1")
    words = ("lattice", "launch", "--alloc", number, "-n", "1", "python3", str(bob / "intruder.py"))
    tried = hosts.as_user(BOB, *words, str(pwd.getpwnam(ADA).pw_uid), cwd=bob)
    keys = [key for library in ("mpich", "openmpi") for key in keys_of(hosts, place / library)]
    try:
        first, listening, *rest = tried.stdout.splitlines()
        assert (first, rest) == ("looking", ["done"]), (tried.stdout, tried.stderr)
        ports = [int(word) for word in listening.split()[1:]]
        # The services of both steps were among them: the keys are those in use.
        assert all(set(sealed_ports(key)) & set(ports) for key in keys)
        assert len(keys) == 2
        check_nowhere(hosts, keys)
    finally:
        gate.touch()
        hosts.delete(f"/allocations/{number}")
    assert [ended(step) for step in steps] == [(0, ""), (0, "")]
    check_nowhere(hosts, keys)


def keys_of(hosts: MpiHosts, program: Path) -> list[bytes]:
    """The keys of the launches of the program."""
    secret = (hosts.directory / "secret").read_bytes().strip()
    found = set()
    for pid in processes_of(program):
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        found |= {value.partition(b"=")[2] for value in variables if value.startswith(b"LATTICE_LAUNCH_ID=")}
    return [hmac.digest(secret, b"launch/" + each, "sha256") for each in found]


def check_nowhere(hosts: MpiHosts, keys: list[bytes]) -> None:
    """Neither in an argument or environment of any process, nor in a file of the servers and agents."""
    forms = [form for key in keys for form in (key, key.hex().encode(), base64.b64encode(key))]
    for folder in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                data = (folder / name).read_bytes()
            except OSError:
                continue
            assert not any(form in data for form in forms), (folder, name)
    for file in hosts.directory.rglob("*"):
        if file.is_file() and not file.is_symlink():
            data = file.read_bytes()
            assert not any(form in data for form in forms), file
