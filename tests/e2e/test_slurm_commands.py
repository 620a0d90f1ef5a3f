"""sbatch and scancel as people and programs call them, on a live cluster."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lattice.cli.slurm.install import install
from lattice.testing import LocalCluster, eventually

pytestmark = pytest.mark.e2e

NODES = 3
BJSF = "sbatch: error: Batch job submission failed: "


class Slurm:
    """The commands of one folder, against one cluster."""

    def __init__(self, cluster: LocalCluster, folder: Path, home: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.home = home

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in self.cluster.environment().items() if not name.startswith("S")}
        return {**kept, "HOME": str(self.home), "PATH": f"{self.folder}:/usr/bin:/bin", **more}

    def __call__(
        self, program: str, *words: str, stdin: str = "", cwd: Path | None = None, **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(self.folder / program), *words],
            input=stdin,
            capture_output=True,
            text=True,
            env=self.environment(**variables),
            cwd=cwd or self.home,
            timeout=60,
            check=False,
        )

    def submitted(self, *words: str, stdin: str = "", cwd: Path | None = None, **variables: str) -> str:
        outcome = self("sbatch", "--parsable", *words, stdin=stdin, cwd=cwd, **variables)
        assert outcome.returncode == 0, outcome.stderr
        return outcome.stdout.strip()

    def ended(self, number: str) -> Any:  # noqa: ANN401 - JSON
        return self.cluster.wait_end(number)


@pytest.fixture(scope="module")
def slurm_cluster() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=NODES, arguments=["--node-cpus", "4"]) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    install(folder)
    return folder


@pytest.fixture(params=["forwarder", "python"])
def either(
    slurm_cluster: LocalCluster, programs: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Slurm]:
    """The programs as they are installed, and those that stand in where there is no compiler."""
    folder = programs if request.param == "forwarder" else programs / "python"
    yield Slurm(slurm_cluster, folder, tmp_path)
    slurm_cluster.post("/allocations/cancel", {"all_mine": True})


@pytest.fixture
def slurm(slurm_cluster: LocalCluster, programs: Path, tmp_path: Path) -> Iterator[Slurm]:
    tmp_path.chmod(0o777)
    yield Slurm(slurm_cluster, programs, tmp_path)
    slurm_cluster.post("/allocations/cancel", {"all_mine": True})


def test_sbcast_copies_a_file_to_the_nodes_of_a_job(slurm: Slurm, tmp_path: Path) -> None:
    source, target = tmp_path / "data", tmp_path / "copy"
    source.write_bytes(bytes(range(256)) * 4096)
    number = slurm.submitted("-N2", "--wrap", "sleep 600")
    eventually(lambda: "R" in slurm("squeue", "-h", "-j", number, "-o", "%t").stdout, "the job runs")
    # The nodes of this cluster share one file system, so the second copy replaces the first.
    copied = slurm("sbcast", "-f", "--jobid", number, str(source), str(target))
    assert (copied.returncode, copied.stderr) == (0, "")
    assert target.read_bytes() == source.read_bytes()
    again = slurm("sbcast", f"--jobid={number}", str(source), str(target))
    assert again.returncode == 1
    assert "File exists" in again.stderr
    assert "does not run" in slurm("sbcast", "--jobid=99999", str(source), str(target)).stderr


def script(folder: Path, text: str, name: str = "run.sh") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_script_is_submitted_and_may_vanish_at_once(either: Slurm, tmp_path: Path) -> None:
    path = script(tmp_path, '#!/bin/bash\n#SBATCH --job-name="two words" -t 5  # a comment\necho "$SLURM_JOB_NAME"\n')
    outcome = either("sbatch", str(path))
    path.unlink()
    words = outcome.stdout.split()
    assert (outcome.returncode, outcome.stderr, words[:3]) == (0, "", ["Submitted", "batch", "job"])
    either.ended(words[3])
    assert either.cluster.cli("logs", words[3]).stdout == "two words\n"


def test_a_script_comes_on_stdin_or_as_one_command(either: Slurm) -> None:
    piped = either.submitted(stdin="#!/bin/sh\necho piped\n")
    wrapped = either.submitted("--wrap", "echo wrapped ü")
    for number, text in ((piped, "piped\n"), (wrapped, "wrapped ü\n")):
        either.ended(number)
        assert either.cluster.cli("logs", number).stdout == text


def test_a_script_is_found_along_path_and_gets_its_arguments(either: Slurm, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    script(elsewhere, '#!/bin/sh\necho "$1|$2"\n', "findme")
    number = either.submitted("-H", "findme", "a b", "-c", PATH=f"{elsewhere}:/usr/bin:/bin")
    either("scontrol", "release", number)
    either.cluster.cli("release", number, check=False)
    either.ended(number)
    assert either.cluster.cli("logs", number).stdout == "a b|-c\n"


def test_wait_ends_with_the_code_of_the_job(either: Slurm) -> None:
    outcome = either("sbatch", "--wait", "--wrap", "exit 3")
    assert outcome.returncode == 3
    assert outcome.stdout.startswith("Submitted batch job ")
    assert either("sbatch", "-W", "-Q", "--wrap", "true").returncode == 0


@pytest.mark.parametrize(
    ("words", "text", "code"),
    [
        (["nofile"], "sbatch: error: Unable to open file nofile\n", 1),
        (["--bogus=1", "--wrap", "x"], "sbatch: unrecognized option '--bogus=1'\n", 255),
        (["--nod=1", "--wrap", "x"], "sbatch: option '--nod=1' is ambiguous", 255),
        (["-t", "soon", "--wrap", "x"], "sbatch: error: Invalid --time specification\n", 255),
        (["-p", "nope", "--wrap", "x"], "sbatch: error: invalid partition specified: nope\n" + BJSF, 1),
        (["-A", "nope", "--wrap", "x"], BJSF + "Invalid account or account/partition combination specified\n", 1),
        (["-w", "nope", "--wrap", "x"], BJSF + "Invalid node name specified\n", 1),
        (["-C", "nope", "--wrap", "x"], BJSF + "Invalid feature specification\n", 1),
        (["--mem=999T", "--wrap", "x"], "sbatch: error: Memory specification can not be satisfied\n" + BJSF, 1),
        (
            ["--gres=gpu:99", "--wrap", "x"],
            BJSF + "Requested node configuration is not available\n"
            "sbatch: error: requested: 99 GPUs per node; no node has more than 0\n",
            1,
        ),
        (["--reservation=x", "--wrap", "x"], BJSF + "Requested reservation is invalid\n", 1),
        (["-M", "other", "--wrap", "x"], "sbatch: error: No cluster 'other' known by database.\n", 1),
        (["-d", "afterok:x", "--wrap", "x"], BJSF + "Job dependency problem\n", 1),
        (["-a", "9-0", "--wrap", "x"], BJSF + "Invalid job array specification\n", 1),
        (["--wrap", "x", "y"], "sbatch: error: Script arguments not permitted with --wrap option\n", 1),
    ],
)
def test_what_is_wrong_is_said_on_stderr_alone(slurm: Slurm, words: list[str], text: str, code: int) -> None:
    outcome = slurm("sbatch", *words)
    assert outcome.stderr.startswith(text)
    assert (outcome.stdout, outcome.returncode) == ("", code)


def test_options_without_effect_are_warned_of_unless_quiet(slurm: Slurm) -> None:
    words = ["-H", "--hint=nomultithread", "--licenses=x", "--wrap", "true"]
    loud, quiet = slurm("sbatch", *words), slurm("sbatch", "-Q", *words)
    assert [line.split()[2] for line in loud.stderr.splitlines()] == ["--hint", "--licenses"]
    assert (quiet.stdout, quiet.stderr, quiet.returncode) == ("", "", 0)


def test_the_command_line_beats_variables_and_they_beat_the_script(slurm: Slurm, tmp_path: Path) -> None:
    path = script(tmp_path, "#!/bin/sh\n#SBATCH -J script\n#SBATCH --comment=script\n#SBATCH -t 1\ntrue\n")
    number = slurm.submitted("-H", "-J", "line", str(path), SBATCH_JOB_NAME="variable", SBATCH_TIMELIMIT="2")
    found = slurm.cluster.get(f"/allocations/{number}?details=true")
    assert (found["name"], found["walltime_s"]) == ("line", 120)
    assert (found["details"]["slurm"]["comment"], found["details"]["slurm"]["command"]) == ("script", str(path))


def test_a_job_finds_its_variables_and_those_of_its_caller(slurm: Slurm, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    words = ["-N2", "-n4", "-c2", "--mem=100M", "-J", "named", "--wrap", "env; pwd"]
    number = slurm.submitted(*words, cwd=here, OWN="mine", SLURM_PROCID="7", LATTICE_TOKEN="")
    slurm.ended(number)
    printed = (here / f"slurm-{number}.out").read_text().splitlines()
    found = dict(line.split("=", 1) for line in printed if "=" in line)
    assert printed[-1] == str(here)
    wanted = {
        "SLURM_JOB_ID": number,
        "SLURM_JOBID": number,
        "SLURM_JOB_NAME": "named",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_NTASKS": "4",
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_MEM_PER_NODE": "100",
        "SLURM_JOB_CPUS_PER_NODE": "4(x2)",
        "SLURM_TASKS_PER_NODE": "2(x2)",
        "SLURM_JOB_PARTITION": "default",
        "SLURM_SUBMIT_DIR": str(here),
        "SLURM_PROCID": "0",
        "OWN": "mine",
    }
    assert {name: found.get(name) for name in wanted} == wanted
    assert "SLURM_RESTART_COUNT" not in found


def test_export_hands_on_what_it_names(slurm: Slurm) -> None:
    number = slurm.submitted(
        "--export=ONE,TWO=2,THREE='a,b'", "--wrap", 'echo "$ONE|$TWO|$THREE|$FOUR"', ONE="1", FOUR="4"
    )
    nothing = slurm.submitted("--export=NONE", "--wrap", 'echo "$ONE|$SLURM_JOB_ID"', ONE="1")
    slurm.ended(number)
    slurm.ended(nothing)
    assert slurm.cluster.cli("logs", number).stdout == "1|2|a,b|\n"
    assert slurm.cluster.cli("logs", nothing).stdout == f"|{nothing}\n"


def test_an_array_waits_for_another_task_by_task(slurm: Slurm) -> None:
    first = slurm.submitted("-a", "1-3", "--wrap", "test $SLURM_ARRAY_TASK_ID != 2")
    second = slurm.submitted("-a", "1-3", "-d", f"aftercorr:{first}", "--wrap", "true")
    after = slurm.submitted("-d", f"afterany:{first}", "--wrap", "true")
    never = slurm.submitted("-d", f"afterok:{first}", "--wrap", "true")
    killed = slurm.submitted("-d", f"afterok:{first}", "--kill-on-invalid-dep=yes", "--wrap", "true")
    assert slurm.ended(after)["state"] == "Completed"
    assert slurm.ended(killed)["state"] == "Cancelled"
    assert slurm.cluster.get(f"/allocations/{never}")["state"] == "Pending"
    states = {index: slurm.ended(f"a{second}_{index}")["state"] for index in (1, 3)}
    assert states == {1: "Completed", 3: "Completed"}
    assert slurm.cluster.get(f"/allocations/a{second}_2")["state"] == "Pending"


def test_what_can_never_run_waits_as_in_slurm(slurm: Slurm) -> None:
    wide = slurm.submitted("-N", "99", "--wrap", "true")
    many = slurm.submitted("-n", "9999", "--wrap", "true")
    shown = slurm("squeue", "-h", "-o", "%i %t", "-j", f"{wide},{many}").stdout
    assert sorted(shown.splitlines()) == sorted([f"{wide} PD", f"{many} PD"])


def test_test_only_submits_nothing(slurm: Slurm) -> None:
    outcome = slurm("sbatch", "--test-only", "-N2", "--wrap", "true")
    assert outcome.stdout == ""
    assert "using 8 processors on nodes n[1-2] in partition default" in outcome.stderr
    impossible = slurm("sbatch", "--test-only", "-N99", "--wrap", "true")
    assert (impossible.returncode, impossible.stderr) == (
        1,
        "allocation failure: Requested node configuration is not available\n",
    )


def test_scancel_ends_what_it_names_and_is_silent(either: Slurm) -> None:
    number = either.submitted("--wrap", "sleep 600")
    array = either.submitted("-H", "-a", "1-4", "--wrap", "true")
    assert either("scancel", number, f"{array}_[2-3]", "999999").stderr == ""
    assert either.ended(number)["state"] == "Cancelled"
    assert either.cluster.get(f"/allocations/{array}")["tasks"]["pending"] == 2
    verbose = either("scancel", "-v", array)
    assert (verbose.stderr, verbose.returncode) == (f"scancel: Terminating job {array}\n", 0)


def test_scancel_takes_what_matches(slurm: Slurm) -> None:
    mine = [slurm.submitted("-H", "-J", name, "--wrap", "true") for name in ("left", "right")]
    assert slurm("scancel", "-n", "left").returncode == 0
    states = [slurm.cluster.get(f"/allocations/{number}")["state"] for number in mine]
    assert states == ["Cancelled", "Pending"]
    assert slurm("scancel", "--me", "-t", "PENDING").returncode == 0
    assert slurm.ended(mine[1])["state"] == "Cancelled"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "scancel: error: No job identification provided\n"),
        (["abc"], "scancel: error: Invalid job id abc\n"),
        (["-t", "XX"], "Invalid job state specified: XX\nValid job states are PENDING, RUNNING, and SUSPENDED\n"),
        (["-s", "FOO", "1"], "Unknown job signal: FOO\n"),
        (["--bogus"], "scancel: unrecognized option '--bogus'\nTry \"scancel --help\" for more information\n"),
        (["-u", "nobody-of-that-name"], "scancel: error: Invalid user name: nobody-of-that-name\n"),
    ],
)
def test_scancel_says_what_it_cannot_read(slurm: Slurm, words: list[str], text: str) -> None:
    outcome = slurm("scancel", *words)
    assert (outcome.stdout, outcome.stderr, outcome.returncode) == ("", text, 1)


def test_the_commands_work_inside_jobs_with_nearly_nothing_left(slurm: Slurm) -> None:
    inner = 'for v in $(env | grep -o "^S[A-Z]*_[A-Z_]*"); do unset $v; done; sbatch --parsable --wrap true'
    number = slurm.submitted("--wrap", inner)
    slurm.ended(number)
    child = slurm.cluster.cli("logs", number).stdout.strip()
    assert child.isdigit()
    assert slurm.ended(child)["state"] == "Completed"


def test_every_program_names_a_version_that_tools_understand(either: Slurm) -> None:
    for program in ("sbatch", "squeue", "scancel"):
        assert either(program, "--version").stdout == "slurm 22.05.8\n"


def test_a_server_that_is_gone_is_waited_for(slurm: Slurm) -> None:
    server = slurm.cluster.file.of_role("server")[0]
    os.kill(server.pid, signal.SIGKILL)
    number = slurm.submitted("--wrap", "true")
    slurm.cluster.wait_serving()
    assert slurm.ended(number)["state"] == "Completed"


def test_a_configuration_file_of_any_kind_leads_to_the_cluster(either: Slurm, tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "lattice"
    folder.mkdir(parents=True)
    token = either.cluster.directory / "token"
    for quote in ("", '"'):
        (folder / "config.yaml").write_text(f"endpoint: {quote}{either.cluster.api_url}{quote}\ntoken_file: {token}\n")
        outcome = either("sbatch", "-H", "--wrap", "true", LATTICE_DIR=str(tmp_path / "nowhere"))
        assert outcome.returncode == 0, outcome.stderr


def test_compat_aliases_puts_the_programs_on_path(slurm: Slurm, tmp_path: Path) -> None:
    printed = slurm.cluster.cli("compat-aliases", "--dir", str(tmp_path / "folder")).stdout.strip()
    shell = subprocess.run(
        ["/bin/sh", "-c", f". {printed} && command -v sbatch"], capture_output=True, text=True, check=True
    )
    assert shell.stdout == f"{tmp_path}/folder/sbatch\n"


def test_many_loops_at_once_lose_nothing(slurm: Slurm) -> None:
    loop = "for i in 1 2 3 4 5; do sbatch --parsable -H --wrap true; done"
    running = [
        subprocess.Popen(
            ["/bin/sh", "-c", loop], env=slurm.environment(), stdout=subprocess.PIPE, text=True, cwd="/tmp"
        )
        for _ in range(8)
    ]
    printed = [number for each in running for number in each.communicate(timeout=60)[0].split()]
    assert len(set(printed)) == 40
    eventually(lambda: slurm("squeue", "-h", "-t", "PD").stdout.count("\n") == 40, "40 lines")


def test_work_and_its_files_get_the_umask_of_whoever_submits(either: Slurm, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        number = either.submitted("-o", "private.out", "--wrap=umask; touch made", cwd=tmp_path)
        native = either.cluster.cli("submit", "--stdout", "native.out", "--", "sh", "-c", "umask", cwd=tmp_path)
    finally:
        os.umask(before)
    either.ended(number)
    either.ended(native.stdout.split()[-1])
    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in ("private.out", "made", "native.out")}
    assert modes == {"private.out": 0o600, "made": 0o600, "native.out": 0o600}
    assert [(tmp_path / name).read_text() for name in ("private.out", "native.out")] == ["0077\n", "0077\n"]
