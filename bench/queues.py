"""Fragmented queues on disk: what runs on a machine of equal nodes, and what waits before it."""

import os
from pathlib import Path
from typing import NamedTuple

FOLDER = "LATTICE_WORKLOADS"
_DEFAULT = Path(__file__).resolve().parent.parent.parent / "shared" / "workloads"


class Work(NamedTuple):
    nodes: int
    minutes: int


class Queue(NamedTuple):
    """`nodes` = of the whole machine, all of them busy."""

    nodes: int
    running: tuple[Work, ...]
    pending: tuple[Work, ...]


def folder() -> Path:
    return Path(os.environ.get(FOLDER, _DEFAULT))


def read_queue(path: Path) -> Queue:
    """Reads `# running` and `# pending` sections of lines "nodes minutes"."""
    parts: dict[str, list[Work]] = {"running": [], "pending": []}
    part = parts["running"]
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            part = parts[line[1:].split(":")[0].strip()]
        elif line.strip():
            nodes, minutes = line.split()
            part.append(Work(int(nodes), int(minutes)))
    running = tuple(parts["running"])
    return Queue(sum(work.nodes for work in running), running, tuple(parts["pending"]))
