"""What a lying node says it measured: what is no figure is left out, never read as 0."""

import math

import pytest

from lattice.api.grpc.agents.telemetry import MAX_SERIES, figures_of, told_of
from lattice.wire.pb import agent_pb2 as pb

NO_FIGURES = (math.nan, math.inf, -math.inf, 1e300)
COLUMNS = ("mean", "p50", "p95", "p99", "max")


def series(metric: str, column: str = "", value: float = 1.5) -> pb.MetricSeries:
    """One window, with the value in that column."""
    made = pb.MetricSeries(metric=metric, at_ms=[1000], length_ms=[1000], count=[1])
    for name in COLUMNS:
        getattr(made, name).append(value if name == column else 1.5)
    return made


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("value", NO_FIGURES)
def test_a_series_with_what_is_no_figure_is_left_out(column: str, value: float) -> None:
    told = told_of(pb.TelemetryTold(series=[series("memory_used", column, value), series("cpus_used")]))
    assert [each.metric for each in told.series] == ["cpus_used"]


@pytest.mark.parametrize("value", NO_FIGURES)
def test_a_report_with_what_is_no_figure_is_left_out(value: float) -> None:
    lie = pb.RunFigure(key=pb.RunKey(number=1, run=1), metrics=["cpus_used"], values=[value])
    true = pb.RunFigure(key=pb.RunKey(number=2, run=1), metrics=["cpus_used"], values=[1.5])
    read = figures_of(pb.RunFigures(runs=[lie, true])).runs
    assert [(each.key.number if each.key else 0, tuple(each.values)) for each in read] == [(2, (1.5,))]


def test_a_hundred_thousand_series_are_cut_and_unknown_names_left_out() -> None:
    hostile = [series(name) for name in ('x"} or up', "cpus_used\n", "__name__", "")]
    many = [series("cpus_used") for _ in range(100_000)]
    told = told_of(pb.TelemetryTold(series=hostile + many))
    assert len(told.series) == MAX_SERIES - len(hostile)
    assert {each.metric for each in told.series} == {"cpus_used"}
