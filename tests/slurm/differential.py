"""Cases that are run alike against a real Slurm and against Lattice, and their answers with what differs by chance taken out."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
CASES = HERE / "cases.txt"
RECORDED = HERE / "recorded" / "slurm-22.05.8.json"
# Ends every job that the case has submitted, and only those.
WRAPPER = r"""
cd "$(mktemp -d)" || exit 99
ended() { code=$?; for each in $ALL; do scancel "$each" >/dev/null 2>&1; done; printf '\n@@%s' "$ALL"; exit $code; }
trap ended EXIT
sub() {
    said=$(sbatch "$@"); came=$?
    found=${said##* }
    if [ -n "$found" ]; then J=$found; ALL="$ALL $found"; echo "$said"; fi
    return $came
}
eval "$1"
"""
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
JOB_NUMBER = re.compile(r"(?i)\b(job(?:s| id)? )\d+(?= to start)")


class Case(NamedTuple):
    line: str
    differs: str  # why Lattice answers otherwise


class Answer(NamedTuple):
    code: int
    stdout: list[str]
    stderr: list[str]


def cases() -> list[Case]:
    found: list[Case] = []
    reason = ""
    for line in CASES.read_text().splitlines():
        if line.startswith("#!"):
            reason = line[2:].strip()
        elif line and not line.startswith("#"):
            found.append(Case(line, reason))
            reason = ""
    return found


def answer(case: Case, shell: Callable[[list[str]], "subprocess.CompletedProcess[str]"]) -> Answer:
    """What the case says, with ids as N1, N2 and moments as TIME; `shell` runs words where the commands are."""
    done = shell(["sh", "-c", WRAPPER, "case", case.line])
    stdout, _, numbers = done.stdout.rpartition("\n@@")
    ids = numbers.split()

    def plain(text: str) -> list[str]:
        for place, number in enumerate(ids, start=1):
            text = re.sub(rf"(?<!\d){number}(?!\d)", f"N{place}", text)
        text = JOB_NUMBER.sub(r"\1N", MOMENT.sub("TIME", text)).replace("slurm-wlm ", "slurm ")
        return [line.rstrip() for line in text.splitlines()]

    return Answer(done.returncode, plain(stdout), plain(done.stderr))
