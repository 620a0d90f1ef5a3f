"""Takes the pictures of docs/guide/web: every view of the web page, in both themes, of a cluster that this starts.

python tools/screenshots.py [FOLDER]

Needs chromium and the libraries of the page (`make web`). WIDTHS=1200,400 takes them narrow as well.
"""

import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from playwright.sync_api import Browser

from lattice.testing import LocalCluster

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.e2e.chromium import Person, Theme, chromium  # noqa: E402 - after the path

NODES = 8
USUAL = 1200
SCRIPT = "for i in $(seq 40); do echo epoch $i, loss 0.$((90 - i)); sleep 0.2; done; sleep 900"
THEMES: tuple[Theme, ...] = ("light", "dark")


def prepared(cluster: LocalCluster) -> dict[str, str]:
    """Work of every kind."""
    for number in range(6):
        cluster.run(["sh", "-c", f"exit {int(number % 3 == 1)}"], name=f"test-{number}", tags={"suite": "nightly"})
    running = cluster.submit(["sh", "-c", SCRIPT], name="train", resources={"nodes": 3}, lifecycle={"walltime": "2h"})
    for name, nodes in (("solve", 2), ("assemble", 2), ("postprocess", 1)):
        cluster.submit("sleep 900", name=name, resources={"nodes": nodes}, lifecycle={"walltime": "90m"})
    cluster.wait_state(running["id"], "Running")
    waiting = cluster.submit("true", name="large", resources={"nodes": 6}, lifecycle={"walltime": "1h"})
    for number in range(4):
        cluster.submit("true", name=f"sweep-{number}", resources={"nodes": 2}, lifecycle={"walltime": "30m"})
    group = cluster.submit("true", name="parameters", tasks="0-39%4")
    members = [
        {"id": "prepare", "entrypoint": "true"},
        {"id": "train-a", "entrypoint": "true", "depends_on": "prepare:success"},
        {"id": "train-b", "entrypoint": "true", "depends_on": "prepare:success"},
        {"id": "report", "entrypoint": "true", "depends_on": "train-a:success,train-b:any"},
    ]
    dag = cluster.post("/dags", {"name": "pipeline", "allocations": members})
    start = datetime.now(UTC) + timedelta(hours=2)
    window = {"name": "upgrade", "start": f"{start:%Y-%m-%dT%H:%M:%SZ}", "duration": "1h", "nodes": "n[5-8]"}
    cluster.post("/reservations", {**window, "reason": "new firmware"})
    cluster.post("/nodes/n8/drain", {"reason": "a fan is loud"})
    return {"running": running["id"], "waiting": waiting["id"], "group": group["id"], "dag": dag["id"]}


def views(found: dict[str, str]) -> dict[str, str]:
    parts = ("servers", "reservations", "tenants", "weights", "settings", "audit")
    return {
        "allocations": "allocations?q=all",
        "waiting": f"allocations/{found['waiting']}",
        "running": f"allocations/{found['running']}",
        "group": f"allocations/{found['group']}",
        "terminal": f"allocations/{found['running']}/terminal",
        "submit": f"submit?from={found['running']}",
        "timeline": "timeline",
        "nodes": "nodes",
        "node": "nodes/n1",
        "dags": "dags",
        "dag": f"dags/{found['dag']}",
        "usage": "usage",
        **{f"admin-{part}": f"admin?part={part}" for part in parts},
    }


def pictures(browser: Browser, cluster: LocalCluster, folder: Path) -> Iterator[Path]:
    found = prepared(cluster)
    for width in map(int, os.environ.get("WIDTHS", str(USUAL)).split(",")):
        for theme in THEMES:
            person = Person(browser, cluster, width=width, theme=theme).log_in()
            for name, view in views(found).items():
                page = person.follow(view)
                page.wait_for_timeout(1500)  # for plots and streams, which say nothing when they are complete
                path = folder / f"{name}-{theme}{'' if width == USUAL else f'-{width}'}.png"
                page.screenshot(path=path)
                yield path
            person.close()


def main(folder: str = "docs/guide/web") -> None:
    target = ROOT / folder
    target.mkdir(parents=True, exist_ok=True)
    with chromium() as browser, LocalCluster(nodes=NODES, arguments=["--node-groups", "2"]) as cluster:
        for path in pictures(browser, cluster, target):
            print(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


if __name__ == "__main__":
    main(*sys.argv[1:])
