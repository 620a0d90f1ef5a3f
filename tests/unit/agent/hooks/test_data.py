"""Data of a run on its node: what is mounted where, what is waited for, and what is refused."""

import asyncio
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lattice.agent.checkpoints.doors import Doors
from lattice.agent.containers.node import NodeContainers
from lattice.agent.hooks.data import DataHook, DataSettings, directory_features
from lattice.agent.hooks.protocol import Finished, HookFailed, Launch, RunImpossible
from lattice.agent.hooks.scratch import NO_SCRATCH, ScratchSettings
from lattice.agent.launcher import launch_hooks
from lattice.agent.machine.state import Retention
from lattice.agent.messages import NodeFacts
from lattice.agent.runs.launch import AccountPolicy
from lattice.agent.settings import Settings
from lattice.ports.nodes.agents import RunKey, StartOrder
from lattice.ports.nodes.data import DataOrder

KEY = RunKey(7, 1)
pytestmark = pytest.mark.root


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    return folder


def mounted(base: Path, *mounts: DataOrder, hot: Path | None = None, wanted: bool = True) -> list[dict[str, Any]]:
    request: dict[str, Any] = {"env": {}, "uid": 1000, "gid": 1000, "groups": [1000, 4]}
    hook = DataHook(DataSettings(hot=hot, targets=(str(base),)), base.parent / "state")
    order = StartOrder(key=KEY, allocation_id="a7", user="ada", data=mounts)
    assert hook.applies(order) == bool(mounts)
    asyncio.run(hook.prepare(Launch(order=order, request=request, leave=lambda left: None, say=lambda text: wanted)))
    asyncio.run(hook.undo(Finished(key=KEY, allocation_id="a7")))
    return list(request.get("mounts", []))


def test_a_copy_is_mounted_read_only_in_a_folder_of_the_runs_own(base: Path, tmp_path: Path) -> None:
    (tmp_path / "hot" / "k.1").mkdir(parents=True)
    copy = DataOrder(source="s3://b/set", target=f"{base}/set", hot=True, folder="k.1")
    assert mounted(base, copy, hot=tmp_path / "hot") == [
        {"kind": "empty", "target": str(base), "source": ""},
        {"kind": "read_only", "target": f"{base}/set", "source": str(tmp_path / "hot" / "k.1")},
    ]


def test_a_source_itself_is_opened_with_the_rights_of_the_user(base: Path) -> None:
    (base / "there").mkdir()
    found = mounted(
        base,
        DataOrder(source="file:///warm/set", target=str(base)),
        DataOrder(source="file:///warm/out", target=f"{base}/there", writable=True),
    )
    rights = {"uid": 1000, "gid": 1000, "groups": [1000, 4]}
    assert [(each["kind"], each["source"], each["rights"]) for each in found] == [
        ("read_only", "/warm/set", rights),
        ("bind", "/warm/out", rights),
    ]


def test_a_run_waits_for_the_rest_of_a_copy(base: Path, tmp_path: Path) -> None:
    hot = tmp_path / "hot"
    hot.mkdir()
    copy = DataOrder(source="s3://b/set", target=f"{base}/set", hot=True, folder="k.1")
    said: list[str] = []

    def say(text: str) -> bool:
        said.append(text)
        (hot / "k.1").mkdir()
        return True

    request: dict[str, Any] = {"env": {}, "uid": 0, "gid": 0}
    order = StartOrder(key=KEY, data=(copy,))
    hook = DataHook(DataSettings(hot=hot, targets=(str(base),)), base.parent / "state")
    asyncio.run(hook.prepare(Launch(order=order, request=request, leave=lambda left: None, say=say)))
    assert said == ["waiting for the rest of s3://b/set"]
    assert request["mounts"][-1]["source"] == str(hot / "k.1")
    with pytest.raises(HookFailed, match="not wanted any more"):
        mounted(base, DataOrder(source="s3://b/x", target=f"{base}/x", hot=True, folder="x.1"), hot=hot, wanted=False)


def test_without_a_copy_the_source_is_mounted_or_the_reason_is_given(base: Path, tmp_path: Path) -> None:
    failed = tmp_path / "failed"
    failed.mkdir()
    (failed / "k.1").write_text(json.dumps({"tries": 3, "reason": "it is gone"}))
    (failed / "torn").write_text("{")
    copy = DataOrder(source="file:///warm/set", target=f"{base}/set", hot=True, folder="k.1")
    assert mounted(base, copy, hot=tmp_path)[-1]["source"] == "/warm/set"
    with pytest.raises(RunImpossible, match="s3://b/set cannot be mounted: it is gone"):
        mounted(base, DataOrder(source="s3://b/set", target=f"{base}/set", hot=True, reason="it is gone"))
    with pytest.raises(HookFailed, match="no hot tier"):
        mounted(base, copy)


def test_only_folders_of_root_are_mounted_on(base: Path, tmp_path: Path) -> None:
    source = "file:///warm/set"
    with pytest.raises(RunImpossible, match=r"below .* only"):
        mounted(base, DataOrder(source=source, target="/etc/x"))
    (base / "users").mkdir()
    os.chown(base / "users", 1000, 1000)
    for target in (f"{base}/users", f"{base}/users/inner"):
        with pytest.raises(RunImpossible, match="belongs to a user"):
            mounted(base, DataOrder(source=source, target=target))
    with pytest.raises(RunImpossible, match="has other things"):
        mounted(base, DataOrder(source=source, target=f"{base}/new"))
    (base / "link").symlink_to("/etc")
    with pytest.raises(RunImpossible, match="belongs to a user"):
        mounted(base, DataOrder(source=source, target=f"{base}/link/x"))
    base.chmod(0o777)
    with pytest.raises(RunImpossible, match="belongs to a user"):
        mounted(base, DataOrder(source=source, target=str(base)))


def test_data_is_mounted_before_scratch_hides_tmp(tmp_path: Path) -> None:
    """The hot tier, or a source, may lie in /tmp; a run that shares a node has another /tmp from then on."""
    facts = cast("NodeFacts", SimpleNamespace(node_id="n1", cpus=4))
    settings = Settings(
        state_dir=tmp_path,
        facts=facts,
        policy=AccountPolicy(agent_uid=0, agent_user="root"),
        retention=Retention(),
        output_limit=1,
        grace_s=1.0,
        scratch=ScratchSettings(folder=tmp_path / "scratch"),
    )
    containers, doors = cast("NodeContainers", SimpleNamespace(fetcher=None)), cast("Doors", None)
    names = [hook.name for hook in launch_hooks(settings, containers, doors)]
    assert names.index("data") < names.index("scratch")


def test_a_node_offers_data_when_its_shim_can_mount_it() -> None:
    assert directory_features(NO_SCRATCH, ("bind", "read_only", "empty")) == {"data"}
    assert directory_features(NO_SCRATCH, ("bind",)) == set()
