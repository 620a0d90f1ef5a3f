"""Terminals in a real shim: several clients, the foreground, hanging up, and a run that ends with one."""

import base64
import signal

from lattice.agent.shim.journal import SHAPE, WINDOW, tail_of
from tests.integration.agent.shim_process import Client, ShimProcess, wait_for
from tests.integration.agent.test_shim_steps import Message, about, request, step_end, written, written_so_far


def opened(shim: ShimProcess, agent: Client, number: int, script: str, **terminal: object) -> Message:
    fields = request(shim, number, "sh", "-c", script, pty=True)
    assert agent.ask("launch_step", **{**fields, "terminal": terminal, "rows": 30, "columns": 100})["ok"]
    return fields


def typed(agent: Client, fields: Message, client: str, offset: int, data: bytes) -> int:
    text = base64.b64encode(data).decode()
    return int(agent.ask("feed_step", **about(fields), client=client, offset=offset, data=text)["upto"])


def test_several_clients_type_each_byte_once_and_the_last_one_sets_the_size(shim: ShimProcess, agent: Client) -> None:
    fields = opened(shim, agent, 1, "stty -echo; echo ready; read a; read b; stty size; echo $a $b")
    wait_for(lambda: b"ready" in written_so_far(fields), "the program")
    agent.ask("resize_step", **about(fields), rows=40, columns=140, client="two")
    assert typed(agent, fields, "one", 0, b"fir") == 3
    assert typed(agent, fields, "one", 0, b"first\n") == 6
    assert typed(agent, fields, "one", 9, b"later") == 6
    assert typed(agent, fields, "two", 0, b"second\n") == 7
    assert typed(agent, fields, "two", 0, b"second\n") == 7
    step_end(agent, 1)
    assert written(fields)[0].decode().split() == ["ready", "40", "140", "first", "second"]
    assert [SHAPE.unpack_from(written(fields, WINDOW)[0], at) for at in (0, 4)] == [(30, 100), (40, 140)]
    assert tail_of(fields["dir"], 20) > 0


def test_signals_go_to_what_runs_in_the_foreground(shim: ShimProcess, agent: Client) -> None:
    fields = request(shim, 1, "bash", "--norc", "-i", pty=True)
    agent.ask("launch_step", **{**fields, "terminal": {}})
    typed(agent, fields, "one", 0, b"sh -c 'echo re''ady; exec sleep 600'; echo code $?; exit 3\n")
    wait_for(lambda: b"ready" in written_so_far(fields), "the command")
    agent.ask("signal_step", **about(fields), signal=int(signal.SIGQUIT))
    end = step_end(agent, 1)
    assert end["tasks"][0]["exit_code"] == 3
    assert b"code 131" in written(fields)[0]


def test_a_terminal_without_a_client_is_hung_up_when_its_time_is_over(shim: ShimProcess, agent: Client) -> None:
    fields = opened(
        shim, agent, 1, "trap 'echo hung up; exit 5' HUP; echo ready; while :; do sleep 0.05; done", keep_s=1
    )
    wait_for(lambda: b"ready" in written_so_far(fields), "the program")
    for _ in range(3):
        agent.ask("read_step", **about(fields), upto=0)
    end = step_end(agent, 1)
    assert (end["tasks"][0]["exit_code"], end["why"]) == (5, "no client came back in time")
    assert b"hung up" in written(fields)[0]


def test_a_run_ends_with_its_first_shell_and_that_ones_code(shim: ShimProcess, agent: Client) -> None:
    agent.ask("start", **shim.request(3, "sleep", "600"))
    fields = opened(shim, agent, 3, "read line; exit 9", ends_run=True)
    typed(agent, fields, "one", 0, b"done\n")
    step_end(agent, 3)
    wait_for(lambda: shim.phase(3) == "ended", "the run's end")
    status = shim.status(3)
    assert (status["exit_code"], status["signal"]) == (9, 0)
