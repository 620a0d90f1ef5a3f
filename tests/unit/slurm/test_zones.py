"""Times of the caller's zone, in whatever form `TZ` names it."""

import pytest

from lattice.api.slurm.submit.exporting import exported
from lattice.slurm.text.times import format_date, format_moment, parse_moment
from lattice.slurm.text.zones import VARIABLE, zone_of

NOW = 1772700000.0  # 2026-03-05 08:40 UTC


@pytest.mark.parametrize(
    ("zone", "shown", "noon_in_july"),
    [
        ("UTC", "08:40", 1782907200),
        ("", "08:40", 1782907200),
        ("Europe/Zurich", "09:40", 1782900000),
        (":Asia/Tokyo", "17:40", 1782874800),
        ("/usr/share/zoneinfo/America/New_York", "03:40", 1782921600),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "09:40", 1782900000),
        ("XYZ5QQQ", "03:40", 1782921600),
        ("<+03>-3", "11:40", 1782896400),
        ("../../etc/passwd", "08:40", 1782907200),
        ("CET-1CEST,M99.9.9,M88.8.8", "08:40", 1782907200),
        ("A" * 5000, "08:40", 1782907200),
        ("Europe\0", "08:40", 1782907200),
    ],
)
def test_moments_are_shown_and_read_in_the_zone_of_the_caller(zone: str, shown: str, noon_in_july: int) -> None:
    with zone_of({"TZ": "Asia/Kathmandu", VARIABLE: zone}):
        assert format_moment(NOW) == f"2026-03-05T{shown}:00"
        assert format_moment(NOW, "%s %%s") == "1772700000 %s"
        assert f" {shown}:00 " in format_date(NOW)
        assert parse_moment("2026-07-01T12:00", NOW) == noon_in_july


def test_the_zone_of_the_command_is_no_variable_of_the_work() -> None:
    assert exported({"TZ": "UTC", VARIABLE: "UTC"}, "") == {"TZ": "UTC"}
    assert exported({VARIABLE: "UTC"}, f"NONE,{VARIABLE}") == {}
