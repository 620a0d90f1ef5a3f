"""Under CI=true, run the files of failed tests with real processes once more, alone on the machine, before the summary.

Such a test depends on how fast the machine is at that moment. If its file passes the second time, its failure is printed and counted as
"rerun": still a defect to find, but no reason to stop somebody else's change. A second run in the same process would not do, because the
first one may have left a shared cluster in any state. Tests of decisions (unit, properties, ...) get no second run: if one of them fails,
the run stays failed, but its summary still shows only what also fails alone.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

WITH_PROCESSES = frozenset(  # folders below tests/
    {"chaos", "cli", "contracts", "e2e", "fuzz", "integration", "machine_status", "slurm", "upgrades"}
)
MOST_FILES = 6  # if more files fail, the change is at fault
WITHIN_S = 900


@pytest.hookimpl(trylast=True)  # after the workers have ended
def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("CI", "").lower() not in {"1", "true", "yes"} or hasattr(session.config, "workerinput"):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or session.exitstatus != pytest.ExitCode.TESTS_FAILED:
        return
    failed = [*reporter.stats.get("failed", ()), *reporter.stats.get("error", ())]
    again = [report for report in failed if _has_processes(report.nodeid)]
    files = sorted({report.nodeid.partition("::")[0] for report in again})
    if not files or len(files) > MOST_FILES:
        return
    if (missed := session.testscollected - len(_ended(reporter.stats))) > 0:
        reporter.write_line(f"{missed} tests did not run, because a worker died or the run was stopped: no second run")
        return
    reporter.ensure_newline()
    reporter.summary_errors()
    reporter.summary_failures()
    reporter.write_sep("=", f"once more, alone: {' '.join(files)}")
    if _passes(session.config.rootpath, files):
        reporter.stats.setdefault("rerun", []).extend(again)
        for outcome in ("failed", "error"):
            left = [report for report in reporter.stats.pop(outcome, ()) if report not in again]
            if left:
                reporter.stats[outcome] = left
        for report in again:
            reporter.write_line(f"RERUN {report.nodeid}")
        if len(again) == len(failed):
            session.exitstatus = pytest.ExitCode.OK


def _ended(stats: Mapping[str, Iterable[object]]) -> set[str]:
    """Names of the tests that have an outcome; those of a worker that died have none."""
    reports = (report for each in stats.values() for report in each)
    return {report.nodeid for report in reports if isinstance(report, pytest.TestReport)}


def _has_processes(nodeid: str) -> bool:
    return Path(nodeid.partition("::")[0].removeprefix("tests/")).parts[0] in WITH_PROCESSES


def _passes(root: Path, files: Iterable[str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-p", f"no:{__name__}", "-p", "no:xdist", *files]
    try:
        return subprocess.run(command, cwd=root, timeout=WITHIN_S, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False
