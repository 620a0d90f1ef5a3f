"""Launches that need no thread: users and directories of which nothing has to be waited for."""

import os
import pwd
from pathlib import Path

import msgspec
import pytest

from lattice.agent.runs import account_cache as account_cache
from lattice.agent.runs.account_cache import MAX_REMEMBERED, MAX_SCRIPT_BYTES, REMEMBERED_S, AccountCache, is_local
from lattice.agent.runs.launch import AccountPolicy, LaunchRefused
from lattice.ports.nodes.agents import RunKey, StartOrder

ME = pwd.getpwuid(os.geteuid())
POLICY = AccountPolicy(agent_uid=ME.pw_uid, agent_user=ME.pw_name, allowed=frozenset({ME.pw_name}))


class Watch:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def order(directory: Path, user: str = ME.pw_name) -> StartOrder:
    return StartOrder(key=RunKey(1, 1), user=user, argv=("true",), cwd=str(directory))


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every directory counts as one of this machine, whatever the tests run on."""
    monkeypatch.setattr(account_cache, "is_local", lambda directory: True)


@pytest.mark.usefixtures("near")
def test_a_user_is_remembered_for_a_while_where_something_was_started(tmp_path: Path) -> None:
    watch = Watch()
    known = AccountCache(POLICY, watch)
    asked = order(tmp_path)
    assert known.recall(asked) is None
    account = known.meet(asked)
    assert account.uid == ME.pw_uid
    assert known.recall(asked) == account
    assert known.recall(order(tmp_path / "other")) is None
    watch.now_s += REMEMBERED_S + 1
    assert known.recall(asked) is None


@pytest.mark.usefixtures("near")
def test_a_directory_that_has_gone_is_looked_at_again_elsewhere(tmp_path: Path) -> None:
    known, folder = AccountCache(POLICY), tmp_path / "work"
    folder.mkdir()
    known.meet(order(folder))
    assert known.recall(order(folder)) is not None
    folder.rmdir()
    assert known.recall(order(folder)) is None


@pytest.mark.usefixtures("near")
def test_what_does_not_exist_is_not_remembered(tmp_path: Path) -> None:
    known = AccountCache(POLICY)
    with pytest.raises(LaunchRefused):
        known.meet(order(tmp_path, user="nobody-of-this-name"))
    known.meet(order(tmp_path / "missing"))
    assert known.recall(order(tmp_path / "missing")) is None


@pytest.mark.usefixtures("near")
def test_a_large_script_is_written_in_a_thread(tmp_path: Path) -> None:
    known = AccountCache(POLICY)
    known.meet(order(tmp_path))
    large = msgspec.structs.replace(order(tmp_path), script=b"x" * (MAX_SCRIPT_BYTES + 1))
    assert known.recall(large) is None
    assert known.recall(order(tmp_path)) is not None


@pytest.mark.usefixtures("near")
def test_memory_is_bounded(tmp_path: Path) -> None:
    known = AccountCache(POLICY)
    first = msgspec.structs.replace(order(tmp_path), cwd=str(tmp_path))
    known.meet(first)
    for count in range(MAX_REMEMBERED):
        known.meet(msgspec.structs.replace(first, cwd=f"{tmp_path}/" + "/" * count))
    assert known.recall(first) is None


@pytest.mark.parametrize(("kind", "expected"), [("ext4", True), ("nfs4", False), ("autofs", False), ("lustre", False)])
def test_only_file_systems_of_this_machine_are_local(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, expected: bool
) -> None:
    device = tmp_path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"21 1 {number} / / rw,relatime shared:1 - {kind} source rw\n22 21 0:9999 / /x rw - ext4 d rw\n")
    monkeypatch.setattr(account_cache, "MOUNTS", mounts)
    assert is_local(str(tmp_path)) is expected
    assert not is_local(str(tmp_path / "missing"))


def test_a_device_that_no_mount_tells_of_is_not_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text("22 21 0:9999 / /x rw - ext4 d rw\n")
    monkeypatch.setattr(account_cache, "MOUNTS", mounts)
    assert not is_local(str(tmp_path))
