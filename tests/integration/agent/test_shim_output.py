"""Captured output: complete, bounded, and never at the expense of another run."""

import os
import subprocess
import time
from collections.abc import Callable

import pytest

from lattice.agent.shim.output import read_output
from tests.integration.agent.shim_process import Client, ShimProcess, wait_for


def test_output_of_background_children_is_complete_at_the_end(shim: ShimProcess, agent: Client) -> None:
    script = "for i in 1 2 3 4; do (seq 20000; seq 20000 >&2) & done; wait"
    agent.ask("start", **shim.request(1, "sh", "-c", script))
    agent.ended(1)
    written = 4 * sum(len(f"{number}\n") for number in range(1, 20001))
    for stream in ("stdout", "stderr"):
        # Four writers at once: lines may be torn, bytes may not be missing.
        assert len(shim.output(1, stream)) == written
    assert shim.status(1)["output_lost"] == {"stdout": 0, "stderr": 0}


def test_text_put_there_before_the_start_is_kept(shim: ShimProcess, agent: Client) -> None:
    folder = shim.run_dir(1)
    folder.mkdir(parents=True)
    (folder / "stderr").write_text("a word before\n")
    for path in (folder.parent, folder, folder / "stderr"):
        os.chown(path, shim.uid, shim.uid)
    agent.ask("start", **shim.request(1, "sh", "-c", "echo after >&2"))
    agent.ended(1)
    assert shim.output(1, "stderr") == "a word before\nafter\n"


def test_output_above_the_limit_keeps_its_newest_part(
    make_shim: Callable[..., ShimProcess],
) -> None:
    limit = 100_000
    shim = make_shim("--output-limit", str(limit), cgroup=False)
    agent = shim.connect()
    lines = 200_000
    agent.ask("start", **shim.request(1, "seq", "-f", "%09.0f", str(lines)))
    assert agent.ended(1)["output_lost"] == {"stdout": 0, "stderr": 0}
    path = shim.run_dir(1) / "stdout"
    base = int((shim.run_dir(1) / "stdout.base").read_text())
    assert limit // 2 <= path.stat().st_size <= limit
    assert base + path.stat().st_size == lines * 10
    expected = "".join(f"{number:09d}\n" for number in range(1, lines + 1)).encode()
    assert path.read_bytes() == expected[base:]
    assert read_output(str(path), 0, 30) == (base, expected[base : base + 30])
    assert read_output(str(path), lines * 10 - 5, 99) == (lines * 10 - 5, expected[-5:])
    names = {entry.name for entry in shim.run_dir(1).iterdir()}
    assert names == {"stdout", "stdout.base", "stdout.times", "status.json"}


def test_reader_sees_every_byte_in_its_place_while_the_file_turns_over(
    make_shim: Callable[..., ShimProcess],
) -> None:
    shim = make_shim("--output-limit", "40000", cgroup=False)
    agent = shim.connect()
    agent.ask("start", **shim.request(1, "seq", "-f", "%09.0f", "4000000"))
    path = str(shim.run_dir(1) / "stdout")
    reads, position = 0, 0
    while shim.phase(1) != "ended":
        try:
            start, data = read_output(path, position, 1000)
        except FileNotFoundError:
            continue
        if data:
            first, last = start // 10, (start + len(data)) // 10
            lines = b"".join(b"%09d\n" % (number + 1) for number in range(first, last + 1))
            assert data == lines[start % 10 :][: len(data)]
            position = start + len(data)
            reads += 1
    assert reads > 5


def test_a_run_that_writes_without_end_does_not_starve_the_others(shim: ShimProcess, agent: Client) -> None:
    for number in (1, 2):
        agent.ask("start", **shim.request(number, "yes"))
    path = shim.run_dir(1) / "stdout"
    wait_for(lambda: path.exists() and path.stat().st_size > 1 << 20, "the writers to be at full speed")
    for number in range(10, 20):
        began = time.monotonic()
        agent.ask("start", **shim.request(number, "echo", "hello"))
        agent.ended(number)
        assert time.monotonic() - began < 10
        assert shim.output(number) == "hello\n"
    for number in (1, 2):
        agent.ask("stop", number=number, run=1, grace_s=0)
        agent.ended(number)


@pytest.mark.root
def test_full_disk_costs_output_but_not_the_run(root_shim: ShimProcess) -> None:
    agent = root_shim.connect()
    folder = root_shim.dir / "runs"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=True)
    try:
        script = "head -c 3000000 /dev/zero; echo 1 >wrote; while [ ! -e go ]; do sleep 0.01; done; exit 5"
        agent.ask("start", **root_shim.request(1, "sh", "-c", script))
        wait_for((root_shim.scratch / "wrote").exists, "the disk to be full")
        (folder / "1.1" / "stdout").write_bytes(b"")
        (root_shim.scratch / "go").touch()
        event = agent.ended(1)
        assert (event["cause"], event["exit_code"]) == ("exit", 5)
        assert event["output_lost"]["stdout"] > 1_500_000
        assert root_shim.status(1)["output_lost"] == event["output_lost"]
    finally:
        agent.ask("shutdown")
        root_shim.process.wait(20)
        subprocess.run(["umount", str(folder)], check=True)
