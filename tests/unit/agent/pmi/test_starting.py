"""When the service of a step begins: with the first rank, or other node, that wants to speak, and not before."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import lattice
from lattice.agent.shim.launch import Launch
from lattice.agent.shim.loop import Loop, boot_now
from lattice.agent.shim.pmi.plan import PmiPlan
from lattice.agent.shim.pmi.starting import Doors, PmiService, offer_service
from lattice.agent.shim.spawn import Inheritance

KEY = bytes(range(32))
SOURCES = Path(lattice.__file__).parents[1]


class Shim:
    """A loop, and a fork that is only noted; `control` is what the service would read."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.begun: list[list[int]] = []
        self.control = -1
        self.refuses = False
        self.called = 0

    def fork(self, doors: Doors, control: int, _since_s: float) -> int:
        if self.refuses:
            raise OSError("too many processes")
        self.begun.append(list(doors.ranks))
        self.control = os.dup(control)
        return 4242

    def offer(self, plan: PmiPlan, ranks: list[int]) -> PmiService:
        service = PmiService(plan, ranks, self.fork)
        service.watch(self.loop, lambda: self.call(service))
        return service

    def call(self, service: PmiService) -> None:
        self.called += 1
        service.begin(self.loop, lambda: None)
        self.loop.stop()

    def run(self, at_most_s: float = 10.0) -> None:
        timer = self.loop.call_at(boot_now() + at_most_s, self.loop.stop)
        self.loop.run()
        timer.cancel()


@pytest.fixture
def shim() -> Iterator[Shim]:
    made = Shim()
    yield made
    if made.control >= 0:
        os.close(made.control)


def plan(*nodes: str, **more: object) -> PmiPlan:
    ranks = [[[2 * place, 2 * place + 1]] for place in range(len(nodes))]
    asked: dict[str, object] = {"kinds": ["pmi1"], "name": "a1.0", "nodes": list(nodes), "ranks": ranks, "place": 0}
    return PmiPlan({**asked, "host": "127.0.0.1", "key": KEY.hex(), **more})


def open_descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_tasks_that_end_without_a_word_never_have_a_service(shim: Shim) -> None:
    before = open_descriptors()
    service = shim.offer(plan("n1"), [0, 1])
    os.close(os.dup(service.end_of(0)))  # a rank that got it and ended
    shim.run(0.0)
    assert (shim.begun, service.pid, service.can_begin) == ([], 0, True)
    service.finish(shim.loop)
    assert (open_descriptors() - before, service.can_begin) == (set(), False)


def test_first_word_of_a_rank_begins_it_once_for_all_ranks(shim: Shim) -> None:
    service = shim.offer(plan("n1"), [0, 1])
    os.write(service.end_of(1), b"cmd=init pmi_version=1\n")
    shim.run()
    assert (shim.begun, service.pid, service.can_begin) == ([[0, 1]], 4242, False)
    assert service.end_of(1) == -1
    shim.run(0.0)
    assert shim.called == 1
    service.finish(shim.loop)


@pytest.mark.parametrize("door", ["pmix", "nodes"])
def test_a_connection_begins_it(shim: Shim, door: str, tmp_path: Path) -> None:
    pmix = {"program": "/bin/true", "space": "s", "dir": str(tmp_path), "env": {"URI": "tcp://127.0.0.1:{port}"}}
    service = shim.offer(plan("n1", "n2", kinds=["pmi1", "pmix"], pmix=pmix), [0, 1])
    listener = service._doors.pmix if door == "pmix" else service._doors.nodes
    assert listener is not None
    with socket.create_connection(listener.getsockname()):
        shim.run()
    assert shim.begun == [[0, 1]]
    service.finish(shim.loop)


def test_a_node_that_others_do_not_give_to_opens_no_port_for_them(shim: Shim) -> None:
    service = shim.offer(plan("n1", "n2", place=1), [2, 3])
    assert service._doors.nodes is None
    service.finish(shim.loop)


def test_nodes_that_ended_before_it_began_are_told_then(shim: Shim) -> None:
    service = shim.offer(plan("n1", "n2"), [0, 1])
    service.tell_ended([1])
    service.begin(shim.loop, lambda: None)
    assert json.loads(os.read(shim.control, 1000)) == {"ended": [1]}
    service.finish(shim.loop)


def test_a_fork_that_fails_leaves_nothing_open(shim: Shim) -> None:
    before = open_descriptors()
    service = shim.offer(plan("n1", "n2"), [0, 1])
    shim.refuses = True
    with pytest.raises(OSError, match="too many processes"):
        service.begin(shim.loop, lambda: None)
    assert (open_descriptors() - before, service.can_begin, service.pid) == (set(), False, 0)


def test_an_order_that_cannot_be_meant_is_refused() -> None:
    launch, unused = Launch({"argv": ["true"]}), Inheritance.__new__(Inheritance)
    refused = offer_service({"pmi": {"kinds": ["pmi9"]}}, launch, [0], None, unused)
    assert refused == (None, "cannot start the PMI service: pmi.kinds is not a part of pmi1, pmi2, pmix: ('pmi9',)")
    assert offer_service({}, launch, [0], None, unused) == (None, "")


def test_a_task_has_arguments_variables_and_cpus_of_its_own() -> None:
    step = Launch({"argv": ["true"], "env": {"A": "1", "PATH": "/bin"}, "cpus": [0, 1], "cwd": "/tmp"})
    same = step.of_task({"env": {"RANK": "3"}})
    assert (same.argv, same.env, same.cpus) == ([b"true"], {b"A": b"1", b"PATH": b"/bin", b"RANK": b"3"}, [0, 1])
    assert (same.candidates, same.cwd) == ([b"/bin/true"], b"/tmp")
    other = step.of_task({"argv": ["false"], "env": {"PATH": "/x"}, "cpus": [1]})
    assert (other.argv, other.cpus, other.candidates) == ([b"false"], [1], [b"/x/false"])
    assert step.env == {b"A": b"1", b"PATH": b"/bin"}
    with pytest.raises(ValueError, match="argv is empty"):
        step.of_task({"argv": [""]})


def test_connecting_to_another_node_loads_no_codec() -> None:
    program = f"""
import sys
sys.path.append({str(SOURCES)!r})
from lattice.agent.shim.loop import Loop
from lattice.agent.shim.pmi.links import Member
Member(Loop(), b"k" * 32, "localhost", 1, lambda data: None, lambda: None).connect()
print("encodings.idna" in sys.modules)
"""
    command = [sys.executable, "-S", "-E", "-c", program]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
