"""srun, salloc and output files as people type them, on a cluster of real processes."""

import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.cli.slurm.install import install
from lattice.testing import LocalCluster, eventually

pytestmark = pytest.mark.e2e

NODES = 3


@pytest.fixture(scope="module")
def slurm_cluster() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=NODES, arguments=["--node-cpus", "4"]) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("slurm")).parent


class Shell:
    """A directory and an environment in which the Slurm commands are found."""

    def __init__(self, cluster: LocalCluster, programs: Path, folder: Path) -> None:
        self.folder = folder
        self.environment = cluster.environment()
        self.environment["PATH"] = f"{programs}:{self.environment.get('PATH', '/usr/bin:/bin')}"

    def run(self, line: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["/bin/sh", "-c", line],
            env=self.environment,
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def begin(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            words,
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def batch(self, script: str, options: str = "", name: str = "job.out") -> str:
        """What a batch script wrote, after its end."""
        (self.folder / "job.sh").write_text(f"#!/bin/sh\n{script}\n")
        done = self.run(f"sbatch --wait {options} -o {name} job.sh")
        assert done.stdout.startswith("Submitted batch job"), done.stderr
        return (self.folder / name).read_text()


@pytest.fixture
def shell(slurm_cluster: LocalCluster, programs: Path, tmp_path: Path) -> Iterator[Shell]:
    tmp_path.chmod(0o777)
    yield Shell(slurm_cluster, programs, tmp_path)
    slurm_cluster.post("/allocations/cancel", {"all_mine": True})
    for node in slurm_cluster.nodes():
        slurm_cluster.wait_node(node, "Ready")


def test_srun_alone_allocates_runs_and_releases(shell: Shell) -> None:
    done = shell.run("srun -n 3 -l sh -c 'echo rank $SLURM_PROCID of $SLURM_NTASKS'")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == [f"{rank}: rank {rank} of 3" for rank in range(3)]
    eventually(lambda: shell.run("squeue -h").stdout == "", "the allocation is given back")
    assert shell.run("sacct -nX -o state -P | tail -n 1").stdout == "COMPLETED\n"


def test_the_highest_code_is_sruns_own_and_said(shell: Shell) -> None:
    done = shell.run("srun -n 2 sh -c 'exit $((SLURM_PROCID + 8))'")
    assert done.returncode == 9
    assert "task 1: Exited with exit code 9" in done.stderr
    assert done.stderr.startswith("srun: error: n")
    eventually(lambda: "9:0" in shell.run("sacct -nX -o exitcode -P").stdout, "the job ends with that code")


def test_stdin_reaches_the_tasks(shell: Shell) -> None:
    assert shell.run("srun sh -s", stdin="echo from stdin; exit 5").returncode == 5
    assert sorted(shell.run("srun -n 2 cat", stdin="x\n").stdout) == sorted("x\nx\n")


def test_a_step_of_a_batch_script_has_the_jobs_tasks(shell: Shell) -> None:
    script = (
        "srun sh -c 'echo $SLURM_JOB_ID.$SLURM_STEP_ID $SLURM_PROCID/$SLURM_NTASKS $SLURM_NODEID $SLURM_STEP_NUM_TASKS'"
        " | sort -k2; echo $SLURM_JOB_ID"
    )
    *lines, number = shell.batch(script, "-N 2 --ntasks-per-node=2").splitlines()
    assert lines == [f"{number}.0 {rank}/4 {rank // 2} 4" for rank in range(4)]


def test_steps_work_with_nearly_all_variables_stripped(shell: Shell) -> None:
    script = "exec env -i PATH=$PATH HOME=$HOME SLURM_JOB_ID=$SLURM_JOB_ID LATTICE_API_URL=$LATTICE_API_URL" + (
        " LATTICE_TOKEN_FILE=$LATTICE_TOKEN_FILE srun -n 1 sh -c 'echo $SLURM_STEP_NODELIST $SLURM_CLUSTER_NAME'"
    )
    node, cluster = shell.batch(script).split()
    assert node.startswith("n")
    assert cluster


def test_output_of_tasks_goes_where_srun_is_told(shell: Shell) -> None:
    number = shell.batch(
        "srun -n 2 -o task-%j-%t.out sh -c 'echo I am $SLURM_PROCID'; srun -n 1 -o one-%J.out echo one; echo $SLURM_JOB_ID",
        "-n 2",
    ).split()[-1]
    files = {path.name: path.read_text() for path in shell.folder.glob("*.out") if path.name != "job.out"}
    assert files == {f"task-{number}-{rank}.out": f"I am {rank}\n" for rank in range(2)} | {
        f"one-{number}.1.out": "one\n"
    }


def test_several_programs_in_one_step(shell: Shell) -> None:
    (shell.folder / "progs").write_text("# who does what\n0 echo first\n1-2 echo rank %t\n* echo other\n")
    done = shell.run("srun -n 4 -l --multi-prog progs")
    assert sorted(done.stdout.splitlines()) == ["0: first", "1: rank 1", "2: rank 2", "3: other"]


def test_what_cannot_be_run_is_told_in_slurms_words(shell: Shell) -> None:
    done = shell.run("srun --jobid=99999 hostname")
    assert done.returncode == 1
    assert "Unable to confirm allocation for job 99999: Invalid job id specified" in done.stderr
    done = shell.run("srun no-such-program")
    assert done.returncode == 2
    assert "slurmstepd: error: execve(): no-such-program" in done.stderr
    assert shell.run("srun").returncode == 1
    assert shell.run("srun --bogus x").returncode == 255
    assert shell.run("srun --version").stdout.startswith("slurm ")


def test_interrupt_reaches_the_tasks(shell: Shell) -> None:
    script = "trap 'echo caught; exit 7' INT; echo ready >ready; while :; do sleep 0.05; done"
    srun = shell.begin("srun", "sh", "-c", script)
    eventually((shell.folder / "ready").exists, "the task runs")
    srun.send_signal(signal.SIGINT)
    out, err = srun.communicate(timeout=30)
    assert (srun.returncode, out) == (7, "caught\n")
    assert "srun: sending Ctrl-C to StepId=" in err


def test_an_allocation_ends_with_its_step_though_srun_is_gone(shell: Shell) -> None:
    script = "echo ready >ready; while [ ! -e stop ]; do sleep 0.05; done; exit 3"
    srun = shell.begin("srun", "-J", "orphan", "sh", "-c", script)
    eventually((shell.folder / "ready").exists, "the task runs")
    srun.kill()
    srun.communicate(timeout=30)
    (shell.folder / "stop").touch()
    eventually(lambda: shell.run("squeue -h").stdout == "", "the allocation ends")
    assert shell.run("sacct -nX -P --name=orphan -o state,exitcode").stdout == "FAILED|3:0\n"


def test_waiting_for_nodes_is_said_and_can_be_given_up(shell: Shell) -> None:
    shell.run(f"sbatch -N {NODES} -o /dev/null --wrap 'sleep 60'")
    eventually(lambda: " R " in shell.run("squeue -h").stdout, "all nodes are taken")
    srun = shell.begin("srun", "hostname")
    assert srun.stderr is not None
    line = srun.stderr.readline()
    assert line.startswith("srun: job ")
    assert line.endswith(" queued and waiting for resources\n")
    time.sleep(0.2)  # the line is printed just before the program waits
    srun.send_signal(signal.SIGINT)
    _, err = srun.communicate(timeout=30)
    assert srun.returncode == 1
    assert "has been revoked" in err
    assert shell.run("squeue -h -t PD").stdout == ""


def test_a_terminal_is_given_to_the_task(shell: Shell) -> None:
    master, slave = pty.openpty()
    srun = subprocess.Popen(
        ["srun", "--pty", "sh", "-c", "test -t 0 && echo a terminal; exit 6"],
        executable=str(Path(shell.environment["PATH"].split(":")[0]) / "srun"),
        env=shell.environment,
        cwd=shell.folder,
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    assert srun.wait(30) == 6
    assert b"a terminal" in os.read(master, 4096)
    os.close(master)


def test_a_terminal_in_a_job_starts_at_once_though_a_step_has_all_its_cpus(shell: Shell) -> None:
    number = shell.run("salloc -N 1 -c 4 --no-shell").stderr.split()[-1]
    holding = shell.begin("srun", "--jobid", number, "-c", "4", "sh", "-c", "echo holds; exec sleep 600")
    assert holding.stdout is not None
    assert holding.stdout.readline() == "holds\n"
    done = shell.run(f"srun --jobid {number} --pty sh -c 'test -t 1; echo $? of $SLURM_JOB_ID; exit 5'")
    assert (done.returncode, f"0 of {number}" in done.stdout) == (5, True), done
    assert holding.poll() is None
    shell.run(f"scancel {number}")
    holding.communicate(timeout=30)


def test_salloc_runs_a_command_with_the_jobs_variables(shell: Shell) -> None:
    done = shell.run("salloc -N 2 sh -c 'echo $SLURM_JOB_ID $SLURM_JOB_NUM_NODES; srun -l echo hi; exit 4'")
    assert done.returncode == 4
    number, nodes, *lines = done.stdout.split()
    assert (nodes, sorted(lines)) == ("2", ["0:", "1:", "hi", "hi"])
    assert f"salloc: Granted job allocation {number}\n" in done.stderr
    assert f"salloc: Relinquishing job allocation {number}\n" in done.stderr
    eventually(lambda: shell.run("squeue -h").stdout == "", "the allocation is given back")


def test_salloc_without_a_shell_leaves_the_allocation(shell: Shell) -> None:
    done = shell.run("salloc --no-shell")
    number = done.stderr.split()[-1]
    assert done.returncode == 0
    assert shell.run(f"srun --jobid={number} echo step").stdout == "step\n"
    assert shell.run(f"squeue -h -o %T -j {number}").stdout == "RUNNING\n"
    assert shell.run(f"scancel {number}").returncode == 0


def test_output_files_are_written_live_with_their_patterns(shell: Shell) -> None:
    done = shell.run(
        "sbatch --parsable -J named -o '%x-%j-%u.out' --wrap 'echo first; while [ ! -e go ]; do sleep 0.05; done; echo last'"
    )
    number = done.stdout.strip()
    user = shell.run("id -un").stdout.strip()
    path = shell.folder / f"named-{number}-{user}.out"
    eventually(lambda: path.exists() and path.read_text() == "first\n", "the first line, while it runs")
    (shell.folder / "go").touch()
    eventually(lambda: path.read_text() == "first\nlast\n", "the last line")


def test_a_folder_that_is_missing_fails_the_job(shell: Shell) -> None:
    done = shell.run("sbatch --wait -o no/such/out --wrap 'touch ran'")
    assert done.returncode == 1
    assert not (shell.folder / "ran").exists()


def test_arrays_write_a_file_for_each_task(shell: Shell) -> None:
    done = shell.run("sbatch --wait --parsable -a 3-4 --wrap 'echo $SLURM_ARRAY_TASK_ID'")
    number = done.stdout.strip()
    files = {path.name: path.read_text() for path in shell.folder.glob("slurm-*.out")}
    assert files == {f"slurm-{number}_3.out": "3\n", f"slurm-{number}_4.out": "4\n"}


def test_a_signal_is_for_the_steps_or_the_script(shell: Shell) -> None:
    script = (
        "trap 'echo script' USR1; srun -n 1 sh -c 'trap \"echo task; exit 0\" USR1; touch ready; while :; do sleep 0.05; done' &\n"
        "while [ ! -e stop ]; do sleep 0.05; done; wait"
    )
    (shell.folder / "job.sh").write_text(f"#!/bin/sh\n{script}\n")
    number = shell.run("sbatch --parsable -o job.out job.sh").stdout.strip()
    out = shell.folder / "job.out"
    eventually((shell.folder / "ready").exists, "the task is ready")
    assert shell.run(f"scancel --batch -s USR1 {number}").returncode == 0
    eventually(lambda: out.read_text() == "script\n", "the script heard it")
    assert shell.run(f"scancel --signal=SIGUSR1 {number}").returncode == 0
    eventually(lambda: "task\n" in out.read_text(), "the task heard it")
    assert out.read_text().count("script") == 1
    (shell.folder / "stop").touch()
    eventually(lambda: shell.run(f"squeue -h -j {number}").stdout == "", "it ends by itself")


def test_lattice_cancel_sends_signals_too(shell: Shell, slurm_cluster: LocalCluster) -> None:
    done = shell.run(
        "sbatch --parsable -o sig.out --wrap 'trap \"echo heard; exit 0\" USR2; touch up; while :; do sleep 0.05; done'"
    )
    eventually((shell.folder / "up").exists, "the script is ready")
    told = slurm_cluster.cli("cancel", "--signal", "USR2", "--to", "entrypoint", f"a{done.stdout.strip()}")
    assert told.stdout == f"a{done.stdout.strip()} signalled with USR2\n"
    eventually(lambda: (shell.folder / "sig.out").read_text() == "heard\n", "the script heard it")


def test_a_signal_comes_before_the_limit(shell: Shell) -> None:
    out = shell.batch("trap 'echo early; exit 0' USR1; while :; do sleep 0.05; done", "-t 1 --signal=B:USR1@58")
    assert out == "early\n"


def _shown(shell: Shell, number: str, letters: str) -> str:
    return shell.run(f"squeue -h -o '{letters}' -j {number}").stdout.strip()


def test_scontrol_holds_releases_and_changes_jobs(shell: Shell) -> None:
    number = shell.run("sbatch --parsable -H -o /dev/null --wrap 'sleep 60'").stdout.strip()
    assert _shown(shell, number, "%T %r") == "PENDING JobHeldUser"
    done = shell.run(f"scontrol update JobId={number} TimeLimit=7 JobName=other")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert _shown(shell, number, "%l %j") == "7:00 other"
    assert shell.run(f"scontrol release {number}").returncode == 0
    eventually(lambda: _shown(shell, number, "%T") == "RUNNING", "it starts")
    assert shell.run(f"scontrol requeuehold {number}").returncode == 0
    eventually(lambda: _shown(shell, number, "%T %r") == "PENDING JobHeldUser", "it waits again, held")
    assert shell.run(f"scancel {number}").returncode == 0


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "scontrol hold 99999",
            "Invalid job id specified for job 99999\nslurm_suspend error: Invalid job id specified\n",
        ),
        ("scontrol requeue 99999", "Invalid job id specified for job 99999\n"),
        ("scontrol hold", "too few arguments for keyword:hold\n"),
        ("scontrol update", "too few arguments for update keyword\n"),
        ("scontrol update jobid=99999 timelimit=1", "Invalid job id specified for job 99999\n"),
        ("scontrol update nodename=nope state=resume", "slurm_update error: Invalid node name specified\n"),
        (
            "scontrol update nodename=n1 state=drain",
            "You must specify a reason when DOWNING or DRAINING a node. Request denied\n",
        ),
    ],
)
def test_scontrol_complains_as_slurm_does(shell: Shell, line: str, text: str) -> None:
    done = shell.run(line)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", text)


def test_scontrol_drains_and_resumes_nodes(shell: Shell, slurm_cluster: LocalCluster) -> None:
    assert shell.run("scontrol update NodeName=n[1-2] State=DRAIN Reason=upkeep").returncode == 0
    slurm_cluster.wait_node("n1", "Drained")
    assert "drain" in shell.run("sinfo -h -n n1 -o %T").stdout
    slurm_cluster.wait_node("n2", "Drained")
    assert shell.run("scontrol update NodeName=n[1-2] State=RESUME").returncode == 0
    slurm_cluster.wait_node("n1", "Ready")
    again = shell.run("scontrol update nodename=n1 state=resume")
    assert again.stderr.startswith("slurm_update error: Invalid node state specified\n")


def test_scontrol_suspends_and_resumes(shell: Shell, slurm_cluster: LocalCluster) -> None:
    script = "while [ ! -e stop ]; do echo x >>beats; sleep 0.02; done"
    number = shell.run(f"sbatch --parsable -o /dev/null --wrap '{script}'").stdout.strip()
    beats = shell.folder / "beats"
    eventually(beats.exists, "it runs")
    assert shell.run(f"scontrol suspend {number}").returncode == 0
    assert _shown(shell, number, "%T") == "SUSPENDED"
    assert slurm_cluster.allocation(f"a{number}")["suspended"] is True

    def stands_still() -> bool:
        before = beats.stat().st_size
        time.sleep(0.3)
        return beats.stat().st_size == before

    eventually(stands_still, "nothing moves")
    assert slurm_cluster.cli("resume", f"a{number}").stdout == f"a{number} resumed\n"
    before = beats.stat().st_size
    eventually(lambda: beats.stat().st_size > before, "it goes on")
    (shell.folder / "stop").touch()
    eventually(lambda: _shown(shell, number, "%T") == "", "it ends")
    done = shell.run(f"scontrol suspend {number}")
    assert (done.returncode, done.stderr) == (1, f"Job/step already completing or completed for job {number}\n")


def test_scontrol_creates_and_deletes_reservations(shell: Shell) -> None:
    done = shell.run("scontrol create reservation starttime=now+1hour duration=60 users=root nodes=n1")
    assert (done.returncode, done.stdout) == (0, "Reservation created: root_1\n")
    assert "root_1" in shell.run("scontrol show reservation").stdout
    assert shell.run("scontrol delete reservationname=root_1").returncode == 0
    again = shell.run("scontrol delete reservationname=root_1")
    assert again.returncode == 1
    assert again.stderr == "delete_reservation reservationname=root_1: Requested reservation is invalid\n"
    assert shell.run("scontrol create reservation nodes=n1").returncode == 1


def test_native_submissions_write_files_and_hear_early_signals(shell: Shell, slurm_cluster: LocalCluster) -> None:
    script = "trap 'echo early; exit 0' USR1; echo begun; while :; do sleep 0.05; done"
    words = ["submit", "--wait", "--stdout", "%x-%j.log", "--name", "own", "--walltime", "60s", "--signal", "B:USR1@58"]
    done = slurm_cluster.cli(*words, "--", "sh", "-c", script, cwd=shell.folder)
    assert done.returncode == 0
    (path,) = shell.folder.glob("own-*.log")
    assert path.read_text() == "begun\nearly\n"


class Talk:
    """A program whose input and output are pipes."""

    def __init__(self, shell: Shell, *words: str) -> None:
        self.process = subprocess.Popen(
            words,
            env=shell.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "Talk":
        self.process.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def until(self, line: str) -> list[str]:
        assert self.process.stdout is not None
        lines: list[str] = []
        while line not in lines:
            lines.append(self.process.stdout.readline().rstrip("\n"))
            assert lines[-1] or self.process.poll() is None, (lines, self.process.communicate())
        return lines


def test_sattach_shows_a_running_step_feeds_it_and_leaves_it_alone(shell: Shell) -> None:
    script = "echo out of $SLURM_PROCID; echo err of $SLURM_PROCID >&2; while read line; do echo got $line; done"
    number = shell.run("salloc -n2 --no-shell").stderr.split()[-1]
    with Talk(shell, "srun", "--jobid", number, "-n2", "-i", "0", "sh", "-c", script) as srun:
        srun.say("one")
        srun.until("got one")
        layout = shell.run(f"sattach --layout {number}.0").stdout
        assert "Job step layout:\n  2 tasks, " in layout
        with Talk(shell, "sattach", "-l", "--error-filter=1", f"{number}.0") as joined:
            joined.say("two")
            shown = joined.until("0: got two")
            assert {"0: out of 0", "1: out of 1", "0: got one"} <= set(shown)
            srun.until("got two")
            joined.process.send_signal(signal.SIGINT)
            _, said = joined.process.communicate(timeout=20)
            assert (joined.process.returncode, said) == (130, "1: err of 1\n")
        with Talk(shell, "sattach", "-l", "--input-filter=0", f"{number}.0") as joined:
            joined.say("by name")
            joined.until("0: got by name")
            srun.until("got by name")
            joined.process.send_signal(signal.SIGINT)
            joined.process.communicate(timeout=20)
        other = shell.run(f"sattach --input-filter=1 {number}.0")
        assert (other.returncode, "only task 0 takes input" in other.stderr) == (1, True), other
        srun.say("three")
        srun.until("got three")
        _, _ = srun.process.communicate(timeout=20)
        assert srun.process.returncode == 0
    for words, told in (
        (f"sattach {number}.0", "Job/step already completing or completed"),
        (f"sattach {number}.7", "Invalid job step id specified"),
        ("sattach 99999.0", "Invalid job id specified"),
        (f"sattach {number}", "Invalid job step id"),
        ("sattach", "No job step given"),
    ):
        done = shell.run(words)
        assert (done.returncode, told in done.stderr) == (1, True), done


def test_sallocs_shell_is_on_the_first_node_where_the_site_wants_it(programs: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with LocalCluster(nodes=1, settings={"slurm.salloc_on_node": "true"}) as cluster:
        shell = Shell(cluster, programs, tmp_path)
        shell.environment["SHELL"] = "/bin/sh"
        done = shell.run("salloc", stdin="stty -echo; echo on $LATTICE_NODE_ID of $SLURM_JOB_ID; tty; exit 5\n")
        number = done.stderr.partition("Granted job allocation ")[2].split()[0]
        [node] = cluster.nodes()
        assert (done.returncode, f"on {node} of {number}" in done.stdout, "/dev/pts/" in done.stdout) == (5, True, True)
        assert f"Relinquishing job allocation {number}" in done.stderr
        assert shell.run("salloc sh -c 'echo here ${LATTICE_NODE_ID:-nowhere}'").stdout == "here nowhere\n"
        cluster.wait_end(f"a{number}")
