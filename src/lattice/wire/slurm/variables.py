"""The SLURM_* variables of a run, from the state: for work that a Slurm command submitted, and for all where the site wants it."""

from msgspec import Struct

from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.work.allocations import Allocation, TaskGroup
from lattice.core.model.work.asked import Asked
from lattice.slurm.submit.variables import ArrayFacts, JobFacts, batch_variables

_NOTHING_ASKED = Asked(program="")


class SlurmSettings(Struct, frozen=True, kw_only=True):
    """`for_all` = native submissions get the variables, too."""

    cluster: str = "lattice"
    for_all: bool = False


def run_variables(
    state: State, allocation: Allocation, share: Share, submit_dir: str, settings: SlurmSettings
) -> dict[str, str]:
    """The Slurm variables of the part on the share's node; none for native work unless the site enables them."""
    asked = allocation.asked
    if asked is None:
        if not settings.for_all:
            return {}
        asked = _NOTHING_ASKED
    group = state.groups.get(allocation.group)
    return batch_variables(
        JobFacts(
            number=allocation.number,
            name=allocation.name,
            user=allocation.account,
            uid=asked.uid,
            gid=asked.gid,
            account=allocation.tenant,
            partition=asked.partition or allocation.vcluster,
            qos=asked.qos or "normal",
            cluster=settings.cluster,
            nodes=allocation.nodes,
            cpus=[_cpus(state, each) for each in allocation.shares],
            node=share.node,
            submit_dir=submit_dir,
            submit_host=asked.host,
            ntasks=asked.ntasks,
            ntasks_per_node=asked.ntasks_per_node,
            cpus_per_task=asked.cpus_per_task,
            memory_mb=asked.memory_mb,
            memory_per_cpu_mb=asked.memory_per_cpu_mb,
            gpus=allocation.request.gpus,
            gpus_asked=asked.gpus,
            dependency=asked.dependency,
            reservation=asked.reservation,
            restarts=allocation.restart_count,
            array=None if group is None else _array(group, allocation.task_index),
        )
    )


def _cpus(state: State, share: Share) -> int:
    node = state.nodes.get(share.node)
    return share.cpus if not share.whole or node is None else node.hardware.cpus


def _array(group: TaskGroup, index: int) -> ArrayFacts:
    first = min(block[0] for block in group.indices)
    last = max(block[1] - (block[1] - block[0]) % block[2] for block in group.indices)
    step = group.indices[0][2] if len(group.indices) == 1 else 1
    return ArrayFacts(number=group.number, index=index, first=first, last=last, step=step, count=group.size)
