"""The death of the leader in the middle of everything at once: a DAG, a task group, a launch, a mail, and those who watch.

All of it is under way when the leader's server and its part of the log are killed; the tests ask what became of each.
"""

import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lattice.testing import LocalCluster, eventually
from lattice_sdk import Event, LatticeError
from tests.conftest import require_program
from tests.e2e.launching import COUNTING, check_complete, launched, rest_of
from tests.e2e.quorum_load import kill_both, wait_agreeing, wait_healthy
from tests.mailbox import Mailbox

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]

TASKS = 8
MAIL = {"on": ["end"], "to": ["mail:ada@site.test"]}


@dataclass
class Scene:
    """What was under way when the leader died, and what is to be seen of it afterwards."""

    cluster: LocalCluster
    mails: Mailbox
    scratch: Path
    dag: str = ""
    group: str = ""
    alloc: str = ""
    told: str = ""
    launch_code: int | None = None
    output: str = ""
    errors: str = ""
    leaders: list[str] = field(default_factory=list)
    seen: list[Event] = field(default_factory=list)

    def script(self, name: str) -> str:
        """Leaves a line with each run, and waits to be let go."""
        return f"echo {name} >> {self.scratch}/ran; while [ ! -e {self.scratch}/go ]; do sleep 0.05; done"

    def runs(self, name: str) -> int:
        path = self.scratch / "ran"
        return path.read_text().split().count(name) if path.exists() else 0


def mail_settings(mails: Mailbox) -> dict[str, str]:
    return {
        "notifications.mail.host": "127.0.0.1",
        "notifications.mail.port": str(mails.port),
        "notifications.mail.security": "none",
        "notifications.mail.sender": "lattice@site.test",
        "notifications.retry": "200ms",
    }


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    require_program("etcd")
    scratch = tmp_path_factory.mktemp("scene")
    scratch.chmod(0o777)
    with Mailbox() as mails, LocalCluster(nodes=4, servers=3, settings=mail_settings(mails)) as cluster:
        played = Scene(cluster, mails, scratch)
        begin(played)
        step = launched(cluster, played.alloc, "-n", "2", "--label", "--no-kill", "sh", "-c", launch_script(scratch))
        with step:
            assert step.stdout is not None
            played.output = step.stdout.readline()
            lose_the_leader(played)
            let_go(played, step)
        wait_healthy(cluster)
        yield played


def launch_script(scratch: Path) -> str:
    return COUNTING.format(scratch=scratch) + "; exit $((PMI_RANK * 7))"


def listen(scene: Scene, stream: Iterable[Event]) -> None:
    # The cluster is stopped while this still listens.
    with suppress(LatticeError):
        for event in stream:
            scene.seen.append(event)


def begin(scene: Scene) -> None:
    cluster = scene.cluster
    stream = cluster.client(retry_for_s=60).watch(what=["allocation", "dag"])
    threading.Thread(target=listen, args=(scene, stream), daemon=True).start()
    scene.mails.answer = lambda: 451
    scene.told = cluster.run(["true"], notify=MAIL)["id"]
    eventually(lambda: scene.mails.tries, "a first try to send the mail")
    held = cluster.submit(["sleep", "600"], resources={"nodes": 2}, lifecycle={"requeue": "never"})
    scene.alloc = held["id"]
    cluster.wait_state(scene.alloc, "Running")
    scene.dag = cluster.post("/dags", flow(scene))["id"]
    eventually(lambda: scene.runs("b"), "the second part of the DAG")
    quick = f"[ $LATTICE_TASK_INDEX -gt 1 ] || {{ echo t$LATTICE_TASK_INDEX >> {scene.scratch}/ran; exit; }}"
    scene.group = cluster.submit(f"{quick}; {scene.script('t$LATTICE_TASK_INDEX')}", tasks=f"0-{TASKS - 1}")["id"]
    eventually(lambda: scene.runs("t2"), "the third task")


def flow(scene: Scene) -> dict[str, Any]:
    return {
        "name": "flow",
        "allocations": [
            {"id": "a", "entrypoint": f"echo a >> {scene.scratch}/ran"},
            {"id": "b", "entrypoint": scene.script("b"), "depends_on": "a"},
            {"id": "c", "entrypoint": f"echo c >> {scene.scratch}/ran", "depends_on": "b"},
            {"id": "d", "entrypoint": f"echo d >> {scene.scratch}/ran", "depends_on": "b:failure"},
        ],
    }


def lose_the_leader(scene: Scene) -> None:
    leader = scene.cluster.leader()
    kill_both(scene.cluster, leader)
    eventually(lambda: scene.cluster.leader() != leader, "another leader", within_s=30)
    scene.leaders = [leader, scene.cluster.leader()]


def let_go(scene: Scene, step: "subprocess.Popen[str]") -> None:
    scene.mails.answer = lambda: 250
    (scene.scratch / "go").touch()
    rest, scene.errors = rest_of(step)
    scene.output += rest
    scene.launch_code = step.returncode


def test_the_dag_goes_on_and_each_member_runs_once(scene: Scene) -> None:
    told = scene.cluster.cli("wait", scene.dag, "--timeout=40")
    assert told.stdout == f"{scene.dag} Completed\n"
    dag = scene.cluster.get(f"/dags/{scene.dag}")
    states = {member["ref"]: (member["state"], scene.runs(member["ref"])) for member in dag["allocations"]}
    assert states == {"a": ("Completed", 1), "b": ("Completed", 1), "c": ("Completed", 1), "d": ("Cancelled", 0)}


def test_the_group_goes_on_and_each_task_runs_once(scene: Scene) -> None:
    ended = scene.cluster.wait_end(scene.group, within_s=60)
    assert (ended["state"], ended["tasks"]["completed"]) == ("Completed", TASKS)
    assert [scene.runs(f"t{index}") for index in range(TASKS)] == [1] * TASKS


def test_the_launch_goes_on_and_loses_no_line(scene: Scene) -> None:
    assert scene.launch_code == 7, scene.errors
    check_complete(scene.output, scene.scratch)
    steps = scene.cluster.get(f"/allocations/{scene.alloc}/steps")["items"]
    assert len(steps) == 1
    assert scene.cluster.allocation(scene.alloc)["run"] == 1


def test_the_mail_is_sent_once_by_the_next_leader(scene: Scene) -> None:
    eventually(lambda: scene.mails.letters, "the mail", within_s=40)
    after = scene.cluster.run(["true"], within_s=40, notify={"on": ["end"], "to": ["mail:bob@site.test"]})
    eventually(lambda: scene.mails.of("bob@site.test"), "the next mail")
    assert len(scene.mails.of("ada@site.test")) == 1
    eventually(partial(has_ended, scene, after["id"]), "the watcher saw it end")


def test_watchers_see_every_change_once(scene: Scene) -> None:
    member = scene.cluster.get(f"/dags/{scene.dag}")["allocations"][2]["id"]
    for name in (scene.told, scene.dag, scene.group, member):
        scene.cluster.cli("wait", name, "--timeout=60")
        eventually(partial(has_ended, scene, name), f"the watcher saw {name} end")
        kinds = [event.kind for event in list(scene.seen) if event.id == name]
        assert len(kinds) == len(set(kinds)), kinds
    assert "gap" not in {event.kind for event in scene.seen}


def has_ended(scene: Scene, name: str) -> bool:
    return any(event.id == name and event.kind == "ended" for event in list(scene.seen))


def test_the_servers_agree_when_the_dead_one_is_back(scene: Scene) -> None:
    assert scene.leaders[0] != scene.leaders[1]
    scene.cluster.cli("wait", scene.dag, scene.group, "--timeout=60")
    wait_agreeing(scene.cluster)
