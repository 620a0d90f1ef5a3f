"""What gRPC's C core writes past every handler stays out of the logs of our programs."""

import os
import subprocess
import sys

import pytest

WATCHED = """
import importlib, os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "grpc":
            print(os.environ.get("GRPC_VERBOSITY"), os.environ.get("GRPC_ENABLE_FORK_SUPPORT"))

sys.meta_path.insert(0, Watch())
importlib.import_module(sys.argv[1])
importlib.import_module("grpc")
"""


@pytest.mark.parametrize("program", ["server", "agent", "supervisor"])
def test_a_program_silences_grpc_before_it_is_loaded(program: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    words = [sys.executable, "-c", WATCHED, f"lattice.daemons.programs.{program}"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "NONE false\n"
