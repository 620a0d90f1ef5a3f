"""From an order to what the shim is asked to start."""

import json
import os
import pwd
import stat
import subprocess
from pathlib import Path

import pytest

from lattice.agent.runs.devices import Devices
from lattice.agent.runs.folders import RunFolders, make_apart
from lattice.agent.runs.launch import (
    Account,
    AccountPolicy,
    LaunchRefused,
    build_environment,
    choose_directory,
    command_line,
    offer_programs,
    own_account,
    prepare,
    resolve_account,
)
from lattice.agent.runs.limits import LimitSettings, NodeSize, run_limits
from lattice.agent.shim.launch import Launch
from lattice.agent.shim_client import STANDARD_PATH
from lattice.agent.steps.folders import StepFolders
from lattice.ports.nodes.agents import EarlySignal, RunFiles, RunKey, StartOrder
from lattice.ports.nodes.probes import ProbeKind, ProbeOrder, ProbeType

KEY = RunKey(7, 2)
ME = pwd.getpwuid(os.geteuid())
ALICE = Account(name="alice", uid=5000, gid=500, groups=(500, 501), home="/home/alice", shell="/bin/bash")  # noqa: S604
ROOT_POLICY = AccountPolicy(agent_uid=0, agent_user="root")


def account(name: str, uid: int) -> Account:
    return Account(name=name, uid=uid, gid=uid, groups=(uid,), home="/", shell="/bin/sh")  # noqa: S604


@pytest.mark.parametrize(
    ("policy", "who", "reason"),
    [
        (ROOT_POLICY, account("alice", 5000), ""),
        (ROOT_POLICY, account("root", 0), "uid 0"),
        (ROOT_POLICY, account("toor", 0), "uid 0"),
        (ROOT_POLICY, account("nobody", 65534), "everybody without an account is nobody"),
        (ROOT_POLICY, account("daemon", 1), "below the least allowed one, 1000"),
        (AccountPolicy(agent_uid=0, agent_user="root", allowed=frozenset({"root"})), account("root", 0), ""),
        (AccountPolicy(agent_uid=0, agent_user="root", min_uid=1), account("daemon", 1), ""),
        (AccountPolicy(agent_uid=5000, agent_user="alice"), account("alice", 5000), ""),
        (AccountPolicy(agent_uid=5000, agent_user="alice"), account("bob", 5001), "starts only that account's work"),
        (AccountPolicy(agent_uid=12, agent_user="small"), account("small", 12), ""),
    ],
)
def test_whose_work_a_node_runs(policy: AccountPolicy, who: Account, reason: str) -> None:
    refusal = policy.refusal(who)
    assert (reason in refusal) if reason else not refusal


def test_an_account_that_the_node_does_not_know_is_refused() -> None:
    with pytest.raises(LaunchRefused, match="'nobody-of-this-name' does not exist on this node"):
        resolve_account("nobody-of-this-name", ROOT_POLICY)


def test_an_account_comes_with_all_its_groups() -> None:
    uid, name = own_account()
    found = resolve_account(name, AccountPolicy(agent_uid=uid, agent_user=name, allowed=frozenset({name})))
    assert (found.uid, found.gid) == (ME.pw_uid, ME.pw_gid)
    assert found.gid in found.groups


def test_the_environment_is_clean_and_its_order_of_rule_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_AGENT", "x")
    monkeypatch.setenv("LANG", "C.UTF-8")
    order = StartOrder(
        key=KEY,
        allocation_id="a7",
        name="train",
        env={"HOME": "/elsewhere", "MINE": "1", "LATTICE_TOKEN_FILE": "/theirs", "LATTICE_TASK_INDEX": "3"},
        nodes=("n1", "n2"),
        tasks=8,
        submit_dir="/data",
        api_url="http://localhost:1",
    )
    environment = build_environment(order, ALICE, "n2", "/run/token")
    assert environment.pop("PATH").startswith("/usr/local/sbin:")
    assert environment == {
        "HOME": "/elsewhere",
        "USER": "alice",
        "LOGNAME": "alice",
        "SHELL": "/bin/bash",
        "PYTHONUNBUFFERED": "1",
        "LANG": "C.UTF-8",
        "MINE": "1",
        "LATTICE_ALLOC_ID": "a7",
        "LATTICE_JOB_NAME": "train",
        "LATTICE_NODELIST": "n1,n2",
        "LATTICE_NNODES": "2",
        "LATTICE_NPROCS": "8",
        "LATTICE_SUBMIT_DIR": "/data",
        "LATTICE_NODE_ID": "n2",
        "LATTICE_RUN": "2",
        "LATTICE_API_URL": "http://localhost:1",
        "LATTICE_TOKEN_FILE": "/run/token",
    }


def test_members_of_a_task_group_learn_their_place_in_it() -> None:
    order = StartOrder(key=KEY, task_index=0, task_group_id="a7")
    environment = build_environment(order, ALICE, "n1", "")
    assert environment["LATTICE_TASK_INDEX"] == "0"
    assert environment["LATTICE_TASK_GROUP_ID"] == "a7"
    assert "LATTICE_TOKEN_FILE" not in environment


def test_work_finds_our_commands_last_in_its_path_and_no_other_program_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = tmp_path / "prefix" / "libexec" / "slurm"
    (slurm / "python").mkdir(parents=True)
    for name in (".forward", "aliases.sh", "sbatch"):
        (slurm / name).touch()
    monkeypatch.setattr("sys.prefix", str(tmp_path / "prefix"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "lattice").symlink_to("/gone/lattice")
    programs = offer_programs(tmp_path)
    assert offer_programs(tmp_path) == programs, "twice is harmless"
    assert sorted(os.listdir(programs)) == ["lattice", "lattice-mpi-launcher", "sbatch"]
    assert os.access(f"{programs}/lattice", os.X_OK)
    plain = build_environment(StartOrder(key=KEY), ALICE, "n1", "", programs)
    assert plain["PATH"] == f"{STANDARD_PATH}:{programs}"
    exported = build_environment(StartOrder(key=KEY, env={"PATH": "/mine"}), ALICE, "n1", "", programs)
    assert exported["PATH"] == f"/mine:{programs}"


def test_without_room_for_the_link_work_starts_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "bin").write_text("in the way")
    assert offer_programs(tmp_path) == ""
    assert build_environment(StartOrder(key=KEY), ALICE, "n1", "")["PATH"] == STANDARD_PATH


def test_the_directory_is_the_wanted_one_then_home_then_tmp(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    assert choose_directory(str(tmp_path), str(home)) == (str(tmp_path), "")
    assert choose_directory("", str(home)) == (str(home), "")
    chosen, note = choose_directory("/not/there", str(home))
    assert chosen == str(home)
    assert "/not/there does not exist on this node" in note
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "there").mkdir()
    other = Account(name="other", uid=os.getuid() + 1, gid=os.getgid() + 1, groups=(), home=str(home), shell="/bin/sh")  # noqa: S604
    tmp_path.chmod(0o755)
    # Those to whom it is closed cannot tell what is there from what is not.
    for name in ("there", "not-there"):
        assert choose_directory(str(closed / name), str(home), other) == (str(closed / name), "")
    assert choose_directory("/not/there", "/nor/there")[0] == "/tmp"
    assert choose_directory("relative", str(home))[0] == str(home)


def test_a_script_without_an_interpreter_line_runs_under_sh(tmp_path: Path) -> None:
    plain = StartOrder(key=KEY, script=b"echo hi\n", script_args=("x",))
    assert command_line(plain, tmp_path) == ["/bin/sh", f"{tmp_path}/script", "x"]
    marked = StartOrder(key=KEY, script=b"#!/bin/bash\n")
    assert command_line(marked, tmp_path) == [f"{tmp_path}/script"]
    assert command_line(StartOrder(key=KEY, argv=("a b", "c")), tmp_path) == ["a b", "c"]


def own_policy() -> AccountPolicy:
    uid, name = own_account()
    return AccountPolicy(agent_uid=uid, agent_user=name, allowed=frozenset({name}))


def test_the_folder_holds_script_and_token_and_the_record_holds_neither(tmp_path: Path) -> None:
    folders = RunFolders(tmp_path / "state", reachable=False)
    order = StartOrder(key=KEY, user=ME.pw_name, script=b"#!/bin/sh\n", token="secret", cwd="/not/there")
    request = prepare(order, folders, own_policy(), "n1", "shim-1")
    folder = folders.path(KEY)
    assert request["argv"] == [str(folder / "script")]
    assert (folder / "script").read_bytes() == b"#!/bin/sh\n"
    assert stat.S_IMODE((folder / "script").stat().st_mode) == 0o500
    assert (folder / "token").read_text() == "secret"
    assert stat.S_IMODE((folder / "token").stat().st_mode) == 0o600
    spec = json.loads((folder / "spec.json").read_text())
    assert spec["shim_id"] == "shim-1"
    assert spec["order"]["token"] == ""
    assert stat.S_IMODE((folder / "spec.json").stat().st_mode) == 0o600
    assert "/not/there" in (folder / "stderr").read_text()


def test_a_token_is_replaced_for_the_same_owner_where_there_is_one(tmp_path: Path) -> None:
    folders = RunFolders(tmp_path / "state", reachable=False)
    prepare(StartOrder(key=KEY, user=ME.pw_name, argv=("true",), token="old"), folders, own_policy(), "n1", "s")
    path = folders.path(KEY) / "token"
    folders.renew_token(KEY, "new")
    assert path.read_text() == "new"
    assert (stat.S_IMODE(path.stat().st_mode), path.stat().st_uid) == (0o600, ME.pw_uid)
    folders.acknowledge(KEY)
    folders.renew_token(KEY, "late")
    assert not path.exists()
    assert path.with_name("acknowledged").read_text() == ""


def test_a_refused_run_leaves_no_folder(tmp_path: Path) -> None:
    folders = RunFolders(tmp_path / "state", reachable=False)
    with pytest.raises(LaunchRefused):
        prepare(StartOrder(key=KEY, user="nobody-of-this-name", argv=("true",)), folders, own_policy(), "n1", "s")
    with pytest.raises(LaunchRefused):
        prepare(StartOrder(key=KEY, user=ME.pw_name), folders, own_policy(), "n1", "s")
    assert not folders.path(KEY).exists()


def test_other_accounts_may_pass_through_a_root_agents_folders_but_not_look_around(tmp_path: Path) -> None:
    folders = RunFolders(tmp_path / "state", reachable=True)
    prepare(StartOrder(key=KEY, user=ME.pw_name, argv=("true",)), folders, own_policy(), "n1", "s")
    for folder in (tmp_path / "state", tmp_path / "state" / "runs", folders.path(KEY)):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o711


def test_modes_do_not_depend_on_the_umask_of_the_agent(tmp_path: Path) -> None:
    folders = RunFolders(tmp_path / "state", reachable=True)
    order = StartOrder(key=KEY, user=ME.pw_name, script=b"#!/bin/sh\n", token="secret")
    before = os.umask(0o377)
    try:
        prepare(order, folders, own_policy(), "n1", "s")
    finally:
        os.umask(before)
    modes = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in folders.path(KEY).iterdir()}
    assert modes == {"spec.json": "0o600", "token": "0o600", "script": "0o500"}
    assert stat.S_IMODE(folders.path(KEY).stat().st_mode) == 0o711


def test_runs_and_steps_lie_apart_from_what_is_beside_the_agents_files(tmp_path: Path) -> None:
    make_apart(tmp_path / "tried" / "folder")
    RunFolders(tmp_path / "state", reachable=False)
    StepFolders(tmp_path / "state", reachable=False)
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == ["runs", "steps"]
    assert is_apart(tmp_path / "state") == is_apart(tmp_path / "tried"), "wherever the file system can"
    assert not is_apart(tmp_path / "state" / "runs")


def test_runs_of_a_former_release_stay_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "runs" / "7.2").mkdir(parents=True)
    RunFolders(tmp_path, reachable=False)
    assert (tmp_path / "runs" / "7.2").is_dir()
    assert not is_apart(tmp_path)


def is_apart(folder: Path) -> bool:
    said = subprocess.run(["lsattr", "-d", str(folder)], capture_output=True, text=True, check=False)
    return "T" in said.stdout.partition(" ")[0]


class Heard(dict[str, object]):
    """A request that remembers what was read of it."""

    def __init__(self, request: dict[str, object]) -> None:
        super().__init__(request)
        self.read: set[str] = set()

    def get(self, key: str, default: object = None) -> object:
        self.read.add(key)
        return super().get(key, default)


def test_all_that_the_agent_asks_for_is_read_by_the_shim(tmp_path: Path) -> None:
    """A key that only one of them knows would be ignored, or never be set."""
    files = RunFiles(stdout="/o", stderr="/e", stdin="/i", append=True)
    early = EarlySignal(signal=10, before_s=60.0, to="steps")
    order = StartOrder(
        key=KEY,
        user=ME.pw_name,
        argv=("true",),
        cwd="/",
        env={"A": "1"},
        memory_mb=64,
        walltime_s=60.0,
        grace_s=5.0,
        umask=0o27,
        files=files,
        early_signal=early,
        holds=True,
        probes=(ProbeOrder(kind=ProbeKind.LIVENESS, type=ProbeType.EXEC, command=("true",)),),
    )
    folders = RunFolders(tmp_path / "state", reachable=False)
    limits = run_limits(LimitSettings(), NodeSize(cpus=4, memory_mb=4096), 2, order.memory_mb, Devices(cpus=(0, 2)))
    request = Heard(prepare(order, folders, own_policy(), "n1", "s", devices=Devices(cpus=(0, 2))) | limits)
    launch = Launch(request)
    assert request.keys() - request.read == {"op", "number", "run", "dir"}  # whose request it is
    assert request.read - request.keys() == {"mounts", "sealed", "memory_policy"}  # which hooks and the launcher add
    assert (launch.argv, launch.cwd, launch.umask, launch.cpus) == ([b"true"], b"/", 0o27, [0, 2])
    assert (launch.limits.memory_mb, launch.walltime_s, launch.grace_s) == (64, 60.0, 5.0)
    assert (launch.stdout, launch.stderr, launch.stdin, launch.append) == (b"/o", b"/e", b"/i", True)
    assert launch.early == (10, 60.0, "steps")
    assert launch.env[b"A"] == b"1"
    assert launch.is_probed
