"""What single steps see: a namespace that others made, one that is kept under a name, and one in which a step runs."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.integration.agent.shim_process import Client, ShimProcess, wait_for
from tests.integration.agent.test_shim_steps import about, request, step_end, written

pytestmark = pytest.mark.root
Message = dict[str, Any]
MAKE = 'mount -t tmpfs lattice /mnt && echo "$0" >/mnt/file && chmod 777 /mnt && echo ready && cat'


@contextmanager
def made(text: str) -> Iterator[str]:
    """A namespace with a file that says this; what made it is gone afterwards."""
    maker = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", MAKE, text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert maker.stdout is not None
    assert maker.stdin is not None
    assert maker.stdout.readline() == "ready\n"
    try:
        yield f"/proc/{maker.pid}/ns/mnt"
    finally:
        maker.kill()
        maker.wait()
        maker.stdin.close()
        maker.stdout.close()


def run(shim: ShimProcess, agent: Client, step: int, script: str, view: Message) -> tuple[Message, bytes]:
    fields = request(shim, 5, "sh", "-c", script, step=step)
    answer = agent.ask("launch_step", **fields, view=view)
    if not answer["ok"]:
        return answer, b""
    step_end(agent, 5, step)
    return answer, written(fields).get(0, b"")


def kept_of(agent: Client) -> Message:
    return agent.ask("containers", number=5, run=1)


@pytest.fixture
def agent(root_shim: ShimProcess) -> Client:
    return root_shim.connect()


def test_step_sees_its_own_view_and_the_next_one_the_nodes(root_shim: ShimProcess, agent: Client) -> None:
    with made("own") as source:
        _, said = run(root_shim, agent, 0, "cat /mnt/file", {"source": source, "name": "5.0"})
        assert said == b"own\n"
        _, said = run(root_shim, agent, 1, "test -e /mnt/file || echo none", {})
        assert said == b"none\n"
    assert kept_of(agent)["kept"] == {}


def test_what_is_kept_stays_with_its_group_until_it_is_dropped(root_shim: ShimProcess, agent: Client) -> None:
    with made("first") as source:
        view = {"source": source, "name": "tools", "writable": True, "keep": source, "about": "digest"}
        run(root_shim, agent, 0, "echo changed >/mnt/file; echo done", view)
    told = kept_of(agent)
    fd, what = told["kept"]["tools"]
    assert (what, told["running"]) == ("digest", {})
    assert agent.ask("list")["containers"] == [[5, 1]]
    assert root_shim.groups()
    again = {"source": f"/proc/{told['pid']}/fd/{fd}", "name": "tools"}
    _, said = run(root_shim, agent, 1, "cat /mnt/file", again)
    assert said == b"changed\n"
    assert agent.ask("drop_containers", number=5, run=1)["ok"]
    assert (kept_of(agent)["kept"], agent.ask("list")["containers"]) == ({}, [])
    wait_for(lambda: not root_shim.groups(), "the group of the allocation to go")


def test_step_joins_one_that_runs_and_nothing_else(root_shim: ShimProcess, agent: Client) -> None:
    with made("shared") as source:
        running = request(root_shim, 5, "sh", "-c", "echo up; exec sleep 300", step=0)
        view = {"source": source, "name": "tools", "writable": True, "about": "digest"}
        assert agent.ask("launch_step", **running, view=view)["ok"]
    assert kept_of(agent)["running"] == {"tools": [True, "digest"]}
    _, said = run(root_shim, agent, 1, "cat /mnt/file", {"name": "tools", "join": True})
    assert said == b"shared\n"
    refused, _ = run(root_shim, agent, 2, "true", {"name": "other", "join": True})
    assert (refused["ok"], refused["error"]) == (False, 'the container "other" does not run any more')
    agent.ask("end_step", **about(running), grace_s=0, why="over")
    step_end(agent, 5, 0)
    refused, _ = run(root_shim, agent, 3, "true", {"name": "tools", "join": True})
    assert not refused["ok"]
    assert agent.ask("containers", number=6, run=1)["running"] == {}


def test_end_of_a_run_drops_what_its_steps_kept(root_shim: ShimProcess, agent: Client) -> None:
    agent.ask("start", **root_shim.request(5, "sleep", "300"))
    with made("kept") as source:
        run(root_shim, agent, 0, "echo ran", {"source": source, "name": "tools", "keep": source})
    assert set(kept_of(agent)["kept"]) == {"tools"}
    agent.ask("stop", number=5, run=1, grace_s=0)
    agent.ended(5)
    assert kept_of(agent)["kept"] == {}


def test_view_that_is_gone_is_refused_and_leaves_nothing(root_shim: ShimProcess, agent: Client) -> None:
    with made("gone") as source:
        pass
    fields = request(root_shim, 5, "true")
    answer = agent.ask("launch_step", **fields, view={"source": source, "name": "tools", "keep": source})
    assert "the container is gone" in answer["error"]
    assert agent.ask("list")["steps"] == []
    wait_for(lambda: not root_shim.groups(), "the group to go")
    with made("half") as source:
        view = {"source": source, "name": "tools", "keep": "/nowhere"}
        assert "the container is gone" in agent.ask("launch_step", **request(root_shim, 5, "true"), view=view)["error"]
    assert (kept_of(agent)["kept"], kept_of(agent)["running"]) == ({}, {})


def test_shim_without_groups_says_that_it_has_no_views(make_shim: Callable[..., ShimProcess]) -> None:
    shim = make_shim(uid=65534, cgroup=False)
    plain = shim.connect()
    assert not plain.ask("list")["step_views"]
    answer = plain.ask("launch_step", **request(shim, 5, "true"), view={"source": "/proc/self/ns/mnt", "name": "x"})
    assert "its agent is not root" in answer["error"]
