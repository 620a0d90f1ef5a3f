"""`lattice submit`: what is sent for what was typed."""

import os

import pytest

from tests.unit.cli.runner import Cli, allocation, ended
from tests.unit.sdk.fake_api import FakeApi, Reply, refusal

SCRIPT = """#!/bin/bash
# a comment
#LATTICE --nodes=64 --walltime=72h
#LATTICE --name="large run" --tag=a=1   # the big one

#LATTICE --tenant=physics --vcluster ml --env=A=script
torchrun train.py
"""


@pytest.fixture(autouse=True)
def accepting(api: FakeApi) -> None:
    api.on("POST", "/allocations", Reply(status=201, json=allocation(state="Pending")))


def test_a_command_is_sent_word_by_word(api: FakeApi, cli: Cli) -> None:
    outcome = cli("submit", "--nodes=2", "--", "sh", "-c", "echo  'a b' --nodes=9", "--", "")
    assert (outcome.code, outcome.out) == (0, "Submitted allocation a17\n")
    sent = api.last().json
    assert sent["entrypoint"] == ["sh", "-c", "echo  'a b' --nodes=9", "--", ""]
    assert sent["resources"]["nodes"] == 2
    assert sent["name"] == "sh"
    assert sent["cwd"] == sent["submit_dir"] == str(cli.folder)
    assert "script" not in sent


def test_quiet_prints_the_id_alone_and_json_the_object(api: FakeApi, cli: Cli) -> None:
    assert cli("submit", "-q", "--", "true").out == "a17\n"
    assert cli("submit", "-o", "json", "--", "true").json["number"] == 17


def test_a_script_brings_its_own_options(api: FakeApi, cli: Cli) -> None:
    path = cli.write("train.sh", SCRIPT)
    assert cli("submit", path, "first", "second").code == 0
    sent = api.last().json
    assert sent["script"] == SCRIPT
    assert sent["script_args"] == ["first", "second"]
    assert (sent["name"], sent["tenant"], sent["vcluster"]) == ("large run", "physics", "ml")
    assert sent["resources"]["nodes"] == 64
    assert sent["lifecycle"] == {"walltime": "72h"}
    assert (sent["tags"], sent["environment"]) == ({"a": "1"}, {"A": "script"})
    assert api.last().headers["x-lattice-tenant"] == "physics"


def test_the_command_line_beats_the_script(api: FakeApi, cli: Cli) -> None:
    path = cli.write("train.sh", SCRIPT)
    line = ("--nodes=2", "--walltime=1h", "--name=small", "-t", "bio", "--env=A=line", "--tag=b=2")
    assert cli("submit", *line, path).code == 0
    sent = api.last().json
    assert (sent["resources"]["nodes"], sent["lifecycle"]["walltime"]) == (2, "1h")
    assert (sent["name"], sent["tenant"]) == ("small", "bio")
    assert (sent["environment"], sent["tags"]) == ({"A": "line"}, {"a": "1", "b": "2"})


def test_everything_after_the_script_belongs_to_it_as_it_is(api: FakeApi, cli: Cli) -> None:
    path = cli.write("train.sh", "#!/bin/sh\ntrue\n")
    arguments = ["--bogus", "-v", "a b", "--help", "--", "--epochs", "3", ""]
    assert cli("submit", "--nodes", "2", "-q", "-N3", "--hold", path, *arguments).code == 0
    sent = api.last().json
    assert sent["script_args"] == arguments
    assert (sent["resources"]["nodes"], sent["hold"], sent["name"]) == (3, True, "train.sh")


def test_a_flag_of_ours_after_the_script_is_handed_on_with_a_note(api: FakeApi, cli: Cli) -> None:
    path = cli.write("train.sh", "#!/bin/sh\ntrue\n")
    outcome = cli("submit", path, "--nodes=9", "x")
    assert outcome.code == 0
    assert api.last().json["script_args"] == ["--nodes=9", "x"]
    assert "nodes" not in api.last().json.get("resources", {})
    assert "--nodes comes after the script name and is passed to the script" in outcome.err
    assert cli("submit", "-q", path, "--nodes=9").err == ""
    assert cli("submit", path, "--epochs=9").err == ""


def test_a_script_may_come_from_stdin(api: FakeApi, cli: Cli) -> None:
    cli.stdin = b"#!/bin/sh\n#LATTICE --hold\ntrue\n"
    assert cli("submit", "-").code == 0
    assert api.last().json["script"] == cli.stdin.decode()
    assert (api.last().json["name"], api.last().json["hold"]) == ("stdin", True)


def test_every_flag_reaches_its_field(api: FakeApi, cli: Cli) -> None:
    flags = [
        *("--name=n", "--project=p", "--nodes=2-8", "--walltime=24h", "--topology=tight", "--cpus=2"),
        *("--memory=4G", "--gpus=1", "--exclusive", "--task-group=0-99%20", "--preemption-class=8", "--no-preempt"),
        *("--requeue=on-node-failure", "--max-requeue=2", "--service", "--per-node", "--hold"),
        *("--begin=now+1h", "--env=A=1=2", "--chdir=sub", "--tag=k=v", "--nodelist=n[1-3],m1", "--exclude=n2"),
        *("--on-quota=queue", "--constraint=gpu_type=GH200,gpu_count=4,memory_gb>=512,nvme,features=ib"),
        *("--request-id=r1", "--vcluster=gpu"),
    ]
    assert cli("submit", *flags, "--", "true").code == 0
    assert api.last().headers["x-request-id"] == "r1"
    assert api.last().json == {
        "name": "n",
        "project": "p",
        "vcluster": "gpu",
        "tags": {"k": "v"},
        "entrypoint": ["true"],
        "environment": {"A": "1=2"},
        "cwd": str(cli.folder / "sub"),
        "submit_dir": str(cli.folder),
        "resources": {
            "nodes": 2,
            "max_nodes": 8,
            "cpus": 2,
            "memory": "4G",
            "gpus": 1,
            "exclusive": True,
            "constraints": {
                "gpu_type": "GH200",
                "gpu_count": 4,
                "memory_gb": 512,
                "features": ["nvme", "ib"],
                "topology": "tight",
                "nodes": ["n1", "n2", "n3", "m1"],
                "exclude": ["n2"],
            },
        },
        "lifecycle": {
            "type": "unbounded",
            "walltime": "24h",
            "preemption_class": 8,
            "no_preempt": True,
            "requeue": "on_node_failure",
            "max_requeue": 2,
        },
        "per_node": True,
        "hold": True,
        "begin": "2026-03-05T13:00:00Z",
        "tasks": "0-99%20",
        "on_quota": "queue",
    }


def test_a_priority_may_have_a_name(api: FakeApi, cli: Cli) -> None:
    cli("submit", "--priority=high", "--no-per-node", "--", "true")
    assert (api.last().json["priority"], api.last().json["per_node"]) == ("high", False)


@pytest.mark.parametrize("flag", ["--pmi=pmi2", "--site=bern"])
def test_a_flag_without_a_meaning_yet_is_refused(flag: str, api: FakeApi, cli: Cli) -> None:
    outcome = cli("submit", flag, "--", "true")
    assert outcome.code == 2
    assert f"{flag.partition('=')[0]} is not supported by this version" in outcome.err
    path = cli.write("s.sh", f"#!/bin/sh\n\n#LATTICE {flag}\ntrue\n")
    assert f"{path}, line 3: {flag.partition('=')[0]} is not supported" in cli("submit", path).err
    assert api.asked == []


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--nodes=0",), "--nodes"),
        (("--nodes=8-2",), "--nodes"),
        (("--nodes=many",), "--nodes"),
        (("--cpus=two",), "--cpus"),
        (("--env=A",), "--env takes KEY=VALUE"),
        (("--tag==x",), "--tag takes KEY=VALUE"),
        (("--begin=soon",), 'cannot read "soon" as a time'),
        (("--constraint=gpu_count=four",), "gpu_count"),
        (("--constraint=memory_gb<5",), "memory_gb<5"),
        (("--constraint=require_unifed_memory",), "cannot read the constraint"),
        (("--constraint=storage_gbps=fast",), "takes a number"),
        (("--nodelist=n[1-",), "node list"),
        (("--lifecycle=eternal",), "--lifecycle"),
    ],
)
def test_a_wrong_value_is_told_before_anything_is_sent(
    flags: tuple[str, ...], said: str, api: FakeApi, cli: Cli
) -> None:
    outcome = cli("submit", *flags, "--", "true")
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err
    assert api.asked == []


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"#!/bin/sh\necho \xff\n", "is not UTF-8: byte 15 (line 2) is 0xff"),
        (b"\x7fELF\x02\x01\x01\x00\xff", "is not UTF-8"),
        (b"#!/bin/sh\necho a\0b\n", "NUL byte in line 2"),
        (b"#!/bin/sh\r\ntrue\r\n", "DOS line ends"),
        (b" \n", "is empty"),
        (b"#" * (1 << 20) + b"\n", "larger than 1 MiB"),
        (b"#!/bin/sh\n#LATTICE --name='x\n", "line 2: no closing quotation"),
        (b"#!/bin/sh\n#LATTICE --nodes=2 train.sh\n", "line 2: a directive may contain only options"),
        (b"#LATTICE --api-url=http://elsewhere\n", "--api-url is only allowed on the command line"),
        (b"#LATTICE --wait\n", "--wait is only allowed on the command line"),
        (b"#LATTICE --colour=red\n", "line 1: unknown flag --colour"),
        (b"#!/bin/sh\n#LATTICE --nodes=x\n", "s.sh, line 2: --nodes takes a number such as 4 or a range such as 2-8"),
    ],
)
def test_a_script_that_cannot_be_one_is_told(data: bytes, said: str, api: FakeApi, cli: Cli) -> None:
    outcome = cli("submit", cli.write("s.sh", data))
    assert outcome.code == 2
    assert said in outcome.err
    assert api.asked == []


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ('lifecycle.walltime: cannot read "soon"', 's.sh, line 3: --walltime: cannot read "soon"'),
        ("lifecycle.preemption_class: 99 is not possible", "s.sh, line 2: --preemption-class: 99 is not possible"),
        ("resources.memory: too much", "--memory: too much"),
        ("resources.constraints.prefer_same_numa: is not supported", "--constraint: prefer_same_numa is not supported"),
        ("the machine is full", "the machine is full"),
    ],
)
def test_a_refusal_names_the_flag_and_its_line(message: str, said: str, api: FakeApi, cli: Cli) -> None:
    """A flag of the command line has no line, whatever the script says of it."""
    api.on("POST", "/allocations", refusal(400, "invalid", message))
    script = b"#!/bin/sh\n#LATTICE --preemption-class=99\n#LATTICE --walltime=soon --memory=1G\n"
    outcome = cli("submit", "--memory=9P", cli.write("s.sh", script))
    assert (outcome.code, outcome.err.splitlines()[0].endswith(said)) == (1, True), outcome.err
    assert (", line " in outcome.err) == (", line " in said)


def test_a_missing_script_is_not_taken_for_a_command(api: FakeApi, cli: Cli) -> None:
    outcome = cli("submit", "hostname")
    assert outcome.code == 4
    assert "lattice submit -- hostname" in outcome.err
    assert cli("submit", str(cli.folder)).code == 2
    assert cli("submit").code == cli("submit", "--").code == 2
    assert api.asked == []


def test_lines_that_look_like_directives_and_do_not_count_are_mentioned(api: FakeApi, cli: Cli) -> None:
    text = "#!/bin/sh\n#SBATCH --nodes=4\n#LATTICE --name=x\n#LATTICEX\ntrue\n#LATTICE --nodes=9\n"
    outcome = cli("submit", cli.write("s.sh", text))
    assert outcome.code == 0
    assert "ignoring #SBATCH lines" in outcome.err
    assert "(line 6)" in outcome.err
    assert "nodes" not in api.last().json["resources"]


def test_the_environment_stays_at_home_unless_exported(api: FakeApi, cli: Cli) -> None:
    variables = {"A": "1", "B": "2", "LATTICE_TOKEN_FILE": "/x", "BROKEN": os.fsdecode(b"\xff")}
    cli("submit", "--", "true", **variables)
    assert "environment" not in api.last().json
    outcome = cli("submit", "--export=A,MISSING,C=3", "--env=B=9", "--", "true", **variables)
    assert api.last().json["environment"] == {"A": "1", "C": "3", "B": "9"}
    assert "MISSING is not set" in outcome.err
    outcome = cli("submit", "--export=ALL", "--", "true", **variables)
    sent = api.last().json["environment"]
    assert (sent["A"], sent["HOME"]) == ("1", str(cli.folder))
    assert not {"LATTICE_TOKEN", "LATTICE_TOKEN_FILE", "BROKEN"} & sent.keys()
    assert "BROKEN" in outcome.err


@pytest.mark.parametrize(
    ("end", "code", "told"),
    [
        (ended(), 0, "a17 Completed\n"),
        (ended(state="Failed", exit_code=3), 3, "a17 Failed (exit code 3)\n"),
        (ended(state="Failed", cause="signal", exit_code=None, signal=9), 137, "a17 Failed (signal 9)\n"),
        (ended(state="Cancelled", cause="cancelled", exit_code=None), 130, "a17 Cancelled\n"),
        (ended(state="Failed", cause="node", exit_code=None, message="n1 lost"), 125, "a17 Failed (node, n1 lost)\n"),
    ],
)
def test_waiting_hands_on_how_it_ended(end: dict[str, object], code: int, told: str, api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a17/wait", allocation(), end)
    outcome = cli("submit", "--wait", "--", "true")
    assert (outcome.code, outcome.out) == (code, "Submitted allocation a17\n" + told)
    assert cli("submit", "--wait", "-q", "--", "true").out == "a17\n"
    assert cli("submit", "--wait", "-o", "json", "--", "true").json["state"] == end["state"]


def test_a_refusal_is_shown_with_its_figures(api: FakeApi, cli: Cli) -> None:
    message = 'allocation rejected: tenant "physics" would exceed max_nodes quota'
    figures = {"current": "195 nodes in use", "requested": "10 additional nodes", "limit": "200 nodes", "hint": "Wait."}
    api.on("POST", "/allocations", refusal(422, "quota", message, **figures))
    outcome = cli("submit", "--nodes=10", "--", "true")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (
        f"error: {message}\n"
        "  current: 195 nodes in use\n"
        "  requested: 10 additional nodes\n"
        "  limit: 200 nodes\n"
        "  hint: Wait.\n"
    )


def test_constraints_of_memory_storage_and_nodes(api: FakeApi, cli: Cli) -> None:
    terms = "require_unified_memory,allow_cxl_memory=true,prefer_same_numa,require_conformance,storage_gbps>=2.5"
    assert cli("submit", f"--constraint={terms},nodes=n[1-2]+n7,exclude=n2", "--", "true").code == 0
    assert api.last().json["resources"]["constraints"] == {
        "nodes": ["n1", "n2", "n7"],
        "exclude": ["n2"],
        "require_unified_memory": True,
        "allow_cxl_memory": True,
        "require_conformance": True,
        "prefer_same_numa": True,
        "storage_gbps": 2.5,
    }


def test_a_walltime_without_a_unit_is_refused_with_both_readings(api: FakeApi, cli: Cli) -> None:
    outcome = cli("submit", "--walltime=10", "--", "true")
    assert outcome.code == 2
    assert '--walltime "10" has no unit' in outcome.err
    assert "write 10m for 10 minutes or 10s for 10 seconds" in outcome.err
    assert cli("submit", "--walltime=10m", "--", "true").code == 0


def test_a_person_is_warned_of_what_will_surprise(api: FakeApi, cli: Cli) -> None:
    line = ("submit", "--stdout=logs/out.txt", "--", "no-such-program")
    assert cli(*line, VIRTUAL_ENV="/venv").err == ""
    cli.is_stderr_terminal = True
    warnings = cli(*line, VIRTUAL_ENV="/venv").err.splitlines()
    assert [text.partition(";")[0] for text in warnings] == [
        "warning: no --walltime: the default applies, and the work is killed after 01:00:00",
        "warning: VIRTUAL_ENV is set here and not passed on",
        f"warning: directory {cli.folder}/logs for the output does not exist on this machine",
        "warning: program no-such-program is not found on this machine",
    ]
    (cli.folder / "logs").mkdir()
    fine = ("submit", "--walltime=5m", "--export=ALL", "--stdout=logs/out.txt", "--", "true")
    assert cli(*fine, VIRTUAL_ENV="/venv", PATH="/usr/bin:/bin").err == ""
    assert cli("-q", *line).err == ""
    for first, missing in (
        ("#!/no/such/shell", "/no/such/shell"),
        ("#!/usr/bin/env no-such", "no-such"),
        ("#!/bin/sh", ""),
    ):
        script = cli.write("job.sh", f"{first}\ntrue\n")
        told = cli("submit", "--walltime=5m", script).err
        assert told == (f"warning: program {missing} is not found on this machine\n" if missing else "")


def test_the_configuration_file_says_what_is_handed_on(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/allocations", allocation(17))
    cli.environment["COLOUR"] = "red"
    cli.environment["LATTICE_CONFIG"] = cli.write("mine.yaml", "export: all\n")
    cli("submit", "--", "true")
    assert api.last().json["environment"]["COLOUR"] == "red"
    cli("submit", "--export=NONE", "--", "true")
    assert "COLOUR" not in api.last().json.get("environment", {})
