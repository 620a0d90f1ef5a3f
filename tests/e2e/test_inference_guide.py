"""The model server of the guide: every command as it is written there, scaled and updated under load without a failed request."""

import http.client
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lattice.testing import LocalCluster, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

DOCS = Path(__file__).parents[2] / "docs"
# Waiting for half a minute proves no more.
QUICK = {"--scale-up-window 30s": "--scale-up-window 1s", "--scale-interval 10s": "--scale-interval 1s"}
CLIENTS = 8


def block(title: str) -> str:
    text = (DOCS / "guide" / "inference.md").read_text()
    found = re.search(rf"^## {title}\n```sh\n(.*?)```", text, flags=re.DOTALL | re.MULTILINE)
    assert found is not None, title
    made = found[1]
    for slow, quick in {**QUICK, "--scale-cooldown 30s": "--scale-cooldown 1s"}.items():
        made = made.replace(slow, quick)
    return made


class Person:
    """Somebody who types the guide into one shell, in a folder with the example."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        shutil.copy(DOCS / "examples" / "inference.py", folder)
        self._folder = folder
        path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        self._environment = {**cluster.environment(), "LATTICE_TOKEN": cluster.token, "PATH": path}

    def type(self, title: str, **known: str) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            ["bash", "-ec", block(title) + '\necho "id=$id"'],
            cwd=self._folder,
            env={**self._environment, **known},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, (title, done.stdout, done.stderr)
        return done


class Load:
    def __init__(self, cluster: LocalCluster) -> None:
        self._port = urlsplit(str(cluster.post("/services/model/open", {})["url"])).port
        self._headers = {"Authorization": f"Bearer {cluster.token}"}
        self.answers: list[str] = []
        self.failed: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(CLIENTS)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _ask(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port or 0, timeout=30)
        while not self._stop.is_set():
            try:
                body = json.dumps({"text": "a great day, no bad one"})
                connection.request("POST", "/proxy/services/model/v1/predict", body, self._headers)
                with connection.getresponse() as answer:
                    text = answer.read()
                if answer.status == 200 and json.loads(text)["score"] == 1:
                    self.answers.append(json.loads(text)["model"])
                else:
                    self.failed.append(f"{answer.status} {text[:200]!r}")
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.failed.append(repr(error))
                connection.close()
        connection.close()


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=3, settings={"node_agent.heartbeat_timeout_s": "60"}) as made:
        yield made


def test_the_model_server_of_the_guide_is_scaled_and_updated_without_a_failed_request(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    person = Person(cluster, tmp_path)
    alloc = person.type("Start").stdout.split("id=")[-1].strip()
    assert json.loads(person.type("Ask", id=alloc).stdout.split("\n")[0].split("id=")[0])["score"] == 2

    def ready() -> int:
        return int(cluster.allocation(alloc)["service"]["ready"])

    with Load(cluster) as load:
        eventually(lambda: ready() == 3, "three instances under load", within_s=90)
        assert "in_flight" in cluster.cli("service", "show", "model").stdout
        person.type("Update", id=alloc)
        eventually(lambda: set(load.answers[-20:]) == {"v2"}, "the new model answers", within_s=60)
    assert load.failed == []
    assert {"v1", "v2"} == set(load.answers)
    person.type("Stop", id=alloc)
    assert cluster.wait_end(alloc)["state"] == "Cancelled"
