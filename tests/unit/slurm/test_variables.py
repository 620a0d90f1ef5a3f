"""SLURM_* variables of jobs and steps."""

from dataclasses import replace

from lattice.slurm.submit.variables import (
    ArrayFacts,
    JobFacts,
    StepFacts,
    batch_variables,
    repeated,
    step_variables,
    tasks_on_nodes,
)

PLAIN = JobFacts(
    number=17,
    name="run",
    user="ada",
    uid=1000,
    gid=100,
    account="physics",
    partition="main",
    qos="normal",
    cluster="alps",
    nodes=("n1", "n2", "n3"),
    cpus=(4, 4, 8),
    node="n2",
    submit_dir="/home/ada",
)


def test_a_job_learns_who_and_where_it_is() -> None:
    found = batch_variables(PLAIN)
    assert found["SLURM_JOB_ID"] == found["SLURM_JOBID"] == "17"
    assert found["SLURM_JOB_NODELIST"] == found["SLURM_NODELIST"] == "n[1-3]"
    assert found["SLURM_JOB_CPUS_PER_NODE"] == found["SLURM_TASKS_PER_NODE"] == "4(x2),8"
    assert (found["SLURM_CPUS_ON_NODE"], found["SLURM_NODEID"], found["SLURMD_NODENAME"]) == ("4", "1", "n2")


def test_what_was_not_asked_for_is_not_there() -> None:
    absent = ("NTASKS", "NPROCS", "CPUS_PER_TASK", "MEM_PER_NODE", "MEM_PER_CPU", "RESTART_COUNT", "ARRAY_TASK_ID")
    assert [name for name in absent if f"SLURM_{name}" in batch_variables(PLAIN)] == []


def test_what_was_asked_for_is_there() -> None:
    asked = replace(PLAIN, ntasks=5, cpus_per_task=2, memory_mb=100, restarts=1, dependency="afterok:3", gpus=2)
    found = batch_variables(asked)
    wanted = {
        "SLURM_NTASKS": "5",
        "SLURM_NPROCS": "5",
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_MEM_PER_NODE": "100",
        "SLURM_RESTART_COUNT": "1",
        "SLURM_JOB_DEPENDENCY": "afterok:3",
        "SLURM_GPUS_ON_NODE": "2",
        "SLURM_TASKS_PER_NODE": "2(x2),1",
    }
    assert wanted.items() <= found.items()
    assert batch_variables(replace(PLAIN, ntasks_per_node=2))["SLURM_NTASKS"] == "6"


def test_a_task_of_an_array_learns_its_place() -> None:
    array = ArrayFacts(number=10, index=4, first=2, last=6, step=2, count=3)
    found = batch_variables(replace(PLAIN, array=array))
    names = ("JOB_ID", "TASK_ID", "TASK_MIN", "TASK_MAX", "TASK_STEP", "TASK_COUNT")
    assert [found[f"SLURM_ARRAY_{name}"] for name in names] == ["10", "4", "2", "6", "2", "3"]


def test_a_task_of_a_step_learns_its_rank() -> None:
    facts = StepFacts(
        number=0, nodes=("n1", "n3"), tasks=(2, 1), node="n1", rank=1, local_rank=1, ranks=(0, 1), cpus_per_task=2
    )
    found = step_variables(facts)
    assert (found["SLURM_PROCID"], found["SLURM_LOCALID"], found["SLURM_GTIDS"]) == ("1", "1", "0,1")
    assert (found["SLURM_NTASKS"], found["SLURM_STEP_TASKS_PER_NODE"], found["SLURM_STEP_NODELIST"]) == (
        "3",
        "2,1",
        "n[1,3]",
    )
    assert found["SLURM_CPUS_PER_TASK"] == "2"


def test_figures_of_nodes_are_counted() -> None:
    assert repeated([]) == ""
    assert repeated([1, 1, 2, 1]) == "1(x2),2,1"
    assert tasks_on_nodes(2, 0, 0, [4, 8], 2) == [2, 4]
