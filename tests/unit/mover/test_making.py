"""One copy: what a mover leaves for nodes that wait for it."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from lattice.mover.making import Answer, CopyMaking
from lattice.mover.pace import Pace
from lattice.mover.tier import HotTier
from lattice.ports.data.sources import Entry, Listing
from lattice.wire.data.moving import CopyReport, CopyTask

KEY = "ab" * 16


class ClosedSource:
    """One that nobody may read any more."""

    def readable_by(self, accounts: Sequence[str]) -> dict[str, str]:
        return dict.fromkeys(accounts, "permission denied")

    def listing(self) -> Listing:
        return Listing(version="v", entries=[Entry(path="", kind="file", size=1, mtime_ns=1)])

    def restoring(self, listing: Listing) -> str:
        raise AssertionError("nothing is to be copied")

    def copy(self, entry: Entry, fd: int, on_bytes: Callable[[int], None]) -> None:
        raise AssertionError("nothing is to be copied")

    def close(self) -> None:
        return


def test_nodes_that_wait_for_the_rest_hear_that_its_user_may_not_read_it_any_more(tmp_path: Path) -> None:
    """The mover before this one was lost when the copy was usable: work was placed since, and waits on its nodes."""
    tier = HotTier(tmp_path / "hot")
    tier.prepare()
    told: list[CopyReport] = []

    def report(*reports: CopyReport) -> Answer:
        told.extend(reports)
        return Answer(go_on=False, reason="permission denied")

    task = CopyTask(key=KEY, source="file:///warm/a", generation=3, present=0, version="", tries=0, accounts=("ada",))
    CopyMaking(task, tier, lambda _: ClosedSource(), Pace(), report).run()
    assert [each.phase.value for each in told] == ["sized"]
    assert json.loads((tier.folder / "failed" / f"{KEY}.3").read_bytes()) == {
        "tries": 3,
        "reason": "permission denied",
    }
