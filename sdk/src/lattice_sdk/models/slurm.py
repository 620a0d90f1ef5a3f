"""The Slurm commands, as the server answers them."""

from msgspec import Struct


class SlurmStep(Struct, frozen=True, kw_only=True):
    """A step that the program attends to: shows its output, forwards input and signals."""

    allocation: str
    step: int
    tasks: int
    label: bool = False
    stdin: str = ""
    fed: bool = True
    pty: bool = False
    stdout: str = ""
    stderr: str = ""
    append: bool = False
    resume: str = ""
    detaches: bool = False
    only_stdout: int = -1
    only_stderr: int = -1
    only_stdin: int = -1


class SlurmProgram(Struct, frozen=True, kw_only=True):
    """A program that is run where the command was typed."""

    argv: list[str] = []
    environment: dict[str, str] = {}
    resume: str = ""


class SlurmAnswer(Struct, frozen=True, kw_only=True):
    """What a Slurm command prints and how it ends; `needs` and `resume` ask its program to continue."""

    stdout: str = ""
    stderr: str = ""
    code: int = 0
    needs: str = ""
    path: str = ""
    resume: str = ""
    attend: SlurmStep | None = None
    spawn: SlurmProgram | None = None


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
    wckey: str = ""
    dependency: str = ""
    array: str = ""
    host: str = ""


class SlurmRequestDetails(Struct, frozen=True, kw_only=True):
    """What of that only the owner and a SystemAdmin get to see. Files are patterns, not names."""

    comment: str = ""
    command: str = ""
    arguments: str = ""
    work_dir: str = ""
    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
