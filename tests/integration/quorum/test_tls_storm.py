"""Handshakes beside each other, and beside a rotation: gRPC frees certificates that another thread is about to use
(`lattice/wire/reloaded_tls.py`), which ended servers by a signal."""

import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 4


@pytest.mark.timeout(300)
def test_many_handshakes_at_once_do_not_end_the_process(tmp_path: Path) -> None:
    storm = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.integration.quorum.tls_storm", str(SECONDS), str(tmp_path)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert storm.returncode == 0, storm.stderr[-4000:]
    assert int(storm.stdout) > 0
