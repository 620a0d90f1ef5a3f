"""The launch hook of checkpoints: directory and control folder, what to continue from, and what is left."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from lattice.agent.checkpoints.control import RESUME_FROM, checkpoint_variables
from lattice.agent.checkpoints.directories import Manifest, make_checkpoint, seal
from lattice.agent.checkpoints.doors import Doors
from lattice.agent.hooks import checkpoints
from lattice.agent.hooks.checkpoints import CheckpointHook
from lattice.agent.hooks.protocol import Finished, HookFailed, Launch, RunImpossible
from lattice.agent.results.checkpoints import CheckpointStore, NotFetched
from lattice.agent.runs.signed_store import SignedStore
from lattice.ports.nodes.agents import RunKey, StartOrder
from lattice.ports.nodes.checkpoints import CheckpointSetup

KEY = RunKey(7, 1)


async def _nowhere(key: RunKey, port: int) -> tuple[str, int]:
    raise OSError("nothing listens")


def hook(state: Path, store: Path | None = None) -> CheckpointHook:
    return CheckpointHook(state, Doors(state, _nowhere), CheckpointStore(store, SignedStore))


OWNER = (os.getuid(), os.getgid())


def setup_of(root: Path, **changes: Any) -> CheckpointSetup:  # noqa: ANN401 - as the record has them
    fields = {
        "strategy": "auto",
        "protocol": "shmem",
        "directory": f"{root}/physics/-/a7/checkpoints",
        "root": str(root),
        **changes,
    }
    return CheckpointSetup(**fields)


def prepared(state: Path, setup: CheckpointSetup, store: Path | None = None) -> tuple[dict[str, Any], dict[str, str]]:
    order = StartOrder(key=KEY, allocation_id="a7", checkpoint=setup)
    (state / "run").mkdir(exist_ok=True)
    variables = checkpoint_variables(order, state)
    request: dict[str, Any] = {"env": variables, "uid": OWNER[0], "gid": OWNER[1], "dir": str(state / "run")}
    left: dict[str, str] = {}
    asyncio.run(hook(state, store).prepare(Launch(order=order, request=request, leave=left.update)))
    return request, left


def complete(root: Path, n: int) -> str:
    path = f"{root}/physics/-/a7/checkpoints/{n}"
    make_checkpoint(str(root), path, OWNER)
    seal(str(root), path, OWNER, Manifest(allocation="a7", n=n, run=1, nodes=("n1",)))
    return path


def test_a_run_gets_its_directory_and_its_shared_memory_until_it_ends(tmp_path: Path) -> None:
    root, state = tmp_path / "root", tmp_path / "state"
    root.mkdir()
    state.mkdir()
    request, left = prepared(state, setup_of(root))
    folder = state / "checkpoints" / "7.1"
    assert left == {"run": "7.1"}
    assert (root / "physics/-/a7/checkpoints").is_dir()
    assert request["env"]["LATTICE_CHECKPOINT_SHM"] == str(folder / "shm")
    assert (folder / "shm").stat().st_size == 64
    assert "LATTICE_CHECKPOINT_SIGNAL" not in request["env"]
    for _ in range(2):
        asyncio.run(hook(state).undo(Finished(key=KEY, allocation_id="a7", left=left)))
    assert not folder.exists()
    assert (root / "physics/-/a7/checkpoints").is_dir()


def test_a_root_that_is_not_mounted_sends_the_work_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(HookFailed, match=r"checkpoint: cannot make .*: No such file"):
        prepared(tmp_path, setup_of(tmp_path / "away"))


def test_a_checkpoint_to_continue_from_is_checked(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    path = complete(root, 3)
    request, _ = prepared(tmp_path, setup_of(root, resume_from=path))
    assert request["env"][RESUME_FROM] == path


def test_work_begins_again_without_its_checkpoint_and_says_so(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    path = f"{root}/physics/-/a7/checkpoints/3"
    request, _ = prepared(tmp_path, setup_of(root, resume_from=path))
    assert RESUME_FROM not in request["env"]
    assert (
        tmp_path / "run" / "stderr"
    ).read_text() == f"lattice: checkpoint {path} is gone, starting from the beginning\n"


def test_a_checkpoint_that_is_in_the_object_store_alone_is_fetched(tmp_path: Path) -> None:
    root, store, objects = tmp_path / "root", tmp_path / "store", "physics/-/a7/checkpoints/3"
    for each in (root, store / objects / "files", store / objects / "contents.json"):
        each.mkdir(parents=True) if not each.suffix else each.touch()
    (store / objects / "files" / "MANIFEST").write_text("{}")
    (store / objects / "files" / "state").write_text("12")
    path = f"{root}/{objects}"
    setup = setup_of(root, resume_from=path, objects=objects, must_resume=True)
    request, _ = prepared(tmp_path, setup, store)
    assert request["env"][RESUME_FROM] == path
    assert (Path(path) / "state").read_text() == "12"


def test_a_copy_that_is_on_its_way_is_awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "LOOK_S", 0.01)
    root, objects = tmp_path / "root", "physics/-/a7/checkpoints/3"
    root.mkdir()
    looks: list[int] = []

    async def get(self: CheckpointStore, setup: CheckpointSetup, owner: tuple[int, int]) -> bool:
        looks.append(1)
        if len(looks) == 3:
            complete(root, 3)
        return len(looks) == 3

    monkeypatch.setattr(CheckpointStore, "get", get)
    setup = setup_of(root, resume_from=f"{root}/{objects}", objects=objects, is_awaited=True)
    request, _ = prepared(tmp_path, setup)
    assert (request["env"][RESUME_FROM], len(looks)) == (f"{root}/{objects}", 3)


def test_a_store_that_cannot_be_read_costs_the_work_no_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def get(self: CheckpointStore, setup: CheckpointSetup, owner: tuple[int, int]) -> bool:
        raise NotFetched("the store answered with status 503")

    monkeypatch.setattr(CheckpointStore, "get", get)
    root = tmp_path / "root"
    root.mkdir()
    setup = setup_of(root, resume_from=f"{root}/x/3", objects="x/3")
    with pytest.raises(HookFailed, match="from the object store: the store answered with status 503"):
        prepared(tmp_path, setup)


def test_a_checkpoint_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(RunImpossible, match="there is no complete checkpoint in"):
        prepared(tmp_path, setup_of(root, strategy="", resume_from=f"{root}/x/1", must_resume=True))


def test_work_without_checkpoints_does_not_meet_the_hook(tmp_path: Path) -> None:
    assert not hook(tmp_path).applies(StartOrder(key=KEY))
    assert checkpoint_variables(StartOrder(key=KEY), tmp_path) == {}
