"""What a Slurm command asked for, as the API shows it."""

from msgspec import Struct

from lattice.core.model.work.asked import Asked


class AskedView(Struct, frozen=True, kw_only=True, gc=False):
    """The request as it was submitted; zeros and empty strings mean that nothing was requested."""

    program: str
    partition: str
    qos: str
    ntasks: int
    ntasks_per_node: int
    cpus_per_task: int
    memory_mb: int
    memory_per_cpu_mb: int
    gres: str
    features: str
    reservation: str
    wckey: str
    dependency: str
    array: str
    host: str


class AskedDetailsView(Struct, frozen=True, kw_only=True, gc=False):
    """Details of the request that only the owner and a SystemAdmin may read. Files are patterns, not names."""

    comment: str
    command: str
    arguments: str
    work_dir: str
    stdin: str
    stdout: str
    stderr: str


def asked_view(asked: Asked) -> AskedView:
    return AskedView(**{name: getattr(asked, name) for name in AskedView.__struct_fields__})


def asked_details(asked: Asked) -> AskedDetailsView:
    return AskedDetailsView(**{name: getattr(asked, name) for name in AskedDetailsView.__struct_fields__})
