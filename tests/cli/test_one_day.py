"""One ordinary day at a terminal, as it was recorded: what a person types, and what the screen shows then.

The transcript is `one_day.txt`; ids, times and figures that differ between two days are masked.
`pytest tests/cli/test_one_day.py --rewrite` records it again: read the difference before you keep it.
"""

import re
import shlex
import sys
from getpass import getuser
from pathlib import Path
from uuid import uuid4

import pytest

from lattice.testing import LocalCluster
from tests.cli.terminal import Terminal

pytestmark = pytest.mark.e2e

TRANSCRIPT = Path(__file__).with_name("one_day.txt")
LATTICE = str(Path(sys.executable).with_name("lattice"))
NOTEBOOK = """\
from lattice_sdk import AllocationSpec, Client
with Client.from_environment() as client:
    made = client.submit(AllocationSpec(entrypoint="echo from the notebook", name="cell", walltime="1m"))
    ended = client.wait(made.id, timeout=60)
    print(ended.id, ended.state, client.logs(made.id).decode().strip())
    print(sorted(node.id for node in client.list_nodes()))
"""
# The words of each command; `@NAME` is the first id that the command called NAME showed.
DAY: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("run", ("run", "--walltime=1m", "--", "echo", "good morning")),
    (
        "train",
        (
            "submit",
            "--walltime=1m",
            "--name=train",
            "--",
            "sh",
            "-c",
            "echo epoch 1; sleep 0.3; echo diverged >&2; exit 3",
        ),
    ),
    ("", ("wait", "@train")),
    ("", ("logs", "@train")),
    ("", ("explain", "@train")),
    (
        "sweep",
        (
            "submit",
            "--walltime=1m",
            "--name=sweep",
            "--task-group=0-3",
            "--",
            "sh",
            "-c",
            "test $LATTICE_TASK_INDEX != 2",
        ),
    ),
    ("", ("wait", "@sweep")),
    ("", ("status", "@sweep")),
    ("again", ("resubmit", "@sweep", "--failed")),
    ("", ("wait", "@again")),
    ("", ("python",)),
    ("", ("kill", "@again")),
    ("", ("admin", "tenant", "create", "TENANT", "--max-nodes=2")),
    ("", ("admin", "tenant", "show", "TENANT")),
    ("", ("--as", "ada", "whoami")),
    ("", ("--as", "ada", "cancel", "@train")),
    ("", ("status",)),
)


def test_an_ordinary_day_looks_as_it_was_recorded(cluster: LocalCluster, request: pytest.FixtureRequest) -> None:
    tenant = f"t{uuid4().hex[:12]}"
    ids: dict[str, str] = {}
    masks: dict[str, str] = {}
    shown: list[str] = []
    for name, words in DAY:
        words = tuple(ids[word[1:]] if word.startswith("@") else word.replace("TENANT", tenant) for word in words)
        screen, code = seen(cluster, words)
        found = re.search(r"\ba\d+\b", screen)
        if name and found is not None:
            ids[name] = found[0]
        typed = " ".join(("lattice", *words)) if words != ("python",) else "python notebook.py"
        shown.append(masked(f"$ {typed}\n{screen}[{code}]\n".replace(tenant, "<tenant>"), masks))
    transcript = "".join(shown)
    if request.config.getoption("--rewrite"):
        TRANSCRIPT.write_text(transcript)
    assert transcript == TRANSCRIPT.read_text()


def seen(cluster: LocalCluster, words: tuple[str, ...]) -> tuple[str, int]:
    """What is left on the screen, and the exit code."""
    notebook = ("-c", f"exec {shlex.quote(sys.executable)} -c {shlex.quote(NOTEBOOK)}")
    program, arguments = ("/bin/sh", notebook) if words == ("python",) else (LATTICE, words)
    terminal = Terminal(cluster, program, *arguments)
    try:
        code = terminal.ends()
    finally:
        terminal.close()
    lines = terminal.seen.replace("\r\n", "\n").split("\n")
    plain = (re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line.rsplit("\r\x1b[K", 1)[-1]) for line in lines)
    return "\n".join(plain), code


def masked(text: str, masks: dict[str, str]) -> str:
    def named(match: re.Match[str]) -> str:
        return masks.setdefault(match[0], f"a<{len(masks) + 1}>")

    text = re.sub(r"\ba\d+(?!\d)", named, text)
    text = re.sub(
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?|(today|yesterday|tomorrow) \d\d:\d\d(:\d\d)?", "<time>", text
    )
    text = re.sub(r"\b\d\d:\d\d:\d\d\b", "<duration>", text)
    text = re.sub(r"\b\d+(\.\d+)?( ?)(MB|GB|KB|ms|s|h|%|days)(?=\W)", r"<n>\2\3", text)
    text = re.sub(r"\bn[12]\b", "<node>", text)
    text = re.sub(rf"\b{re.escape(getuser())}\b", "<user>", text)
    text = re.sub(r"\b\d+ ended in the last", "<n> ended in the last", text)
    return re.sub(r" {2,}", "  ", text)
