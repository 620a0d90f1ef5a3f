"""Options of three layers become one request."""

from typing import Any

import pytest

from lattice.slurm.faults import Fault
from lattice.slurm.submit.dependencies import Dependency, Wait, parse_dependency
from lattice.slurm.submit.directives import directive_options
from lattice.slurm.submit.environment import environment_options
from lattice.slurm.submit.getopt import Grammar
from lattice.slurm.submit.job import EarlySignal, Job, merge
from lattice.slurm.submit.options import options_of
from lattice.slurm.text.sizes import Gpus

SBATCH = Grammar("sbatch", options_of("sbatch"))
SRUN = Grammar("srun", options_of("srun"))


def job(*words: str) -> Job:
    return merge([SBATCH.read(words).given], program="sbatch", now=1000.0)


def test_the_command_line_beats_the_environment_and_both_beat_the_script() -> None:
    script = directive_options("#!/bin/sh\n#SBATCH -J script -t 1 -p script\n", SBATCH)
    variables = environment_options(SBATCH, {"SBATCH_TIMELIMIT": "2", "SBATCH_PARTITION": "env", "SBATCH_NOPE": "1"})
    merged = merge([script, variables, SBATCH.read(["-p", "line"]).given], program="sbatch", now=0)
    assert (merged.name, merged.time_s, merged.partition) == ("script", 120, "line")


def test_flags_in_the_environment_can_be_off() -> None:
    assert environment_options(SBATCH, {"SBATCH_REQUEUE": "no"}) == ()
    (given,) = environment_options(SBATCH, {"SBATCH_REQUEUE": "1"})
    assert (given.option.name, given.value) == ("requeue", "")


def test_names_of_the_job_at_hand_are_no_options_of_a_step() -> None:
    assert environment_options(SRUN, {"SLURM_JOB_NAME": "x", "SLURM_VERSION": "1"}) == ()
    assert environment_options(SBATCH, {"SBATCH_JOB_NAME": "x"})[0].value == "x"


def test_figures_are_read() -> None:
    asked = job("-N2-4", "-n8", "-c2", "--ntasks-per-node=4", "--mem-per-cpu=2G", "-G", "h100:2", "--mincpus=3")
    assert (asked.min_nodes, asked.max_nodes, asked.ntasks, asked.cpus_per_task) == (2, 4, 8, 2)
    assert (asked.ntasks_per_node, asked.memory_per_cpu_mb, asked.gpus, asked.min_cpus) == (4, 2048, Gpus(2, "h100"), 3)
    assert job("--mem=0").memory_mb == 0
    assert job().memory_mb is None


def test_words_are_read() -> None:
    asked = job(
        "--mail-type=END,fail", "--open-mode=app", "--signal=B:USR1@90", "-w", "n[1-2]", "--kill-on-invalid-dep=yes"
    )
    assert asked.mail_types == ("END", "FAIL")
    assert asked.open_mode == "append"
    assert asked.signal == EarlySignal(name="USR1", before_s=90, to_shell=True)
    assert asked.nodelist == ("n1", "n2")
    assert asked.kill_on_invalid_dep is True
    assert job("--mail-type=NONE").mail_types == ()
    assert job("--signal=TERM").signal == EarlySignal(name="TERM")
    assert job("--begin=now+60").begin_at == 1060.0
    assert job("--no-requeue", "--requeue").requeue is True


def test_options_without_effect_are_said_once() -> None:
    asked = job("--hint=multithread", "--hint=memory_bound", "--gres=gpu:1,disk:4", "-v")
    assert asked.warnings == (
        "--hint has no effect: processes are bound to their share of a node, not below that",
        "--gres=disk has no effect: only GPUs are counted",
    )
    assert asked.gpus_per_node.number == 1


@pytest.mark.parametrize(
    ("words", "text", "code"),
    [
        (("--time=x",), "sbatch: error: Invalid --time specification", 255),
        (("--mem=x",), "sbatch: error: Invalid --mem specification", 255),
        (("--mail-type=x",), "sbatch: error: Invalid --mail-type specification", 255),
        (("--gpus=x",), "sbatch: error: Invalid --gpus specification", 255),
        (("--begin=x",), "sbatch: error: Invalid --begin specification", 255),
        (("--begin=x",), "Invalid time specification (pos=0): x", 255),
        (("--ntasks=0",), 'sbatch: error: Invalid numeric value "0" for --ntasks.', 1),
        (("--nodelist=n[",), "Batch job submission failed: Invalid node name specified", 1),
        (("--signal=FOO",), "sbatch: error: Invalid --signal specification", 255),
        (("--exclusive=x",), "sbatch: error: Invalid --exclusive specification", 255),
        (("--hint=x",), 'unrecognized --hint argument "x", see --hint=help', 1),
        (("--switches=x",), 'Invalid numeric value "x" for --switches.', 1),
        (("--time-min=x",), "sbatch: error: Invalid --time-min specification", 255),
        (("--tmp=x",), "sbatch: error: Invalid --tmp specification", 255),
        (("--distribution=x",), "sbatch: error: Invalid --distribution specification", 255),
        (("--nodes=2-1",), "Maximum node count 1 is less than minimum node count 2", 255),
        (("--nodes=0",), "Batch job submission failed: Node count specification invalid", 1),
        (("--open-mode=x",), "sbatch: error: Invalid --open-mode specification", 255),
        (("--signal=@",), "sbatch: error: Invalid --signal specification", 255),
        (("--kill-on-invalid-dep=x",), "sbatch: error: Invalid --kill-on-invalid-dep specification", 255),
        (("--nodes=x",), '"x" is not a valid node count', 255),
        (("--array=x",), "Batch job submission failed: Invalid job array specification", 1),
        (("--dependency=x:y",), "Batch job submission failed: Job dependency problem", 1),
        (("--gres=:",), "Invalid generic resource (gres) specification", 1),
        (("--mem=1", "--mem-per-cpu=1"), "sbatch: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually", 1),
    ],
)
def test_values_that_cannot_be_read_are_refused(words: tuple[str, ...], text: str, code: int) -> None:
    with pytest.raises(Fault) as caught:
        job(*words)
    assert text in str(caught.value)
    assert caught.value.code == code


def test_what_cannot_be_had_is_refused() -> None:
    with pytest.raises(Fault, match="heterogeneous jobs are not supported"):
        merge([SRUN.read(["--het-group=1"]).given], program="srun", now=0)


# Every option that pyxis adds to Slurm: what acts here, what is so anyway, and what there is not.
PYXIS_ACTS: dict[str, dict[str, Any]] = {
    "--container-image=x": {"container_image": "x"},
    "--container-mounts=/a:/b": {"container_mounts": "/a:/b"},
    "--container-workdir=/b": {"container_workdir": "/b"},
    "--container-name=x:exec": {"container_name": "x:exec"},
    "--container-writable": {"is_container_writable": True},
    "--no-container-mount-home": {"has_no_home": True},
}
PYXIS_IS_SO = (
    "--container-mount-home",
    "--container-readonly",
    "--no-container-entrypoint",
    "--no-container-remap-root",
)
PYXIS_NOT_HERE = {
    "--container-save=/x.sqsh": "--container-mounts",
    "--container-remap-root": "when the image is built",
    "--container-entrypoint": "begin the command",
    "--container-entrypoint-log": "begin the command",
    "--container-env=A,B": "leave it out",
}


@pytest.mark.parametrize("program", ["sbatch", "salloc", "srun"])
def test_every_option_of_pyxis_acts_or_is_refused_by_name_with_a_way_out(program: str) -> None:
    grammar = Grammar(program, options_of(program))

    def asked(*words: str) -> Job:
        return merge([grammar.read(words).given], program=program, now=0)

    for word, fields in PYXIS_ACTS.items():
        assert asked(word) == Job(**fields), word
    assert asked(*PYXIS_IS_SO) == Job()
    for word, way_out in PYXIS_NOT_HERE.items():
        with pytest.raises(Fault) as refused:
            asked(word)
        assert str(refused.value).startswith(f"{program}: error: {word.partition('=')[0]}: ")
        assert way_out in str(refused.value)
        assert refused.value.code


@pytest.mark.parametrize(
    ("one", "other"),
    [("container-writable", "container-readonly"), ("no-container-mount-home", "container-mount-home")],
)
def test_options_of_a_container_that_contradict_each_other_are_refused(one: str, other: str) -> None:
    for words in ((f"--{one}", f"--{other}"), (f"--{other}", f"--{one}")):
        with pytest.raises(Fault, match="contradict each other: give one of them"):
            job(*words)


@pytest.mark.parametrize(
    ("text", "dependency"),
    [
        ("afterok:17", Dependency((Wait("afterok", 17),))),
        ("17:18", Dependency((Wait("afterany", 17), Wait("afterany", 18)))),
        ("afterok:1,afterany:2_3", Dependency((Wait("afterok", 1), Wait("afterany", 2, 3)))),
        ("afterok:1?afternotok:2", Dependency((Wait("afterok", 1), Wait("afternotok", 2)), any_of=True)),
        ("after:4+5", Dependency((Wait("after", 4, None, 5),))),
        ("aftercorr:4_*", Dependency((Wait("aftercorr", 4),))),
        ("singleton", Dependency((), is_singleton=True)),
    ],
)
def test_dependencies_are_read(text: str, dependency: Dependency) -> None:
    assert parse_dependency(text) == dependency


@pytest.mark.parametrize("text", ["", "afterok", "afterok:", "afterok:x", "afterok:1+5", "afterok:1,a:2?b:3"])
def test_other_words_are_no_dependency(text: str) -> None:
    assert parse_dependency(text) is None
