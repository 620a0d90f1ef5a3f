"""Commands that are run beside a run to ask for its health."""

from tests.integration.agent.shim_process import Client, ShimProcess, alive, wait_for


def _start(shim: ShimProcess, agent: Client, **more: object) -> None:
    script = "echo $$ >ready; while [ ! -e stop ]; do sleep 0.02; done"
    assert agent.ask(
        "start", **shim.request(1, "sh", "-c", script, env={"PATH": "/usr/bin:/bin", "MODEL": "m1"}), **more
    )["ok"]
    wait_for((shim.scratch / "ready").exists, "the run")


def _probe(agent: Client, script: str, within_s: float = 20.0) -> dict[str, object]:
    return agent.ask("probe", number=1, run=1, argv=["sh", "-c", script], within_s=within_s)


def test_a_command_runs_with_the_environment_folder_and_user_of_the_run(shim: ShimProcess, agent: Client) -> None:
    _start(shim, agent, probed=True)
    answer = _probe(agent, "echo $MODEL; test -e ready; stat -c %u /proc/$(cat ready) | grep -qx $(id -u)")
    assert (answer["ok"], answer["exit_code"], answer["output"]) == (True, 0, "m1\n")
    assert _probe(agent, "echo broken >&2; exit 7")["exit_code"] == 7
    missing = agent.ask("probe", number=1, run=1, argv=["no-such-program"], within_s=5.0)
    assert not missing["ok"]
    assert "no-such-program: command not found" in str(missing["error"])
    (shim.scratch / "stop").touch()
    assert agent.ended(1)["exit_code"] == 0


def test_time_and_output_of_a_command_are_bounded_and_the_run_goes_on(shim: ShimProcess, agent: Client) -> None:
    _start(shim, agent, probed=True)
    late = _probe(agent, "sleep 300 & echo $! >left; wait", within_s=0.5)
    assert (late["ok"], late["error"]) == (False, "it did not end within 0.5 s")
    wait_for(lambda: not alive(shim.written_pid("left")), "the end of what it started")
    loud = _probe(agent, "head -c 3000000 /dev/zero | tr '\\0' x; sleep 300 & echo $! >left2")
    assert (loud["exit_code"], len(str(loud["output"]))) == (0, 1024)
    wait_for(lambda: not alive(shim.written_pid("left2")), "the end of what it left behind")
    assert shim.phase(1) == "running"
    (shim.scratch / "stop").touch()
    assert agent.ended(1)["exit_code"] == 0


def test_a_run_that_ends_takes_its_command_with_it(shim: ShimProcess, agent: Client) -> None:
    _start(shim, agent, probed=True)
    asked = agent.send("probe", number=1, run=1, argv=["sh", "-c", "echo $$ >probing; sleep 300"], within_s=300.0)
    wait_for((shim.scratch / "probing").exists, "the command")
    (shim.scratch / "stop").touch()
    assert agent.answer(asked)["signal"] == 9
    wait_for(lambda: shim.phase(1) == "ended", "the end of the run")
    assert not _probe(agent, "true")["ok"]


def test_a_run_without_such_probes_runs_none(shim: ShimProcess, agent: Client) -> None:
    _start(shim, agent)
    assert _probe(agent, "true") | {"id": 0} == {"id": 0, "ok": False, "error": "the instance is not running"}
    (shim.scratch / "stop").touch()
    agent.ended(1)
