"""A real server to throw things at; it must still be well afterwards."""

import os
from collections.abc import Iterator

import pytest

from lattice.testing import LocalCluster

# So long each fuzzer runs: in the suite, and in its long form.
SHORT_S = float(os.environ.get("LATTICE_FUZZ_S", "10"))
LONG_S = float(os.environ.get("LATTICE_FUZZ_S", "600"))


@pytest.fixture(scope="session")
def target() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=1, restart=False) as cluster:
        yield cluster
        assert cluster.request("GET", "/whoami")[0] == 200, "the server did not survive"
        log = (cluster.directory / "server.log").read_text()
        assert '"level": "critical"' not in log
        assert "Traceback" not in log, log[log.index("Traceback") :][:2000]
