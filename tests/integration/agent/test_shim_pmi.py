"""The service of a step: what ranks say on PMI_FD, how fences pass between nodes, and what ends a step. Ranks are shells here."""

import hashlib
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from lattice.agent.shim.pmi.early import REQUEST
from lattice.agent.shim.pmi.seal import ports
from lattice.agent.tunnels.listening import SERVICES
from tests.integration.agent.shim_process import Client, ShimProcess, alive, wait_for
from tests.integration.agent.test_shim_steps import about, request, step_end, step_event, written

Message = dict[str, Any]
NO_KEY = b""
SAY = (
    'say() { printf \'%s\\n\' "$1" >&$PMI_FD; read -r -u $PMI_FD answer; echo "$answer"; };'
    " say 'cmd=init pmi_version=1 pmi_subversion=1' >/dev/null; "
)
EXCHANGE = (
    'say "cmd=put kvsname=k key=r$RANK value=v$RANK" >/dev/null; say cmd=barrier_in; '
    'for r in $RANKS; do say "cmd=get kvsname=k key=r$r"; done; say cmd=finalize >/dev/null; '
)

TWICE = EXCHANGE.replace("say cmd=finalize >/dev/null; ", "") + EXCHANGE


def pmi(ranks: list[list[list[int]]], place: int = 0, key: bytes = NO_KEY, timeout_s: float = 60.0) -> Message:
    return {
        "kinds": ["pmi1", "pmi2"],
        "name": "a7.0",
        "nodes": [f"n{number + 1}" for number in range(len(ranks))],
        "ranks": ranks,
        "place": place,
        "host": "127.0.0.1",
        "key": key.hex(),
        "timeout_s": timeout_s,
    }


def step(
    shim: ShimProcess, script: str, wanted: Message, ranks: range, number: int = 7, index: int = 0, size: int = 0
) -> Message:
    fields = request(shim, number, "bash", "-c", SAY + script, step=index)
    every = " ".join(map(str, range(size or len(ranks))))
    fields["tasks"] = [{"rank": rank, "env": {"RANK": str(rank), "RANKS": every}} for rank in ranks]
    # Tests run beside each other, and the key decides where nodes of a step meet.
    own_key = hashlib.sha256(str(shim.dir).encode()).hexdigest()
    return {**fields, "pmi": {**wanted, "key": wanted["key"] or own_key}}


def key_with_free_ports() -> bytes:
    """A key whose first two ports no program of this machine has."""
    while True:
        key = os.urandom(32)
        try:
            for port in ports(key)[:2]:
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return key


def lines(fields: Message) -> dict[int, list[str]]:
    try:
        return {rank: data.decode().splitlines() for rank, data in written(fields).items()}
    except FileNotFoundError:
        return {}


def got(size: int) -> list[str]:
    return ["cmd=barrier_out", *(f"cmd=get_result rc=0 msg=success value=v{rank}" for rank in range(size))]


def test_ranks_of_a_node_exchange_keys(shim: ShimProcess, agent: Client) -> None:
    fields = step(shim, EXCHANGE, pmi([[[0, 3]]]), range(4))
    assert agent.ask("launch_step", **fields)["ok"]
    end = step_end(agent, 7)
    assert [task["exit_code"] for task in end["tasks"]] == [0] * 4
    assert lines(fields) == {rank: got(4) for rank in range(4)}
    assert (end["pmi"]["kind"], end["pmi"]["met"], end["pmi"]["fences"]) == ("pmi1", 4, 1)
    assert end["pmi"]["bytes"] > 0


def test_what_ranks_did_is_told_while_they_run(shim: ShimProcess, agent: Client) -> None:
    gate = shim.dir / "gate"
    os.mkfifo(gate)
    fields = step(shim, EXCHANGE + f"read -r -t 60 < {gate}", pmi([[[0, 1]]]), range(2))
    assert agent.ask("launch_step", **fields)["ok"]
    told = step_event(agent, 7, 0, "running")["pmi"]
    assert (told["kind"], told["met"], told["fences"]) == ("pmi1", 2, 1)
    with gate.open("w") as opened:
        opened.write("go\ngo\n")
    assert step_end(agent, 7)["pmi"]["fences"] == 1


def test_ranks_that_meet_without_end_are_told_of_less_and_less_often(shim: ShimProcess, agent: Client) -> None:
    fields = step(shim, "while true; do say cmd=barrier_in >/dev/null; sleep 0.05; done", pmi([[[0, 0]]]), range(1))
    assert agent.ask("launch_step", **fields)["ok"]
    times_s: list[float] = []
    while len(times_s) < 3:
        event = agent.receive()
        times_s += [time.monotonic()] * (event.get("event") == "step" and "pmi" in event)
    assert times_s[2] - times_s[0] > 4  # 2 s and 4 s
    assert agent.ask("end_step", **about(fields), grace_s=0)["ok"]
    step_end(agent, 7)


@pytest.mark.parametrize("shape", [{}, {"heads": [[1, "127.0.0.1"]]}, {"hidden": True}])
def test_nodes_of_a_step_exchange_keys(shim: ShimProcess, agent: Client, shape: Message) -> None:
    layout = [[[0, 1]], [[2, 3]], [[4, 4]]]
    parts = [(range(2), 0), (range(2, 4), 1), (range(4, 5), 2)]
    steps = [step(shim, TWICE, pmi(layout, place) | shape, ranks, index=place, size=5) for ranks, place in parts]
    for fields in reversed(steps):
        assert agent.ask("launch_step", **fields)["ok"]
    for place, fields in enumerate(steps):
        end = step_end(agent, 7, place)
        assert [task["exit_code"] for task in end["tasks"]] == [0] * len(parts[place][0])
        assert end["pmi"]["fences"] == 2
        assert lines(fields) == {rank: got(5) * 2 for rank in parts[place][0]}


def test_a_stranger_on_the_port_is_passed_over_and_one_who_connects_learns_nothing(
    shim: ShimProcess, agent: Client
) -> None:
    key = key_with_free_ports()
    with socket.create_server(("127.0.0.1", ports(key)[0])) as squatter:
        layout = [[[0, 0]], [[1, 1]]]
        wait_there = "read -r -t 60 < $GATE; "
        gate = shim.dir / "gate"
        os.mkfifo(gate)
        gate.chmod(0o666)
        first = step(shim, wait_there.replace("$GATE", str(gate)) + EXCHANGE, pmi(layout, 0, key), range(1), size=2)
        second = step(shim, EXCHANGE, pmi(layout, 1, key), range(1, 2), index=1, size=2)
        agent.ask("launch_step", **first)
        agent.ask("launch_step", **second)
        met, _ = squatter.accept()
        with met, socket.create_connection(("127.0.0.1", ports(key)[1])) as stranger:
            met.settimeout(60)
            assert met.recv(100)[:5] == b"LPMI1"
            met.sendall(b"x" * 48)
            stranger.sendall(b"LPMI1" + b"\0\0\0\1" + b"n" * 16)
            stranger.settimeout(60)
            assert len(stranger.recv(1000)) == 48
            stranger.sendall(b"p" * 32)
            assert stranger.recv(1000) == b""
        gate.write_text("go\n")
        for place in (0, 1):
            assert [task["exit_code"] for task in step_end(agent, 7, place)["tasks"]] == [0]


def test_two_steps_with_other_keys_do_not_meet(shim: ShimProcess, agent: Client) -> None:
    layout = [[[0, 0]], [[1, 1]]]
    first = step(shim, EXCHANGE, pmi(layout, 0, b"a" * 32, 1.0), range(1), size=2)
    second = step(shim, EXCHANGE, pmi(layout, 1, b"b" * 32, 1.0), range(1, 2), index=1, size=2)
    for fields in (first, second):
        agent.ask("launch_step", **fields)
    assert step_end(agent, 7, 0)["why"] == "PMI fence timeout: waited for rank 1 on n2"
    assert step_end(agent, 7, 1)["why"] == "PMI fence timeout: waited for node n1"


def test_a_fence_that_takes_too_long_names_the_ranks_and_kills_the_step_on_all_nodes(
    shim: ShimProcess, agent: Client
) -> None:
    layout = [[[0, 1]], [[2, 4]]]
    late = "if [ $RANK -ge 3 ]; then exec sleep 300; fi; " + EXCHANGE
    first = step(shim, EXCHANGE, pmi(layout, 0, timeout_s=5.0), range(2), size=5)
    second = step(shim, late, pmi(layout, 1, timeout_s=5.0), range(2, 5), index=1, size=5)
    for fields in (first, second):
        agent.ask("launch_step", **fields)
    for place in (0, 1):
        end = step_end(agent, 7, place)
        assert (end["cause"], end["why"]) == ("pmi", "PMI fence timeout: waited for ranks 3-4 on n2")
        assert {task["signal"] for task in end["tasks"]} == {signal.SIGKILL}


def test_a_rank_that_leaves_is_not_waited_for(shim: ShimProcess, agent: Client) -> None:
    fields = step(shim, "[ $RANK = 1 ] && exit 0; " + EXCHANGE, pmi([[[0, 2]]]), range(3))
    agent.ask("launch_step", **fields)
    end = step_end(agent, 7)
    assert end["why"] == "rank 1 on n1 ended while others waited in a PMI fence"


def test_abort_ends_all_nodes_with_its_code(shim: ShimProcess, agent: Client) -> None:
    layout = [[[0, 1]], [[2, 2]]]
    script = TWICE.removesuffix("say cmd=finalize >/dev/null; ") + (
        "if [ $RANK = 1 ]; then echo cmd=abort exitcode=7 >&$PMI_FD; fi; exec sleep 300"
    )
    first = step(shim, script, pmi(layout), range(2), size=3)
    second = step(shim, script, pmi(layout, 1), range(2, 3), index=1, size=3)
    for fields in (first, second):
        agent.ask("launch_step", **fields)
    end = step_end(agent, 7, 0)
    assert end["cause"] == "pmi"
    # Also in what is told before the step has ended, whatever the rank died of.
    told = [task for event in agent.events if event["event"] == "step" for task in event.get("tasks", ())]
    assert {task["exit_code"] for task in told if task["rank"] == 1} == {7}
    assert step_end(agent, 7, 1)["why"] == "rank 1 on n1 called MPI_Abort with code 7"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'GET / HTTP/1.1' >&$PMI_FD; exec sleep 300", 'rank 0 on n1 sent "GET / HTTP/1.1", which is not PMI'),
        ("head -c 100000 /dev/zero >&$PMI_FD; exec sleep 300", "rank 0 on n1 sent a line of more than 16,384 bytes"),
    ],
)
def test_garbage_ends_the_step_with_a_reason(shim: ShimProcess, agent: Client, script: str, why: str) -> None:
    agent.ask("launch_step", **step(shim, script, pmi([[[0, 0]]]), range(1)))
    end = step_end(agent, 7)
    assert (end["cause"], end["why"]) == ("pmi", why)
    assert agent.ask("launch_step", **request(shim, 8, "true"))["ok"]
    assert step_end(agent, 8)["tasks"][0]["exit_code"] == 0


def test_a_rank_that_asks_and_never_reads_does_not_hold_the_others(shim: ShimProcess, agent: Client) -> None:
    flood = "if [ $RANK = 0 ]; then while :; do echo cmd=get_appnum; done >&$PMI_FD; fi; "
    fields = step(shim, flood + "say cmd=get_my_kvsname; exec sleep 300", pmi([[[0, 1]]]), range(2))
    agent.ask("launch_step", **fields)
    wait_for(lambda: lines(fields).get(1) == ["cmd=my_kvsname kvsname=a7.0"], "the other rank's answer")
    agent.ask("end_step", **about(fields), grace_s=0, why="")
    step_end(agent, 7)


def test_ranks_that_ask_for_pmix_in_vain_go_on_without(shim: ShimProcess, agent: Client) -> None:
    # As tasks do whose user set the variable that they go by; nothing keeps a program from asking twice.
    early = f'ask() {{ echo {REQUEST.decode().strip()} >&$PMI_FD; read -r -u $PMI_FD answer; echo "early$answer"; }}; ask; ask; '
    fields = step(shim, EXCHANGE, pmi([[[0, 1]]]), range(2))
    fields["argv"] = [*fields["argv"][:-1], early + fields["argv"][-1]]
    assert agent.ask("launch_step", **fields)["ok"]
    end = step_end(agent, 7)
    assert [task["exit_code"] for task in end["tasks"]] == [0, 0]
    assert lines(fields) == {rank: ["early", "early", *got(2)] for rank in range(2)}


def service_pids(shim: ShimProcess) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = (folder / "comm").read_text().strip() in SERVICES
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if is_ours and int(parent) == shim.process.pid:
            found.append(int(folder.name))
    return found


def test_the_service_is_the_users_cannot_be_read_by_him_and_ends_with_the_step(
    root_shim: ShimProcess,
) -> None:
    agent = root_shim.connect()
    fields = step(root_shim, "say cmd=get_appnum; exec sleep 300", pmi([[[0, 0]]]), range(1))
    fields |= {"uid": 65534, "gid": 65534, "groups": []}
    agent.ask("launch_step", **fields)
    wait_for(lambda: lines(fields).get(0), "the rank's answer")
    (pid,) = service_pids(root_shim)
    assert f"Uid:\t{65534}" in Path(f"/proc/{pid}/status").read_text()
    # Files of a process that nobody may trace belong to root.
    assert Path(f"/proc/{pid}/mem").stat().st_uid == 0
    agent.ask("end_step", **about(fields), grace_s=0, why="")
    step_end(agent, 7)
    assert not alive(pid)


def test_a_step_whose_service_is_killed_ends_with_a_reason(shim: ShimProcess, agent: Client) -> None:
    fields = step(shim, "say cmd=get_appnum; exec sleep 300", pmi([[[0, 0]]]), range(1))
    agent.ask("launch_step", **fields)
    wait_for(lambda: lines(fields).get(0), "the rank's answer")
    (pid,) = service_pids(shim)
    os.kill(pid, signal.SIGKILL)
    assert step_end(agent, 7)["why"] == "the step's PMI service was killed"


def test_a_service_ends_with_its_shim(shim: ShimProcess, agent: Client) -> None:
    fields = step(shim, "say cmd=get_appnum; exec sleep 300", pmi([[[0, 0]]]), range(1))
    agent.ask("launch_step", **fields)
    wait_for(lambda: lines(fields).get(0), "the rank's answer")
    (pid,) = service_pids(shim)
    shim.kill()
    wait_for(lambda: not alive(pid), "its end")


def test_a_step_that_never_speaks_pmi_ends_as_ever(shim: ShimProcess, agent: Client) -> None:
    fields = {**request(shim, 7, "sh", "-c", "exit $RANK", tasks=3), "pmi": pmi([[[0, 2]]])}
    agent.ask("launch_step", **fields)
    end = step_end(agent, 7)
    assert ([task["exit_code"] for task in end["tasks"]], end["cause"]) == ([0, 1, 2], "exit")
    assert "pmi" not in end


@pytest.mark.parametrize(
    "change", [{"kinds": ["pmix"]}, {"place": 4}, {"nodes": "n1"}, {"ranks": [[0]]}, {"heads": [[7, "x"]]}]
)
def test_a_request_that_cannot_be_meant_starts_no_task(shim: ShimProcess, agent: Client, change: Message) -> None:
    fields = {**request(shim, 7, "true"), "pmi": {**pmi([[[0, 0]]]), **change}}
    agent.ask("launch_step", **fields)
    assert step_end(agent, 7)["tasks"][0]["error"].startswith("cannot start the PMI service: pmi")
