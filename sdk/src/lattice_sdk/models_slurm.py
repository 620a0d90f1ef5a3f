"""The Slurm commands, as the server answers them."""

from msgspec import Struct


class SlurmAnswer(Struct, frozen=True, kw_only=True):
    """What a Slurm command prints and how it ends; `needs` and `resume` ask its program to go on."""

    stdout: str = ""
    stderr: str = ""
    code: int = 0
    needs: str = ""
    path: str = ""
    resume: str = ""


class SlurmRequest(Struct, frozen=True, kw_only=True):
    """What a Slurm command asked for, in its own words; figures of 0 and empty texts were not asked for."""

    program: str = ""
    partition: str = ""
    qos: str = ""
    ntasks: int = 0
    ntasks_per_node: int = 0
    cpus_per_task: int = 0
    memory_mb: int = 0
    memory_per_cpu_mb: int = 0
    gres: str = ""
    features: str = ""
    reservation: str = ""
    comment: str = ""
    wckey: str = ""
    dependency: str = ""
    array: str = ""
    command: str = ""
    arguments: str = ""
    work_dir: str = ""
    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
    host: str = ""
