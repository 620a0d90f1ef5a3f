"""Reports of a run whose number meant another submission change nothing."""

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

from lattice.control.nodes.sessions import AgentSessions
from lattice.ports.nodes.agents import Phase, Report, RunKey


def test_a_report_counts_only_for_the_submission_that_the_number_means() -> None:
    record = SimpleNamespace(number=7, submitted_at=900)
    sessions: Any = SimpleNamespace(
        replica=SimpleNamespace(state=SimpleNamespace(allocations={7: record})), counts=Counter[str]()
    )

    def is_meant(submission: str, number: int = 7) -> bool:
        report = Report(key=RunKey(number, 1), phase=Phase.ENDED, seq=2, submission=submission)
        return AgentSessions._is_meant(cast("AgentSessions", sessions), report)

    assert is_meant("7@900")
    assert is_meant("")  # an agent that does not say
    assert is_meant("8@900", number=8)  # the state judges what it does not know
    assert not is_meant("7@100")
    assert sessions.counts["reports_of_others"] == 1
