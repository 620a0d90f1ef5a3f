"""What a node asks its shim to set for a memory policy, and what the kernel then says."""

import os
from pathlib import Path

import pytest

from lattice.agent.runs.devices import NOTHING, Devices
from lattice.agent.runs.launch import LaunchRefused
from lattice.agent.runs.memory_policy import policy_request
from lattice.agent.shim.confinement.memory_policy import can_set, parse_policy, set_policy
from lattice.core.model.nodes.memory import MemoryDomain, MemoryDomainType, MemoryTopology

TWO = MemoryTopology(
    domains=(
        MemoryDomain(id=0, numa_node=0, attached_cpus=(0, 1)),
        MemoryDomain(id=1, numa_node=1, attached_cpus=(2, 3)),
    )
)
UNIFIED = MemoryTopology(domains=(MemoryDomain(id=0, domain_type=MemoryDomainType.UNIFIED, numa_node=0),))


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("", {}),
        ("prefer_local", {"kind": "local", "nodes": []}),
        ("interleave", {"kind": "interleave", "nodes": [0, 1]}),
        ("bind", {"kind": "bind", "nodes": [1]}),
        ("preferred:0", {"kind": "preferred", "nodes": [0]}),
    ],
)
def test_the_shim_is_told_the_numa_nodes(text: str, asked: dict[str, object]) -> None:
    told = policy_request(text, TWO, Devices(cpus=(2, 3)))
    assert told == ({"memory_policy": asked} if asked else {})


def test_a_wish_means_nothing_where_all_memory_is_one() -> None:
    assert policy_request("prefer_local", UNIFIED, NOTHING) == {}
    assert policy_request("local", UNIFIED, NOTHING) != {}, "asked for"


def test_a_numa_node_that_is_not_there_ends_the_work() -> None:
    with pytest.raises(LaunchRefused, match="memory policy bind:7: there is no NUMA node 7"):
        policy_request("bind:7", TWO, NOTHING)


@pytest.mark.parametrize(
    "asked",
    [
        {"kind": "near"},
        {"kind": "bind"},
        {"kind": "bind", "nodes": [1024]},
        {"kind": "bind", "nodes": [True]},
        {"kind": "local", "nodes": [0]},
        "bind",
    ],
)
def test_a_shim_refuses_what_cannot_be_meant(asked: object) -> None:
    with pytest.raises(ValueError, match="memory_policy"):
        parse_policy(asked)


@pytest.mark.skipif(not can_set(), reason="this kernel has no memory policies")
@pytest.mark.parametrize(
    ("kind", "nodes", "said"),
    [
        ("interleave", [0], " interleave:0 "),
        ("bind", [0], " bind:0 "),
        ("preferred", [0], " prefer:0 "),
        ("local", [], " local "),
    ],
)
def test_the_kernel_shows_the_policy_of_the_process(kind: str, nodes: list[int], said: str) -> None:
    policy = parse_policy({"kind": kind, "nodes": nodes})
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            set_policy(policy or (0, b""))
            os.write(writer, Path("/proc/self/numa_maps").read_bytes()[:4000])
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as shown:
        text = shown.read()
    os.waitpid(pid, 0)
    assert said in text
