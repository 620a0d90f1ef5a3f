"""A shim that is not root shows a run its images: in a user namespace, by squashfuse, and without a trace afterwards."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.image_files import MOUNT, make_greeter
from tests.integration.agent.shim_process import ShimProcess, alive, wait_for
from tests.integration.agent.test_shim_steps import about, request, step_end, written
from tests.rootless import USER, keepers_of, require_rootless_images, servers_of

pytestmark = pytest.mark.root

Mounts = list[dict[str, str]]
# In a namespace below which there may be no other.
CONFINED = """
echo 0 >/proc/sys/user/max_user_namespaces
exec {python} -S -c 'from lattice.agent.shim.rootless.userns import why_not; print(why_not())'
"""


@pytest.fixture
def program() -> str:
    return require_rootless_images()


@pytest.fixture
def shim(make_shim: Callable[..., ShimProcess]) -> ShimProcess:
    return make_shim(uid=USER, cgroup=False)


@pytest.fixture
def mounts(program: str, shim: ShimProcess) -> Mounts:
    image = shim.dir / "greeter.squashfs"
    make_greeter(image)
    return [{"kind": "squashfuse", "program": program, "source": str(image), "target": MOUNT}]


def wait_for_nothing(shim: ShimProcess) -> None:
    wait_for(lambda: not servers_of(shim.dir), "squashfuse to end")
    wait_for(lambda: shim.process.poll() is not None or not keepers_of(shim.process.pid), "the keeper to end")


def runs_of(shim: ShimProcess) -> object:
    """As an agent asks that tries again: a process that was being forked may hold the socket of the shim before for a moment."""
    try:
        return shim.connect().ask("list")["runs"]
    except ConnectionError:
        return None


def start(shim: ShimProcess, number: int, script: str, mounts: Mounts) -> Any:  # noqa: ANN401 - a message
    agent = shim.connect()
    answer = agent.ask("start", **shim.request(number, "sh", "-c", script), mounts=mounts)
    assert answer["ok"], answer
    return agent


def test_run_sees_its_image_read_only_as_itself_and_the_host_sees_none(shim: ShimProcess, mounts: Mounts) -> None:
    script = (
        f"id -u; id -g; grep ' {MOUNT} ' /proc/self/mounts | cut -d' ' -f2-4 | cut -d, -f1-3; GREETING=you {MOUNT}/bin/greet; "
        f"grep CapEff /proc/self/status; touch {MOUNT}/x 2>&1 | grep -o 'Read-only file system'"
    )
    agent = start(shim, 1, script, mounts)
    assert agent.ended(1)["cause"] == "exit"
    assert shim.output(1).splitlines() == [
        str(USER),
        str(USER),
        f"{MOUNT} fuse.squashfuse ro,nosuid,nodev",
        "hello from you",
        "CapEff:\t0000000000000000",
        "Read-only file system",
    ]
    assert not os.path.ismount(MOUNT)
    wait_for_nothing(shim)


def test_mount_point_that_the_host_lacks_is_made_for_the_run_and_all_else_is_as_on_the_host(
    shim: ShimProcess, mounts: Mounts
) -> None:
    target = f"/lattice-test-{os.getpid()}"
    top = f"ls -A / | grep -vx {target[1:]}; readlink /bin /proc/self/cwd; stat -c %d:%i /usr /etc/passwd /dev/null; touch /x"
    agent = start(shim, 1, f"{top}; echo kept > own; {target}/bin/greet", [{**mounts[0], "target": target}])
    agent.ended(1)
    agent = start(shim, 2, f"{top}; echo hello from", [])
    agent.ended(2)
    assert shim.output(1) == shim.output(2)
    assert (shim.scratch / "own").read_text() == "kept\n"
    assert not Path(target).exists()
    wait_for_nothing(shim)


def test_root_stays_that_of_the_host_where_the_mount_point_exists(shim: ShimProcess, mounts: Mounts) -> None:
    agent = start(shim, 1, "stat -c %d:%i /; ls /mnt", [{**mounts[0], "target": "/mnt"}])
    agent.ended(1)
    own = os.stat("/")
    assert shim.output(1).splitlines() == [f"{own.st_dev}:{own.st_ino}", "bin", "meta"]


def test_terminal_of_a_step_has_its_name_inside(shim: ShimProcess, mounts: Mounts) -> None:
    agent = shim.connect()
    fields = request(shim, 1, "sh", "-c", f"tty; GREETING=you {MOUNT}/bin/greet", pty=True)
    assert agent.ask("launch_step", **fields, mounts=mounts)["ok"]
    assert step_end(agent, 1)["tasks"][0]["exit_code"] == 0
    name, greeting = written(fields)[0].decode().split("\r\n")[:2]
    assert (name.startswith("/dev/pts/"), greeting) == (True, "hello from you")


def test_steps_share_the_file_system_of_the_run(shim: ShimProcess, mounts: Mounts) -> None:
    agent = start(shim, 1, "readlink /proc/self/ns/mnt; exec sleep 300", mounts)
    fields = request(shim, 1, "sh", "-c", f"readlink /proc/self/ns/mnt; GREETING=step {MOUNT}/bin/greet", tasks=2)
    assert agent.ask("launch_step", **fields)["ok"]
    assert [task["exit_code"] for task in step_end(agent, 1)["tasks"]] == [0, 0]
    wait_for(lambda: shim.output(1), "the run to say where it is")
    assert written(fields) == {rank: f"{shim.output(1)}hello from step\n".encode() for rank in range(2)}
    assert len(servers_of(shim.dir)) == 1
    agent.ask("stop", number=1, run=1, grace_s=0.0, why="cancelled")
    agent.ended(1)
    wait_for_nothing(shim)


def test_steps_without_a_run_bring_the_image_along_and_share_it(shim: ShimProcess, mounts: Mounts) -> None:
    agent = shim.connect()
    script = "readlink /proc/self/ns/mnt; read line; greet"
    path = {"PATH": f"{MOUNT}/bin:/usr/bin:/bin", "GREETING": "step"}
    both = [request(shim, 1, "sh", "-c", script, step=step, env=path, has_input=True) for step in (0, 1)]
    for fields in both:
        answer = agent.ask("launch_step", **fields, mounts=mounts)
        assert answer["ok"], answer
    assert len(servers_of(shim.dir)) == 1
    for fields in both:
        agent.ask("feed_step", **about(fields), offset=0, data="Cg==", eof=True)
        step_end(agent, 1, fields["step"])
    first, second = (written(fields)[0] for fields in both)
    assert first == second
    assert first.endswith(b"hello from step\n")
    wait_for_nothing(shim)


def test_runs_of_all_nodes_of_a_machine_may_look_at_each_other(
    shim: ShimProcess, mounts: Mounts, make_shim: Callable[..., ShimProcess]
) -> None:
    """As ranks of MPI do that share memory, and as the same processes may without images."""
    other = make_shim(uid=USER, cgroup=False)
    asked = []
    for each in (shim, other):  # both start before one has an answer
        agent = each.connect()
        script = "readlink /proc/self/ns/user /proc/self/ns/mnt; echo $$ > pid; exec sleep 300"
        asked.append((agent, agent.send("start", **each.request(1, "sh", "-c", script), mounts=mounts)))
    assert all(agent.answer(number)["ok"] for agent, number in asked)
    pids = [each.written_pid("pid") for each in (shim, other)]
    wait_for(lambda: all(len(each.output(1).split()) == 2 for each in (shim, other)), "what they say to arrive")
    first, second = (each.output(1).split() for each in (shim, other))
    assert (first[0] == second[0], first[1] == second[1]) == (True, False)
    look = f"ls /proc/{pids[0]}/fd >/dev/null && echo seen"
    fields = request(other, 1, "sh", "-c", look)
    assert asked[1][0].ask("launch_step", **fields)["ok"]
    step_end(asked[1][0], 1)
    assert written(fields) == {0: b"seen\n"}


def test_nothing_outlives_a_shim_that_was_killed(shim: ShimProcess, mounts: Mounts) -> None:
    start(shim, 1, "echo $$ > pid; exec sleep 300", mounts)
    pid, (keeper,), (server,) = shim.written_pid("pid"), keepers_of(shim.process.pid), servers_of(shim.dir)
    shim.kill()
    wait_for(lambda: not alive(keeper) and not alive(server), "keeper and squashfuse to die with the shim")
    shim.restart()
    shim.connect()
    assert not alive(pid)


@pytest.mark.parametrize("moment", ["asked", "keeper", "server", "answered"])
def test_shim_that_is_killed_while_it_starts_a_run_leaves_nothing(
    shim: ShimProcess, mounts: Mounts, moment: str
) -> None:
    agent = shim.connect()
    asked = agent.send("start", **shim.request(1, "sh", "-c", "echo $$ > pid; exec sleep 300"), mounts=mounts)
    if moment == "answered":
        agent.answer(asked)
    elif moment != "asked":
        has_come = {"keeper": lambda: keepers_of(shim.process.pid), "server": lambda: servers_of(shim.dir)}[moment]
        wait_for(has_come, "the moment to come")
    known = [*keepers_of(shim.process.pid), *servers_of(shim.dir)]
    shim.kill()
    wait_for(lambda: not servers_of(shim.dir) and not any(alive(pid) for pid in known), "everything to die with it")
    shim.restart()
    wait_for(lambda: runs_of(shim) == [], "a new shim that knows no run")
    wait_for_nothing(shim)


@pytest.mark.parametrize("moment", ["keeper", "server"])
def test_run_whose_image_is_gone_reads_errors_and_its_last_line_says_so(
    shim: ShimProcess, mounts: Mounts, moment: str
) -> None:
    script = f"echo $$ > pid; read line < {shim.dir}/go; {MOUNT}/bin/greet; echo $?; exit 7"
    os.mkfifo(shim.dir / "go")
    agent = start(shim, 1, script, mounts)
    shim.written_pid("pid")
    found = keepers_of(shim.process.pid) if moment == "keeper" else servers_of(shim.dir)
    (pid,), victims = found, [*keepers_of(shim.process.pid), *servers_of(shim.dir)]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not any(alive(each) for each in victims), "the other to follow")
    (shim.dir / "go").write_text("\n")
    end = agent.ended(1)
    assert (end["cause"], end["why"]) == ("exit", "its images were lost: a process that served them was killed")
    assert shim.output(1) == "126\n"
    told = shim.output(1, "stderr")
    assert "Transport endpoint is not connected" in told
    assert told.endswith("failed with exit code 7; its images were lost: a process that served them was killed\n")


def test_image_that_cannot_be_served_is_refused_with_its_reason(shim: ShimProcess, mounts: Mounts) -> None:
    agent = shim.connect()
    broken = shim.dir / "broken.squashfs"
    broken.write_bytes(b"no image" * 1000)
    for number, (change, message) in enumerate(
        [
            ({"source": str(broken)}, f"cannot mount {MOUNT}: "),
            ({"source": "/no/such"}, f"cannot mount {MOUNT}: No such file or directory"),
            ({"program": "/no/such"}, f"cannot mount {MOUNT}: /no/such: No such file or directory"),
            ({"program": "/bin/true"}, f"cannot mount {MOUNT}: Transport endpoint is not connected"),
            ({"target": "/opt/no/such"}, "cannot mount the run's file system: No such file or directory"),
            ({"kind": "tmpfs"}, "this node cannot mount for a run: its agent is not root"),
        ],
        start=1,
    ):
        answer = agent.ask("start", **shim.request(number, "true"), mounts=[{**mounts[0], **change}])
        assert not answer["ok"]
        assert answer["error"].startswith(message), answer
    assert len(agent.ask("list")["runs"]) == 6
    wait_for_nothing(shim)


def test_two_images_are_served_until_the_run_ends(shim: ShimProcess, mounts: Mounts) -> None:
    second = shim.dir / "second.squashfs"
    shutil.copy(mounts[0]["source"], second)
    both = [*mounts, {**mounts[0], "source": str(second), "target": "/user-tools"}]
    agent = start(shim, 1, "cmp /user-tools/bin/greet /user-environment/bin/greet && echo same", both)
    agent.ended(1)
    assert shim.output(1) == "same\n"
    wait_for_nothing(shim)


def test_shim_says_what_it_mounts_or_why_not(shim: ShimProcess, program: str) -> None:
    listing = shim.connect().ask("list")
    assert (listing["mounts"], listing["mount_kinds"], listing["mount_problem"]) == (False, ["squashfuse"], "")


def test_shim_says_so_where_users_may_make_no_namespaces(shim: ShimProcess, program: str) -> None:
    assert program
    as_user = ["unshare", "-U", "--map-current-user", "--keep-caps", "sh", "-c", CONFINED.format(python=shim.python)]
    told = subprocess.run(
        as_user, user=USER, group=USER, extra_groups=[], env={"PYTHONPATH": str(shim.dir / "copy"), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout.startswith("users may not make user namespaces here (No space left on device)"), told.stdout
