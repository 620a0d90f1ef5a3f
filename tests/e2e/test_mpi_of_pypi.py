"""The newest libraries, as PyPI has them: MPICH 5, and Open MPI 5 with PRRTE in the place of ORTE, over four hosts."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import missing, require_program
from tests.e2e.mpi_hosts import MpiHosts, person
from tests.e2e.open_programs import open_programs
from tests.e2e.test_mpi import PROGRAMS

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.soak, pytest.mark.timeout(300)]

ADA = f"ada{os.getpid()}"
VERSIONS = {"mpich": "5.0.2", "openmpi": "5.0.11"}
SCRIPT = r"""#!/bin/sh
check() { # NAME CODE TEXT COMMAND...
    name=$1 code=$2 text=$3; shift 3
    "$@" > "out.$name" 2>&1; got=$?
    if [ $got = $code ] && grep -q -- "$text" "out.$name"; then echo "$name ok"; else echo "$name: $got"; cat "out.$name"; fi
}
ring="ring 0 of 4 sum 6 token 4"
for library in mpich openmpi; do
    check $library.launch 0 "$ring" lattice launch -n 4 -N 4 $1/$library-walk ring
    check $library.abort 7 abort lattice launch -n 4 -N 4 $1/$library-walk abort
done
check mpich.pmi1 0 "$ring" lattice launch -n 4 -N 4 --pmi pmi1 $1/mpich-walk ring
check mpich.pmi2 137 "speaks PMI-1; the step was launched with --pmi=pmi2" lattice launch -n 4 -N 4 --pmi pmi2 $1/mpich-walk ring
check openmpi.pmix 0 "$ring" lattice launch -n 4 -N 4 --pmi pmix $1/openmpi-walk ring
check mpich.mpiexec 0 "$ring" $1/mpich/bin/mpiexec -n 4 -ppn 1 $1/mpich-walk ring
check openmpi.mpirun 0 "$ring" $1/openmpi/bin/mpirun -n 4 --map-by node $1/openmpi-walk ring
check openmpi.mpirun.abort 7 abort $1/openmpi/bin/mpirun -n 4 --map-by node $1/openmpi-walk abort
"""
WAYS = [
    "mpich.launch",
    "mpich.abort",
    "openmpi.launch",
    "openmpi.abort",
    "mpich.pmi1",
    "mpich.pmi2",
    "openmpi.pmix",
    "mpich.mpiexec",
    "openmpi.mpirun",
    "openmpi.mpirun.abort",
]


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Both libraries, each in an environment of its own, and the program built with each."""
    for program in ("etcd", "nsenter", "useradd", "cc"):
        require_program(program)
    folder = Path(tempfile.mkdtemp(prefix="lattice-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        for library, version in VERSIONS.items():
            home = folder / library
            subprocess.run([sys.executable, "-m", "venv", home], check=True)
            wanted = ["install", "--quiet", "--no-deps", f"{library}=={version}"]
            if subprocess.run([str(home / "bin" / "pip"), *wanted], check=False).returncode:
                missing(f"{library} {version} of PyPI")
            line = [str(home / "bin" / "mpicc"), "-o", str(folder / f"{library}-walk"), str(PROGRAMS / "mpi_walk.c")]
            path = f"{home}/bin:{os.environ['PATH']}"
            subprocess.run(line, check=True, capture_output=True, env={**os.environ, "PATH": path})
        yield folder
    finally:
        shutil.rmtree(folder)


def test_the_newest_libraries_run_by_launch_and_by_their_own_commands(place: Path) -> None:
    with person(ADA, place) as home, open_programs() as programs, MpiHosts(programs, settings={}) as hosts:
        assert all("pmix" in node["features"] for node in hosts.nodes().values())
        script = home / "ways.sh"
        script.write_text(SCRIPT)
        script.chmod(0o755)
        path = hosts.environment_of(ADA)["PATH"]
        own = [f"PATH={path}", "LATTICE_INSECURE_HTTP=1", "TMPDIR=/dev/shm"]
        flags = ["--nodes", "4", *(word for each in own for word in ("--env", each))]
        done = hosts.as_user(ADA, "lattice", "submit", "-q", "--wait", *flags, str(script), str(place), cwd=home)
        said = hosts.logs(done.stdout.split()[0])
    assert said.splitlines() == [f"{way} ok" for way in WAYS], said
