"""What a Slurm command asked for in its own words. Nothing is decided by it: listings and variables show it as it was written.

See docs/architecture/core.md.
"""

from msgspec import Struct


class Asked(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Figures of 0 and texts that are empty were not asked for; `memory_mb` 0 may also mean all of a node's, then -1 was kept."""

    program: str = "sbatch"  # or salloc, srun
    partition: str = ""
    qos: str = ""
    ntasks: int = 0
    ntasks_per_node: int = 0
    cpus_per_task: int = 0
    memory_mb: int = 0  # of each node; -1 = all there is
    memory_per_cpu_mb: int = 0
    gres: str = ""  # of each node, `gpu:2`
    gpus: str = ""  # the word of --gpus
    features: str = ""
    reservation: str = ""
    comment: str = ""
    wckey: str = ""
    dependency: str = ""
    array: str = ""
    signal: str = ""  # `[B:]USR1@60`
    command: str = ""  # path of the script; empty = stdin or --wrap
    arguments: str = ""
    work_dir: str = ""
    stdin: str = ""
    stdout: str = ""  # patterns, not filled in
    stderr: str = ""
    open_mode: str = ""
    export: str = ""
    host: str = ""  # where it was submitted
    uid: int = 0
    gid: int = 0
    time_limit_s: int = 0  # -1 = none
    never: str = ""  # why it can never start as things are: PartitionTimeLimit, PartitionNodeLimit
