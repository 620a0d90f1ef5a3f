"""Every flag of submit and launch changes what is asked of the server, or is refused by name. A new flag fails until it has a row."""

from typing import Any

import pytest

from lattice.cli.parsing import build_parser, find_command, load_command
from tests.unit.cli.runner import Cli, allocation
from tests.unit.cli.test_launch import result, serve
from tests.unit.sdk.fake_api import FakeApi, Reply

# What a flag is given; "" for one that takes nothing.
SUBMIT = {
    **{"--name": "other", "--project": "p", "--tag": "a=b", "--env": "A=1", "--export": "HOME", "--chdir": "/srv"},
    **{"--task-group": "0-3", "--stdout": "/tmp/o", "--stderr": "/tmp/e", "--error": "/tmp/e", "--stdin": "/tmp/i"},
    **{"--input": "/tmp/i", "--summary": "", "--per-node": "", "--no-per-node": "", "--notify": "end"},
    **{"--dry-run": "", "-N": "2", "--nodes": "2", "--constraint": "fast"},
    **{"--topology": "tight", "--cpus": "2", "--memory": "1G", "--gpus": "1", "--exclusive": "", "--nodelist": "n1"},
    **{"--exclude": "n1", "--walltime": "5m", "--depends-on": "a1", "--begin": "now+2h", "--mutex": "m"},
    **{"--deadline": "now+2h", "--keep-on-invalid-dependency": "", "--hold": "", "--priority": "high"},
    **{"--preemption-class": "7", "--no-preempt": "", "--requeue": "always", "--max-requeue": "1"},
    **{
        "--reactive": "",
        "--min-nodes": "2",
        "--max-nodes": "4",
        "--scale-metric": "in_flight",
        "--scale-target": "80%",
    },
    **{"--scale-up-window": "1m", "--scale-down-window": "1m", "--scale-down-threshold": "0.2"},
    **{"--scale-interval": "5s", "--scale-cooldown": "5s"},
    **{"--lifecycle": "unbounded", "--service": "", "--signal": "USR1@90", "--on-quota": "queue", "--idle-end": "2h"},
    **{"--expose": "web:8080,share=bob"},
    **{
        "--uenv": "a/1:v1",
        "--tools-uenv": "b/1:v1",
        "--scratch": "20G",
        "--memory-policy": "bind:0",
        "--data-mount": "/warm/set:/data/set:hot",
    },
    **{"--stage-out": "results:/warm/results"},
    **{"--image": "a/1:v1", "--checkpoint": "manual,shmem", "--resume-from": "a1:2"},
    **{"--restart": "never", "--drain": "5s", "--liveness-probe": "tcp:80", "--readiness-probe": "http:80/ok"},
    "--startup-probe": "tcp:80,period=1",
    **{"--tenant": "physics", "-t": "physics", "--vcluster": "gpu"},
}
# Flags that mean something only beside others.
BESIDE = {
    "--notify-to": ("mail:a@b.org", ["--notify=end"]),
    "--open-mode": ("append", ["--stdout=/tmp/o"]),
    "--view": ("default", ["--uenv=a/1:v1"]),
    "--mount": ("/a:/b", ["--image=a/1:v1"]),
    "--container-writable": ("", ["--image=a/1:v1"]),
    "--container-workdir": ("/b", ["--image=a/1:v1"]),
    "--no-home": ("", ["--image=a/1:v1"]),
    "--container-name": ("tools", ["--image=a/1:v1"]),
    "--checkpoint-signal": ("USR2", ["--checkpoint=signal"]),
    "--checkpoint-port": ("4711", ["--checkpoint=grpc"]),
}

LAUNCH = {
    **{"-n": "3", "--ntasks": "3", "-N": "1", "--nodes": "1", "--ntasks-per-node": "2", "--tasks-per-node": "2"},
    **{"-c": "2", "--cpus-per-task": "2", "-w": "n1", "--nodelist": "n1", "-m": "cyclic", "--distribution": "cyclic"},
    **{"-O": "", "--overcommit": "", "--pty": "", "--env": "A=1", "--export": "all", "--chdir": "/srv", "-D": "/srv"},
    **{"-o": "/tmp/o.%t", "--output": "/tmp/o.%t", "-e": "/tmp/e.%t", "--error": "/tmp/e.%t", "-i": "none"},
    **{"--input": "none", "--no-kill": "", "--time": "5m", "--overlap": "", "--immediate": "", "--pmi": "pmi2"},
    **{
        "--fence-timeout": "5m",
        "--cpu-bind": "cores",
        "--gpu-bind": "closest",
        "--gpus-per-task": "1",
        "--task-prologue": "./p",
    },
    **{"--image": "a/1:v1", "--container-name": "tools:exec"},
}
LAUNCH_BESIDE = ("--mount=/a:/b", "--container-writable", "--container-workdir=/b", "--no-home")  # with an image
# Where requests go, how answers are shown, what happens after one, and what is so anyway.
ABOUT_THE_PROGRAM = {
    *("-h", "--help", "-q", "--quiet", "-v", "--verbose", "--config", "--no-color", "--api-url"),
    *("--token-file", "--as", "--ca-file", "--retry-for", "--insecure-http", "--stale"),
}
ABOUT_THE_ANSWER = {
    "submit": {"-o", "--output", "--wait", "--request-id"},
    "launch": {"-l", "--label", "--alloc", "-t", "--tenant", "--multi-prog", "--exclusive"},
}


def flags_of(*words: str) -> dict[str, Any]:
    found = find_command(words)
    return dict(build_parser(found.words, found.leaf, load_command(found.leaf))._option_string_actions)


def refused_flags(word: str) -> set[str]:
    return {name for name, action in flags_of(word).items() if type(action).__name__ == "NotSupported"}


@pytest.mark.parametrize(
    ("word", "rows"),
    [("submit", {*SUBMIT, *BESIDE}), ("launch", {*LAUNCH, *(word.partition("=")[0] for word in LAUNCH_BESIDE)})],
)
def test_every_flag_has_a_row(word: str, rows: set[str]) -> None:
    known = set(flags_of(word)) - ABOUT_THE_PROGRAM - ABOUT_THE_ANSWER[word] - refused_flags(word)
    assert known == rows


@pytest.mark.parametrize("flag", sorted(refused_flags("submit")))
def test_a_flag_for_what_is_not_there_is_refused_by_name(flag: str, api: FakeApi, cli: Cli) -> None:
    outcome = cli("submit", f"{flag}=x", "--", "true")
    assert (outcome.code, flag in outcome.err, api.asked) == (2, True, [])


def sent(api: FakeApi) -> object:
    asked = api.last()
    return asked.path, asked.query, asked.json


@pytest.mark.parametrize("flag", [*SUBMIT, *BESIDE])
def test_a_flag_of_submit_changes_the_request(flag: str, api: FakeApi, cli: Cli) -> None:
    value, others = BESIDE.get(flag, (SUBMIT.get(flag, ""), []))
    api.on("POST", "/allocations", Reply(status=201, json=allocation(state="Pending")))
    words = [flag, value] if value else [flag]
    assert cli("submit", *others, "--", "true").code == 0
    before = sent(api)
    assert cli("submit", *others, *words, "--", "true").code == 0, flag
    after = sent(api)
    assert after != before


@pytest.mark.parametrize("flag", LAUNCH)
def test_a_flag_of_launch_changes_the_request(flag: str, api: FakeApi, cli: Cli) -> None:
    asked = serve(api, result(0))
    words = [flag, LAUNCH[flag]] if LAUNCH[flag] else [flag]
    assert cli("launch", "--alloc=a1", "work").code == 0
    assert cli("launch", "--alloc=a1", *words, "work").code == 0, flag
    assert asked[0].json != asked[1].json


@pytest.mark.parametrize("word", LAUNCH_BESIDE)
def test_a_flag_of_launch_about_its_container_changes_the_request(word: str, api: FakeApi, cli: Cli) -> None:
    asked = serve(api, result(0))
    assert cli("launch", "--alloc=a1", "--image=a/1:v1", "work").code == 0
    assert cli("launch", "--alloc=a1", "--image=a/1:v1", word, "work").code == 0
    assert asked[0].json != asked[1].json
    alone = cli("launch", "--alloc=a1", word, "work")
    assert (alone.code, "add --image" in alone.err) == (2, True)


def test_a_request_id_names_the_request(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/allocations", Reply(status=201, json=allocation(state="Pending")))
    assert cli("submit", "--request-id=once", "--", "true").code == 0
    assert "once" in (api.last().headers.get("x-request-id"), api.last().json.get("request_id"))
