"""A site whose agents and servers say the release that a file names for them, and whose program replaces that and restarts them.

All else of them is this release. A program that cannot do it is played by a file called `refuses`.
"""

import contextlib
import http.client
import json
import sys
from pathlib import Path
from typing import Any

from lattice.testing import LocalCluster, eventually

OLD, NEW = "0.2.0", "0.2.1"
_SAYS = """\
import sys
from pathlib import Path

name = Path(sys.argv[0]).name if sys.argv else ""
if "--node-id" in sys.argv or name in ("lattice-agent", "lattice-server"):
    import importlib.metadata as metadata

    was = metadata.version

    def version(distribution):
        words = sys.argv
        who = words[words.index("--node-id") + 1] if "--node-id" in words else ""
        if name == "lattice-server" and "--config" in words:
            who = Path(words[words.index("--config") + 1]).parent.name
        path = Path(__file__).with_name(who + ".release")
        return path.read_text() if distribution == "lattice-hpc" and who and path.exists() else was(distribution)

    metadata.version = version
"""
_PROGRAM = """\
import json, os, signal, sys
from pathlib import Path

order = json.load(sys.stdin)
here = Path(__file__).parent
with open(here / "told", "a") as told:
    told.write(json.dumps(order) + "\\n")
wanted = [("agent", each["node"], each["release"]) for each in order["nodes"]]
wanted += [("server", each["server"], each["release"]) for each in order["servers"]]
for role, name, release in wanted:
    if (here / "refuses").exists() and release != "0.2.0":
        sys.exit("no package " + release)
    (here / (name + ".release")).write_text(release)
    for process in json.loads(next(here.parent.glob("cluster.json")).read_text())["processes"]:
        if process["role"] == role and process["name"] == name:
            os.kill(process["pid"], signal.SIGTERM)
"""


class ReleaseSite:
    def __init__(self, directory: Path) -> None:
        self.folder = directory / "site"
        self.folder.mkdir()
        (self.folder / "sitecustomize.py").write_text(_SAYS)
        (self.folder / "replace.py").write_text(_PROGRAM)

    @property
    def settings(self) -> dict[str, str]:
        return {"upgrade.program": json.dumps([sys.executable, "-I", str(self.folder / "replace.py")])}

    def refuse(self, *, is_refusing: bool) -> None:
        if is_refusing:
            (self.folder / "refuses").touch()
        else:
            (self.folder / "refuses").unlink()

    def told(self) -> list[dict[str, Any]]:
        """What the program was told, in order."""
        path = self.folder / "told"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def upgrade(cluster: LocalCluster, *words: str) -> dict[str, Any]:
    return dict(json.loads(cluster.cli("admin", "upgrade", *words, "-o", "json").stdout))


def wait_phase(cluster: LocalCluster, phase: str, *, within_s: float = 120) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        """As the first server says that answers: a command for each look would be half of the work."""
        for server in cluster.urls:
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, answer = cluster.request("GET", "/admin/upgrade", server=server, timeout_s=5)
                if status == 200:
                    found = answer.get("rollout")
                    return dict(found) if found and found["phase"] == phase else None
        return None

    return eventually(look, f"the upgrade is {phase}", within_s=within_s)


def all_run(cluster: LocalCluster, release: str) -> bool:
    """Whether every agent runs the release."""
    refused = cluster.cli("admin", "upgrade", "plan", "--to", release, check=False)
    return f"no node can be upgraded to {release}" in refused.stderr


def server_releases(cluster: LocalCluster) -> set[str]:
    return {server["release"] for server in upgrade(cluster, "status")["servers"]}
