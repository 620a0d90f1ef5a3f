"""Device files that a run may open, and those that it may not: real device files, opened by real processes."""

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.agent.shim.cgroups import open_root
from lattice.agent.shim.confinement.devices import assemble, parse_rule, rule_text
from lattice.agent.shim.limits import Limits
from tests.conftest import missing
from tests.integration.agent.shim_process import ShimProcess
from tests.integration.agent.test_shim_steps import request, step_end

STANDARD = ["c 1:3", "c 1:5", "c 1:7", "c 1:8", "c 1:9", "c 5:0", "c 5:2", "c 136:*"]
# Root may open it by its mode: what refuses it is the group of the run.
FOREIGN = os.makedev(1, 11)  # the kernel's log, under another name


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "foreign"
    os.mknod(path, 0o666 | stat.S_IFCHR, FOREIGN)
    path.chmod(0o666)
    yield path
    path.unlink()


def opening(*paths: object) -> str:
    return "; ".join(f"(: < {path}) 2>/dev/null && echo {path} || echo no {path}" for path in paths)


def said(shim: ShimProcess, number: int) -> list[str]:
    return (shim.run_dir(number) / "stdout").read_text().splitlines()


@pytest.mark.root
def test_run_opens_its_own_devices_and_no_others(root_shim: ShimProcess, foreign: Path) -> None:
    agent = root_shim.connect()
    assert "devices" in agent.ask("list")["limits"]
    script = opening("/dev/null", "/dev/zero", "/dev/urandom", foreign)
    for number, devices in ((1, STANDARD), (2, [*STANDARD, "c 1:11"]), (3, None)):
        limits = {"pids": 50} | ({"devices": devices} if devices is not None else {})
        agent.ask("start", **{**root_shim.request(number, "sh", "-c", script), "limits": limits})
        assert agent.ended(number)["exit_code"] == 0
    assert said(root_shim, 1) == ["/dev/null", "/dev/zero", "/dev/urandom", f"no {foreign}"]
    assert said(root_shim, 2)[-1] == said(root_shim, 3)[-1] == str(foreign)


@pytest.mark.root
def test_steps_are_confined_with_their_run_and_where_there_is_none(root_shim: ShimProcess, foreign: Path) -> None:
    agent = root_shim.connect()
    limits = {"devices": STANDARD}
    agent.ask("start", **root_shim.request(1, "sleep", "300"), limits=limits)
    for number in (1, 2):  # the second one has no run on this node and brings its limits along
        fields = request(root_shim, number, "sh", "-c", f": < /dev/zero && : < {foreign}")
        assert agent.ask("launch_step", **{**fields, "limits": limits})["ok"]
        assert step_end(agent, number)["tasks"][0]["exit_code"] != 0
    agent.ask("stop", number=1, run=1, grace_s=0.0, why="cancelled")
    agent.ended(1)


@pytest.mark.root
def test_terminals_work_in_a_confined_run(root_shim: ShimProcess) -> None:
    agent = root_shim.connect()
    script = "import os; m, s = os.openpty(); os.write(s, b'x'); print(os.ttyname(s), os.read(m, 1).decode())"
    fields = root_shim.request(1, "python3", "-S", "-c", script)
    agent.ask("start", **fields, limits={"devices": STANDARD})
    assert agent.ended(1)["exit_code"] == 0
    assert said(root_shim, 1)[0].startswith("/dev/pts/")


@pytest.mark.root
def test_controller_of_v1_does_the_same_where_it_is_mounted(foreign: Path) -> None:
    root = open_root(f"lattice/test-devices-{os.getpid()}")
    assert root is not None
    if "devices" not in root.roots:
        missing("the v1 devices controller")
    try:
        assert root.can_limit("devices")
        root.gate.way = "v1"
        assert root._open_v1("devices")
        group = root.create("alloc-1.1", Limits(devices=tuple(map(parse_rule, STANDARD))))
        assert group.held == ("devices",)
        join = "".join(f"echo 0 > {file}; " for file in group.all_join_files)
        for path, can_open in (("/dev/zero", True), (foreign, False)):
            tried = subprocess.run(["sh", "-c", f"{join} : < {path}"], stderr=subprocess.DEVNULL, check=False)
            assert (tried.returncode == 0) is can_open
    finally:
        root.sweep(10)
        root.remove()


def test_rules_are_read_as_they_are_written() -> None:
    for text in ("c 1:3", "b 7:0", "c 136:*"):
        assert rule_text(parse_rule(text)) == text
    for wrong in ("", "c", "x 1:3", "c 1", "c a:1", "c 1:-1", "c 5000:1", 7, None):
        with pytest.raises(ValueError, match="not a device"):
            parse_rule(wrong)
    assert len(assemble(())) % 8 == 0
