"""Takes the pictures of docs/guide/web: every view of the web page, in both themes, of a cluster that this starts.

python tools/screenshots.py [FOLDER]

Needs chromium and the libraries of the page (`make web`). WIDTHS=1200,400 takes them narrow as well.
"""

import os
import struct
import sys
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Browser

from lattice.testing import LocalCluster

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.e2e.chromium import THEMES, Person, chromium  # noqa: E402 - after the path

NODES = 9
USUAL = 1200
COLOURS = 64
SIGNATURE = b"\x89PNG\r\n\x1a\n"
SCRIPT = "for i in $(seq 40); do echo epoch $i, loss 0.$((90 - i)); sleep 0.2; done; sleep 900"


def prepared(cluster: LocalCluster) -> dict[str, str]:
    """Work of every kind."""
    cluster.post("/nodes/n9/disable", {"reason": "no answer from its controller"})
    for number in range(6):
        cluster.run(["sh", "-c", f"exit {int(number % 3 == 1)}"], name=f"test-{number}", tags={"suite": "nightly"})
    running = cluster.submit(["sh", "-c", SCRIPT], name="train", resources={"nodes": 3}, lifecycle={"walltime": "2h"})
    for name, nodes in (("solve", 2), ("assemble", 1)):
        cluster.submit("sleep 900", name=name, resources={"nodes": nodes}, lifecycle={"walltime": "90m"})
    served = {"lifecycle": {"type": "unbounded"}, "expose": [{"name": "inference", "port": 0}]}
    service = cluster.submit("sleep 900", name="inference", **served)
    for name in (running["id"], service["id"]):
        cluster.wait_state(name, "Running")
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
    parts = ("servers", "alerts", "reservations", "tenants", "weights", "settings", "audit")
    return {
        "allocations": "allocations?q=all",
        "waiting": f"allocations/{found['waiting']}",
        "running": f"allocations/{found['running']}",
        "group": f"allocations/{found['group']}",
        "terminal": f"allocations/{found['running']}/terminal",
        "submit": f"submit?from={found['running']}",
        "timeline": "timeline",
        "nodes": "nodes",
        "nodes-topology": "nodes?by=topology",
        "node": "nodes/n1",
        "dags": "dags",
        "dag": f"dags/{found['dag']}",
        "services": "services",
        "service": "services/default/inference",
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
                path.write_bytes(with_few_colours(page.screenshot()))
                yield path
            person.close()


def with_few_colours(picture: bytes) -> bytes:
    """The same PNG with a palette of 64 colours: a third of the size, and text looks the same."""
    pixels = _decoded(picture)
    coarse = pixels >> 3
    codes = (coarse[..., 0].astype(np.uint32) << 10) | (coarse[..., 1].astype(np.uint32) << 5) | coarse[..., 2]
    _, places, counts = np.unique(codes, return_inverse=True, return_counts=True)
    means = np.stack([np.bincount(places.ravel(), pixels[..., at].ravel()) / counts for at in range(3)], axis=1)
    kept = _palette(means, counts)
    nearest = np.argmin(((means[:, None, :] - means[kept][None, :, :]) ** 2).sum(axis=2), axis=1)
    indices = nearest[places.reshape(codes.shape)].astype(np.uint8)
    height, width = indices.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), indices], axis=1).tobytes()
    palette = np.rint(means[kept]).astype(np.uint8).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"PLTE", palette), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(kind, data) for kind, data in chunks)


def _palette(means: "NDArray[np.float64]", counts: "NDArray[np.int64]") -> "NDArray[np.int64]":
    """The most common colours, then those farthest from all that were chosen: a small green mark must stay green."""
    kept = list(np.argsort(-counts)[: COLOURS // 2])
    gap = ((means[:, None, :] - means[kept][None, :, :]) ** 2).sum(axis=2).min(axis=1)
    while len(kept) < min(COLOURS, len(counts)):
        kept.append(np.argmax(gap * np.log1p(counts)))
        gap = np.minimum(gap, ((means - means[kept[-1]]) ** 2).sum(axis=1))
    return np.array(kept)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _decoded(picture: bytes) -> "NDArray[np.uint8]":
    """Height x width x 3, of the 8-bit RGB or RGBA that a browser writes."""
    at, data, width, height, depth = len(SIGNATURE), b"", 0, 0, 3
    while at < len(picture):
        size, kind = struct.unpack(">I4s", picture[at : at + 8])
        body = picture[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack(">IIBB", body[:10])
            depth = 4 if colour == 6 else 3
        elif kind == b"IDAT":
            data += body
        at += size + 12
    raw = zlib.decompress(data)
    stride = width * depth
    lines = np.zeros((height, stride), np.uint8)
    before = np.zeros(stride, np.uint8)
    for row in range(height):
        start = row * (stride + 1)
        line = np.frombuffer(raw, np.uint8, stride, start + 1).copy()
        before = lines[row] = _unfiltered(raw[start], line, before, depth)
    return lines.reshape(height, width, depth)[..., :3]


def _unfiltered(kind: int, line: "NDArray[np.uint8]", above: "NDArray[np.uint8]", depth: int) -> "NDArray[np.uint8]":
    """One line as it was before PNG's filter of that kind."""
    if kind == 0:
        return line
    if kind == 2:
        return line + above
    if kind == 1:
        return np.cumsum(line.reshape(-1, depth), axis=0, dtype=np.uint8).ravel()
    found = [0] * depth + line.tolist()
    over = [0] * depth + above.tolist()
    for at in range(depth, len(found)):
        left, up, corner = found[at - depth], over[at], over[at - depth]
        if kind == 3:
            guess = (left + up) // 2
        else:
            sums = left + up - corner
            guess = min((abs(sums - left), 0, left), (abs(sums - up), 1, up), (abs(sums - corner), 2, corner))[2]
        found[at] = (found[at] + guess) & 255
    return np.array(found[depth:], np.uint8)


def main(folder: str = "docs/guide/web") -> None:
    target = ROOT / folder
    target.mkdir(parents=True, exist_ok=True)
    with chromium() as browser, LocalCluster(nodes=NODES, arguments=["--node-groups", "2"]) as cluster:
        for path in pictures(browser, cluster, target):
            print(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


if __name__ == "__main__":
    main(*sys.argv[1:])
