"""Limits of processes that the site sets."""

import re
import resource

import pytest

from lattice.agent.runs.limits import LimitSettings, NodeSize, run_limits
from lattice.agent.runs.rlimits import parse_rlimit, what_cannot_be_set
from lattice.agent.shim.launch import Launch

UNLIMITED = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("memlock=unlimited", ("memlock", (UNLIMITED, UNLIMITED))),
        ("stack=8M:unlimited", ("stack", (8 << 20, UNLIMITED))),
        ("nofile=1024:65536", ("nofile", (1024, 65536))),
        ("core=0", ("core", (0, 0))),
        ("fsize=2T", ("fsize", (2 << 40, 2 << 40))),
    ],
)
def test_limits_are_said_as_ulimit_shows_them(text: str, meaning: tuple[str, tuple[int, int]]) -> None:
    assert parse_rlimit(text) == meaning


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("memlock", "not NAME=SOFT"),
        ("memory=1G", "no such limit: 'memory'; known: as, core"),
        ("memlock=", "not a limit of memlock"),
        ("memlock=-1", "not a limit of memlock"),
        ("memlock=1G:", "not a limit of memlock"),
        ("nofile=1K", "give a number, or unlimited"),
        ("stack=unlimited:8M", "soft limit of stack is above the hard one"),
        ("stack=9M:8M", "above the hard one"),
        ("core=" + "9" * 18 + "T", "too large"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        parse_rlimit(text)


def test_without_root_a_limit_above_ones_own_is_named() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert what_cannot_be_set({"nofile": (hard, hard)}) == ""
    assert what_cannot_be_set({"nofile": (hard, hard + 1)}).endswith("the agent's own: nofile")


def test_they_reach_the_shim() -> None:
    size = NodeSize(cpus=4, memory_mb=1000)
    asked = run_limits(LimitSettings(rlimits={"stack": (1 << 20, UNLIMITED)}), size, 0, 0)
    launch = Launch({"argv": ["true"], **asked})
    assert launch.rlimits == [(resource.RLIMIT_STACK, (1 << 20, UNLIMITED))]
    assert Launch({"argv": ["true"], **run_limits(LimitSettings(), size, 0, 0)}).rlimits == []


@pytest.mark.parametrize(
    "said", [{"memory": [1, 1]}, {"stack": 1}, {"stack": [1]}, {"stack": [1, -2]}, {"stack": ["1", 1]}]
)
def test_the_shim_refuses_what_is_no_limit(said: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"stack|memory"):
        Launch({"argv": ["true"], "limits": {"rlimits": said}})
