"""Stopping a cluster, which scripts and tests do all day, brings nothing along that only a running one needs."""

import subprocess
import sys
from pathlib import Path

STOP = """
import sys
from lattice.daemons.programs.supervisor import main
code = main(["stop", "--dir", sys.argv[1]])
print(*sorted({"asyncio", "cryptography", "grpc", "jwt", "yaml"} & set(sys.modules)), code)
"""


def test_stop_imports_no_library_of_servers(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOP, tmp_path], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == ["not running", "0"]
