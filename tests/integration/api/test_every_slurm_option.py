"""Every option of sbatch and srun does what the table says of it: it is seen, warned about, refused, or so anyway."""

from typing import Any

import msgspec
import pytest

from lattice.core.machine.commands import RegisterNode
from lattice.core.model.nodes.nodes import Hardware
from lattice.slurm.submit.options import Fate, Option, Takes, options_of
from tests.integration.api.test_slurm_steps import job_of_two_nodes, srun
from tests.integration.api.world import World, in_world

# A value for each option that takes one; a new option fails until it has one.
VALUES = {
    **{
        "account": "nosuch",
        "array": "0-3",
        "begin": "now+1hour",
        "chdir": "/srv",
        "comment": "c",
        "constraint": "fast",
    },
    **{"cpus-per-gpu": "2", "cpus-per-task": "2", "deadline": "now+1hour", "dependency": "afterok:1", "error": "e.txt"},
    **{"exclude": "n1", "exclusive": "", "export": "NONE", "gpus": "1", "gpus-per-node": "1", "gpus-per-task": "1"},
    **{"gres": "gpu:1", "input": "/dev/null", "job-name": "other", "jobid": "1", "kill-on-bad-exit": "1"},
    **{"kill-on-invalid-dep": "yes", "mail-type": "END", "mail-user": "a@b.org", "mem": "100", "mem-per-cpu": "100"},
    **{"mem-per-gpu": "100", "mincpus": "2", "mpi": "pmi2", "nodelist": "n1", "nodes": "2", "ntasks": "2"},
    **{"ntasks-per-node": "2", "open-mode": "append", "output": "o.txt", "partition": "nosuch", "qos": "nosuch"},
    **{
        "reservation": "nosuch",
        "signal": "USR1@60",
        "time": "5",
        "wckey": "w",
        "wrap": "true",
        "distribution": "cyclic",
    },
    **{"hint": "nomultithread", "switches": "1", "threads-per-core": "1", "time-min": "1", "tmp": "1", "licenses": "x"},
    **{"uenv": "nosuch", "view": "nosuch"},
    **{"container-image": "nosuch", "container-mounts": "/a:/b", "container-workdir": "/b", "container-name": "x"},
    **{"clusters": "other", "het-group": "0", "immediate": ""},
}
# Options that mean something only beside others.
BESIDE = {
    **{"requeue": ["--no-requeue"], "mail-user": ["--mail-type=END"]},
    **{"cpus-per-gpu": ["--gpus=1"], "mem-per-gpu": ["--gpus=1"]},
}
ABOUT_THE_PROGRAM = {"help", "usage", "version", "verbose", "quiet", "parsable", "wait", "test-only", "wrap"}


def line(option: Option) -> list[str]:
    if option.takes is Takes.NOTHING or (option.takes is Takes.MAYBE and not VALUES.get(option.name)):
        return [f"--{option.name}"]
    return [f"--{option.name}={VALUES.get(option.name, '1')}"]


async def state_after(world: World, words: list[str]) -> tuple[dict[str, Any], object]:
    body = {"program": "sbatch", "argv": [*words, "--wrap=true"], "cwd": "/home/alice", "environment": {"A": "1"}}
    response = await world.call("POST", "/slurm/commands", body)
    assert response.status == 200, response.body
    answer: dict[str, Any] = {"stdout": "", "stderr": "", "code": 0} | response.json()
    if answer["code"]:
        return answer, None
    number = int(answer["stdout"].split()[-1])
    group = world.state.groups.get(number)
    record = world.state.allocations[number] if group is None else group.template
    plain = msgspec.structs.replace(record, number=0, submitted_at=0)
    return answer, (plain, world.state.payload_of(record), group is None)


@pytest.mark.parametrize("option", options_of("sbatch"), ids=lambda option: option.name)
def test_an_option_of_sbatch_does_what_the_table_says(option: Option) -> None:
    if option.name in ABOUT_THE_PROGRAM:
        return

    @in_world
    async def check(world: World) -> None:
        await world.submit(hold=True)
        await world.do(RegisterNode(node="g1", hardware=Hardware(cpus=4, memory_mb=4096, gpus=4)))
        beside = BESIDE.get(option.name, [])
        _, before = await state_after(world, beside)
        answer, after = await state_after(world, [*beside, *line(option)])
        judge(option, before, after, answer)

    check()


def judge(option: Option, before: object, after: object, answer: dict[str, Any]) -> None:
    said = answer["stderr"]
    match option.fate:
        case Fate.MAPPED | Fate.SHOWN:
            assert after != before or said, f"--{option.name} is accepted and changes nothing"
        case Fate.IGNORED:
            assert f"--{option.name}" in said, said
        case Fate.REFUSED:
            assert answer["code"], "it is accepted"
        case Fate.SILENT:
            assert (answer["code"], said) == (0, "")


@pytest.mark.parametrize("option", options_of("srun"), ids=lambda option: option.name)
def test_an_option_of_srun_does_what_the_table_says(option: Option) -> None:
    if option.name in ABOUT_THE_PROGRAM | ABOUT_THE_JOB | {"multi-prog"}:
        return

    @in_world
    async def check(world: World) -> None:
        service, inside = await job_of_two_nodes(world)
        plain = await srun(world, "hostname", **inside, A="1")
        answer = await srun(world, *line(option), "hostname", **inside, A="1")
        kept = [(msgspec.structs.replace(each, launch_id="")) for each in service.asked]
        shown = [{**each.get("attend", {}), "step": 0} for each in (plain, answer)]
        before, after = (kept[0], shown[0]), (kept[-1], shown[1])
        judge(option, before, after, answer)

    check()


# Said of a job, and of no step in it; srun outside a job hands them on as sbatch does.
ABOUT_THE_JOB = {
    *("account", "begin", "comment", "constraint", "deadline", "dependency", "exclude", "exclusive", "hold"),
    *("job-name", "jobid", "kill-on-invalid-dep", "mail-type", "mail-user", "mem", "mem-per-cpu", "mem-per-gpu"),
    *("mincpus", "no-requeue", "partition", "qos", "requeue", "reservation", "signal", "wckey", "cpus-per-gpu"),
    *("gpus", "gpus-per-node", "gpus-per-task", "gres"),
}
