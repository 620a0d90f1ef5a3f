"""What is generated is what its source says."""

import subprocess
import sys

import pytest

from tests.architecture.tree import ROOT


@pytest.mark.parametrize("tool", ["tools/proto.py", "tools/reference.py", "tools/man.py", "tools/bpf.py"])
def test_generated_files_are_up_to_date(tool: str) -> None:
    outcome = subprocess.run([sys.executable, tool, "--check"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
