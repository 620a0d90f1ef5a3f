"""Reports of checks on the wire, from honest agents and from others."""

from lattice.core.model.nodes.health import MAX_TEXT, CheckStanding, Consequence, HealthReport, Verdict
from lattice.core.model.nodes.observations import Beat
from lattice.observe.metrics import MAX_CHECK_NAMES, Metrics
from lattice.wire.agents.health import MAX_CHECKS, check_view, checks_of, health_report, vitals_view
from lattice.wire.pb import agent_pb2 as pb


def test_a_report_arrives_as_it_was_sent() -> None:
    standings = tuple(
        CheckStanding(
            name=f"check-{verdict}",
            verdict=verdict,
            text="words",
            consequence=consequence,
            required_for_ready=consequence is Consequence.DRAIN,
            failures=3,
            age_s=1.5,
            duration_s=0.25,
        )
        for verdict in Verdict
        for consequence in Consequence
    )[::3]
    sent = health_report(standings, seq=7, tickets=[1, 2]).SerializeToString()
    heard = checks_of(pb.AgentMessage.FromString(sent).health_report)
    assert heard == HealthReport(checks=standings, seq=7, tickets=(1, 2))


def test_what_makes_no_sense_is_left_out_cut_or_taken_for_the_worst() -> None:
    odd = [pb.CheckStanding(name=name) for name in ("", "a b", "x" * 41, "\x1b[2J", "ä")]
    long = pb.CheckStanding(name="long", text="\x1b" * 10_000, age_s=-5, verdict=pb.CHECK_VERDICT_PASSED)
    unknown = pb.CheckStanding(name="unknown", text="?")
    heard = checks_of(pb.HealthReport(checks=[*odd, long, long, unknown]))
    assert [each.name for each in heard.checks] == ["long", "unknown"]
    assert len(heard.checks[0].text) == MAX_TEXT
    assert heard.checks[0].age_s == 0
    assert (heard.checks[1].verdict, heard.checks[1].consequence) == (Verdict.FAILED, Consequence.WARN)
    endless = pb.CheckStanding(name="endless", age_s=float("inf"), duration_s=float("nan"))
    (heard_endless,) = checks_of(pb.HealthReport(checks=[endless])).checks
    assert (heard_endless.age_s, heard_endless.duration_s) == (0, 0)
    many = pb.HealthReport(checks=[pb.CheckStanding(name=f"c{number}") for number in range(10_000)])
    assert len(checks_of(many).checks) == MAX_CHECKS


def test_views_round_what_people_read() -> None:
    shown = check_view(CheckStanding(name="a", age_s=1.26, duration_s=0.00051))
    assert (shown.since_s, shown.duration_s) == (1.3, 0.001)
    assert vitals_view(Beat(seq=1)).temperature_c is None
    assert vitals_view(Beat(seq=1, temperature_c=61.23)).temperature_c == 61.2


def test_an_agent_that_invents_names_of_checks_does_not_fill_the_memory() -> None:
    metrics = Metrics()
    for number in range(MAX_CHECK_NAMES + 50):
        metrics.check_failed(f"c{number}")
    lines = [line for line in metrics.render().splitlines() if line.startswith(b"lattice_node_check_failures_total{")]
    assert len(lines) == MAX_CHECK_NAMES + 1
    assert b'lattice_node_check_failures_total{check="other"} 50.0' in lines
