"""Long logs that earlier releases wrote: this one comes to the same state, from the log and from the snapshot in its middle."""

import json
import shutil
from pathlib import Path

import pytest

from tests.unit.quorum.world import run, running
from tests.upgrades.record import HERE
from tests.upgrades.replicas import replica_of
from tests.upgrades.walk import EXPECTED, WALK, logged_kinds, summary_of

RELEASES = sorted(path.parent.name for path in HERE.glob(f"*/{EXPECTED}"))


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("from_log_alone", [False, True])
def test_an_old_log_leads_to_the_state_that_its_release_came_to(
    release: str, tmp_path: Path, *, from_log_alone: bool
) -> None:
    """A difference means that servers of both releases would disagree in the middle of an upgrade.

    A rule that has to judge anew does so from a higher level on: see docs/architecture/upgrades.md.
    """
    expected = json.loads((HERE / release / EXPECTED).read_text())
    del expected["commands"]
    shutil.copytree(HERE / release / WALK, tmp_path / "data")
    if from_log_alone:
        shutil.rmtree(tmp_path / "data" / "snapshots")

    async def scenario() -> None:
        async with running(replica_of(tmp_path / "data", now_ms=0)) as replica:
            found = summary_of(replica.state)
            assert {key: found[key] for key in expected} == expected

    run(scenario())


@pytest.mark.parametrize("release", RELEASES)
def test_an_old_log_holds_the_commands_that_were_recorded(release: str, tmp_path: Path) -> None:
    expected = json.loads((HERE / release / EXPECTED).read_text())["commands"]
    shutil.copytree(HERE / release / WALK, tmp_path / "data")
    found = run(logged_kinds(tmp_path / "data"))
    # The replica added one of its own: the pointer to its snapshot.
    found.subtract({"record_snapshot": 1})
    assert found == expected
    assert len(found) > 50


def test_there_is_a_recorded_log() -> None:
    assert RELEASES
