"""What a run may take: its share, and on a whole node all but what the system needs."""

from typing import Any

import pytest

from lattice.agent.runs.limits import LimitSettings, NodeSize, run_limits

NODE = NodeSize(cpus=8, memory_mb=16_000)
MACHINE = LimitSettings(machine_memory_mb=16_000)


def limits(request: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = request["limits"]
    return found


def test_share_is_limited_in_cpu_time_memory_and_processes() -> None:
    request = run_limits(MACHINE, NODE, 2, 3000)
    assert request == {"memory_mb": 3000, "limits": {"cpus": 2.0, "pids": 1024}}


def test_share_with_cpus_of_its_own_cannot_leave_them() -> None:
    assert limits(run_limits(MACHINE, NODE, 2, 3000, (4, 5)))["cpuset"] == [4, 5]


@pytest.mark.parametrize("cpus", [0, 8])
def test_whole_node_uses_all_cpus_and_leaves_the_system_its_memory(cpus: int) -> None:
    request = run_limits(MACHINE, NODE, cpus, 0)
    assert request == {"memory_mb": 16_000 - 512, "limits": {"pids": 8 * 512}}


def test_memory_that_was_asked_for_is_the_limit_on_a_whole_node_too() -> None:
    assert run_limits(MACHINE, NODE, 8, 1000)["memory_mb"] == 1000


def test_node_that_offers_less_than_the_machine_has_needs_no_reserve() -> None:
    small = NodeSize(cpus=8, memory_mb=4096)
    assert run_limits(MACHINE, small, 8, 0)["memory_mb"] == 4096


def test_reserve_never_takes_more_than_a_tenth_of_a_small_machine() -> None:
    tiny = NodeSize(cpus=1, memory_mb=1000)
    assert run_limits(LimitSettings(machine_memory_mb=1000), tiny, 1, 0)["memory_mb"] == 900


def test_processes_are_not_limited_where_the_site_says_so() -> None:
    assert "pids" not in limits(run_limits(LimitSettings(pids_per_cpu=0), NODE, 2, 100))
