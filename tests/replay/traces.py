"""Traces of real machines, which are not part of the repository: where they may lie."""

import json
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def folder() -> Path | None:
    """LATTICE_TRACES, else shared/traces beside the repository."""
    named = os.environ.get("LATTICE_TRACES")
    found = Path(named) if named else ROOT.parent / "shared" / "traces"
    return found if (found / "manifest.json").is_file() else None


def require_trace(name: str) -> Path:
    """Path of the trace whose file name starts so; without it the test is skipped, on every machine."""
    place = folder()
    if place is None:
        pytest.skip("no folder of traces with a manifest.json: set LATTICE_TRACES")
    for row in json.loads((place / "manifest.json").read_text()):
        if row["file"].startswith(name):
            return place / str(row["file"])
    pytest.skip(f"no trace {name} in {place}")
