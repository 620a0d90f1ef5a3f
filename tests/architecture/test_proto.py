"""The generated wire modules are what the .proto files say."""

import subprocess
import sys

from tests.architecture.tree import ROOT


def test_generated_modules_are_up_to_date() -> None:
    outcome = subprocess.run(
        [sys.executable, "tools/proto.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
