"""`python -m bench compare --baseline COMMIT`: the figures of another commit and of this tree, measured in the same run.

The two take turns, row by row and repeat by repeat, so that whatever else the machine does hits both alike; the medians are compared.
Each side is measured by its own `bench` over its own source and programs, with the packages of this environment. Rows that the baseline
does not have are left out. `--rows` chooses; without it everything is measured but the rows that take minutes each.
"""

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.figures import FIGURES, Figure

HERE = Path(__file__).parents[1]
ALLOWED = 1.05  # so much worse than the baseline may a figure be
LONG = frozenset({"replay-speed", "replay-quality", "nodes", "nodes-collected", "quorum-join", "quorum-power-cut"})
ROW_WITHIN_S = 1800
Figures = dict[str, float]


@dataclass(frozen=True)
class Side:
    """A tree, and the interpreter beside which its programs lie."""

    tree: Path
    python: Path

    def run(self, *words: str, within_s: float = 600) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(self.python), *words], cwd=self.tree, capture_output=True, text=True, timeout=within_s, check=False
        )


def main(arguments: Sequence[str], rows: Sequence[str], once: frozenset[str]) -> int:
    """`rows` are those that this tree has, `once` those that are measured a single time."""
    options = _parser(rows).parse_args(arguments)
    begun = time.monotonic()
    before, now = Figures(), Figures()
    here = Side(HERE, Path(sys.executable))
    with _checked_out(options.baseline) as baseline:
        for side in (here, baseline):
            side.run("-m", "compileall", "-q", "src", "sdk/src", "bench")
        known = _rows_of(baseline)
        for row in options.rows or [row for row in rows if row not in LONG]:
            if row not in known:
                print(f"{row}: not in {options.baseline}", file=sys.stderr)
                continue
            old, new = _take_turns(row, baseline, here, 1 if row in once else options.repeats)
            before |= old
            now |= new
    table = comparison(before, now)
    took = f"{(time.monotonic() - begun) / 60:.1f} min, medians of {options.repeats}, load at the end {_load()}"
    print(f"\n{options.baseline} against {_commit()}: {took}\n\n{table}")
    return 1 if "WORSE" in table else 0


def _parser(rows: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench compare", description=__doc__)
    parser.add_argument("--baseline", required=True, metavar="COMMIT", help="what to compare with")
    parser.add_argument("--rows", nargs="+", choices=rows, metavar="NAME", help="only these measurements")
    parser.add_argument("--repeats", type=int, default=3, help="each measurement so many times, the median counts")
    return parser


@contextmanager
def _checked_out(commit: str) -> Iterator[Side]:
    with tempfile.TemporaryDirectory(prefix="lattice-baseline-") as folder:
        tree = Path(folder) / "tree"
        _git("worktree", "add", "--quiet", "--detach", str(tree), commit)
        try:
            yield Side(tree, baseline_environment(tree, Path(folder) / "environment"))
        finally:
            _git("worktree", "remove", "--force", str(tree))


def baseline_environment(tree: Path, place: Path) -> Path:
    """An environment with the tree's programs over the packages of this one; returns its interpreter."""
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python"
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(place), "platbase": str(place)}))
    paths = (tree / "src", tree / "sdk" / "src", Path(sysconfig.get_path("purelib")))
    (packages / "baseline.pth").write_text("".join(f"{path}\n" for path in paths))
    # What else this environment does whenever its interpreter starts.
    for other in Path(sysconfig.get_path("purelib")).glob("*.pth"):
        if "import " in other.read_text():
            (packages / other.name).write_text(other.read_text())
    for project in (tree / "pyproject.toml", tree / "sdk" / "pyproject.toml"):
        described = tomllib.loads(project.read_text())["project"]
        _write_metadata(packages, described["name"], described["version"])
        for name, target in described.get("scripts", {}).items():
            module, _, function = target.partition(":")
            program = place / "bin" / name
            program.write_text(f"#!{python}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n")
            program.chmod(0o755)
    subprocess.run([str(place / "bin" / "lattice"), "compat-aliases"], check=True, stdout=subprocess.DEVNULL)
    return python


def _write_metadata(packages: Path, name: str, version: str) -> None:
    """The programs ask for the version of their distribution, whose name is not the same in every release."""
    metadata = packages / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(HERE), *words], check=True, capture_output=True, text=True).stdout.strip()


def _commit() -> str:
    return _git("describe", "--always", "--dirty")


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def _rows_of(side: Side) -> list[str]:
    done = side.run("-c", "import json; from bench.__main__ import MEASUREMENTS; print(json.dumps(list(MEASUREMENTS)))")
    if done.returncode:
        raise RuntimeError(f"the bench of the baseline does not run:\n{done.stderr}")
    return list(json.loads(done.stdout))


def _take_turns(row: str, baseline: Side, here: Side, repeats: int) -> tuple[Figures, Figures]:
    old, new = list[Figures](), list[Figures]()
    begun = time.monotonic()
    for turn in range(repeats):
        # Who is first changes from turn to turn: the first one warms up the machine for the other.
        for side, found in ((baseline, old), (here, new))[:: 1 if turn % 2 == 0 else -1]:
            found.append(_measured(row, side))
    print(f"{row}: {time.monotonic() - begun:.0f} s, load {_load()}", file=sys.stderr, flush=True)
    return _medians(old), _medians(new)


def _measured(row: str, side: Side) -> Figures:
    with tempfile.TemporaryDirectory(prefix="lattice-compare-") as folder:
        report = Path(folder) / "report.json"
        done = side.run("-m", "bench", row, "--repeats", "1", "--json", str(report), within_s=ROW_WITHIN_S)
        if not report.exists():
            print(f"{row} failed in {side.tree}:\n{done.stderr[-2000:]}", file=sys.stderr)
            return {}
        return Figures(json.loads(report.read_text())["figures"])


def _medians(runs: Sequence[Figures]) -> Figures:
    keys = set.intersection(*(set(run) for run in runs)) if runs else set()
    return {key: median(run[key] for run in runs) for key in keys}


def comparison(before: Figures, now: Figures) -> str:
    """A table; the ratio says how many times worse this tree is: below 1 it is better, whichever way the figure counts."""
    lines = ["| figure | baseline | now | ratio | verdict |", "|---|---|---|---|---|"]
    for figure in FIGURES:
        if figure.key in before and figure.key in now:
            old, new = before[figure.key], now[figure.key]
            ratio = worsening(figure, old, new)
            verdict = "WORSE" if ratio > ALLOWED else "met" if ratio > 1.0 else "goal"
            shown = f"{old:.4g} {figure.unit} | {new:.4g} {figure.unit} | {ratio:.2f}"
            lines.append(f"| {figure.text} | {shown} | {verdict} |")
    return "\n".join(lines)


def worsening(figure: Figure, old: float, new: float) -> float:
    """How many times worse the new value is."""
    above, below = (old, new) if figure.at_least else (new, old)
    if below == 0:
        return 1.0 if above == 0 else float("inf")
    return above / below
