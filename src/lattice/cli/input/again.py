"""From a recorded allocation back to a submission, with what a person wants to change."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from lattice.cli.context import Context
from lattice.cli.errors import CommandError
from lattice.cli.input.exposure import exposed_text
from lattice.cli.input.probes import probe_text
from lattice.cli.input.submission import SubmitOptions, build_submission
from lattice_sdk.data.models import DataMount, DataRequest, StageOut
from lattice_sdk.models.records import (
    FAILED,
    Allocation,
    AllocationFilter,
    Constraints,
    Details,
    ResourceRequest,
    Submission,
)
from lattice_sdk.models.runs import ContainerInfo, ImageInfo, Scaling

LINEAGE = "resubmit_of"  # the tag that names the allocation it was made from
ONE_PAGE = 10_000
JOINED = ("env", "tag")


def details_of(allocation: Allocation) -> Details:
    """What the allocation runs; CommandError when the caller may not see it, or it is not kept."""
    details = allocation.details
    if details is UNSET or details is None:
        raise CommandError(
            f"what {allocation.id} runs is not available",
            hint="only its user and administrators may read it, and only while it is kept",
        )
    return details


def again(allocation: Allocation, given: dict[str, Any], context: Context, *, only_failed: bool) -> Submission:
    """The submission of a new allocation that does the same, except for the flags in `given`.

    When it began, what it waited for and its deadline belonged to the old one and are not repeated.
    """
    details = details_of(allocation)
    if details.slurm is not UNSET:
        raise CommandError(
            f"{allocation.id} was submitted by a Slurm command, whose settings a native submission does not have",
            hint=f"lattice status {allocation.id} --script > again.sh, then sbatch again.sh",
        )
    recorded = {**_recorded(allocation, details, context, only_failed=only_failed), **_checkpoint(allocation, given)}
    joined = {name: [*recorded[name], *given[name]] for name in JOINED if name in given}
    merged = {**recorded, **given, **joined}
    texts: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in merged.items()}
    submission = build_submission(SubmitOptions(**texts), context)
    return replace(
        submission,
        entrypoint=details.entrypoint or None,
        submit_dir=details.submit_dir or "",
        umask=int(details.umask, 8) if details.umask else None,
        tenant=context.flags.tenant or allocation.tenant,
        vcluster=context.flags.vcluster or allocation.vcluster,
        resources=_resources(submission.resources, details.constraints or Constraints(), given),
        data=_data(submission.data, details, given),
    )


def _recorded(allocation: Allocation, details: Details, context: Context, *, only_failed: bool) -> dict[str, Any]:
    """The recorded allocation in the words of the flags."""
    wants, output = allocation.resources, details.output
    most, rules = details.max_nodes or wants.nodes, details.constraints or Constraints()
    files = {} if output is UNSET else {"stdout": output.stdout, "stderr": output.stderr, "stdin": output.stdin}
    return {
        "export": "NONE",  # the recorded variables are the environment, whatever the configuration says now
        "script": details.script or None,
        "script_args": details.script_args or [],
        "name": allocation.name,
        "project": allocation.project or None,
        "nodes": f"{wants.nodes}-{most}" if most > wants.nodes else str(wants.nodes),
        "walltime": f"{allocation.walltime_s:.0f}s" if allocation.walltime_s else None,
        "topology": rules.topology or None,
        "nodelist": ",".join(rules.nodes),
        "exclude": ",".join(rules.exclude),
        "cpus": wants.cpus,
        "memory": f"{wants.memory_mb}M" if wants.memory_mb else "",
        "gpus": wants.gpus,
        "exclusive": bool(details.exclusive),
        "task_group": _tasks(allocation, context, only_failed=only_failed),
        "priority": str(allocation.preemption_class),
        "no_preempt": allocation.no_preempt is True,
        "requeue": allocation.requeue or None,
        "max_requeue": allocation.max_requeue,
        "lifecycle": allocation.lifecycle,
        **_service(allocation, details),
        "per_node": details.per_node,
        "mutex": allocation.mutex,
        "idle_end": f"{allocation.idle_end_s}s" if allocation.idle_end_s else None,
        "env": [f"{name}={value}" for name, value in (details.environment or {}).items()],
        "uenv": ",".join(_reference(image) for image in details.uenv),
        "view": ",".join(details.view),
        "scratch": f"{details.scratch_mb}M" if details.scratch_mb else "",
        **_container(details.container),
        "chdir": details.cwd,
        "tag": [*(f"{key}={value}" for key, value in allocation.tags.items()), f"{LINEAGE}={allocation.id}"],
        "notify": ",".join((*details.notify_on, *(["tasks"] if details.notify_each_task else ()))) or None,
        "notify_to": details.notify_to if details.notify_on else [],
        "summary": details.summary,
        "signal": details.signal,
        "expose": [exposed_text(each) for each in allocation.expose],
        **files,
        "open_mode": "" if output is UNSET or not any(files.values()) else output.mode,
    }


def _service(allocation: Allocation, details: Details) -> dict[str, Any]:
    """What keeps it alive, and how it is asked and stopped; nothing of work that ends."""
    if allocation.service is UNSET:
        return {}
    return {
        "restart": allocation.service.restart or None,
        "drain": f"{details.drain_s:.0f}s",
        **{f"{probe.kind}_probe": probe_text(probe) for probe in details.probes},
        **_scaling(allocation.service.scaling),
    }


def _scaling(scaling: Scaling | None) -> dict[str, Any]:
    if scaling is None:
        return {}
    return {
        "min_nodes": scaling.min_nodes,
        "max_nodes": scaling.max_nodes,
        "scale_metric": scaling.metric,
        "scale_target": f"{Decimal(repr(scaling.target)):f}",  # every digit, and no exponent
        "scale_up_window": f"{scaling.scale_up_window_s}s",
        "scale_down_window": f"{scaling.scale_down_window_s}s",
        "scale_down_threshold": scaling.scale_down_threshold,
        "scale_interval": f"{scaling.evaluation_interval_s}s",
        "scale_cooldown": f"{scaling.cooldown_period_s}s",
    }


def _checkpoint(allocation: Allocation, given: dict[str, Any]) -> dict[str, Any]:
    """How it is asked for checkpoints, unless a flag says it: a signal or a port belongs to its protocol."""
    standing = allocation.checkpoint
    if standing is UNSET or not standing.protocol or "checkpoint" in given:
        return {}
    return {
        "checkpoint": f"{standing.strategy},{standing.protocol}",
        "checkpoint_signal": standing.signal,
        "checkpoint_port": standing.port or None,
    }


def _data(built: DataRequest | None, details: Details, given: dict[str, Any]) -> DataRequest | None:
    """Mounts and results as they were recorded; each as a whole as the flags have it now."""
    asked = built or DataRequest()
    made = [each.target for each in details.stage_out if each.made]
    mounts = [
        DataMount(source=each.source, target=each.target, access=each.access, tier_hint=each.tier)
        for each in details.data
    ]
    results = [StageOut(source=each.source, target=each.target) for each in details.stage_out if not each.made]
    wanted = DataRequest(
        mounts=asked.mounts if "data_mount" in given else mounts,
        stage_out=asked.stage_out if "stage_out" in given else results,
        defaults=not details.no_defaults,
        output="".join(made),
    )
    return None if wanted == DataRequest() else wanted


def _container(container: ContainerInfo | None) -> dict[str, Any]:
    if container is None:
        return {}
    return {
        "image": container.image,
        "mount": container.mounts,
        "container_writable": container.writable,
        "container_workdir": container.workdir,
        "no_home": container.no_home,
        "container_name": container.name,
    }


def _reference(image: ImageInfo) -> str:
    """The same bytes at the same place."""
    mount = f":{image.mount}"
    return image.reference if not image.mount or image.reference.endswith(mount) else f"{image.reference}{mount}"


def _tasks(allocation: Allocation, context: Context, *, only_failed: bool) -> str | None:
    """The indices to run, as `--task-group` takes them; None for a single allocation."""
    if allocation.task_index is not None:
        return str(allocation.task_index)
    counts = allocation.task_counts
    if counts is None:
        if only_failed and allocation.state != FAILED:
            raise CommandError(f"{allocation.id} has not failed: it is {allocation.state}")
        return None
    indices = task_indices(allocation.id, context, states=(FAILED,) if only_failed else ())
    if not indices:
        raise CommandError(f"no task of {allocation.id} has failed")
    return f"{index_ranges(indices)}%{counts.concurrency}" if counts.concurrency else index_ranges(indices)


def task_indices(group: str, context: Context, *, states: tuple[str, ...]) -> list[int]:
    wanted = AllocationFilter(group=group, states=states, is_archive_included=True)
    found = context.client.iter_allocations(wanted, page_size=ONE_PAGE)
    return sorted(task.task_index for task in found if task.task_index is not None)


def index_ranges(indices: Iterable[int]) -> str:
    """Sorted indices in short: `1,4-7`."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _resources(built: ResourceRequest, recorded: Constraints, given: dict[str, Any]) -> ResourceRequest:
    """Constraints are repeated as a whole unless new ones are given; nodes, exclude and topology each by themselves."""
    rules = built.constraints
    if "constraint" not in given:
        kept = replace(recorded, topology=rules.topology, nodes=rules.nodes, exclude=rules.exclude, gpu_count=None)
        return replace(built, constraints=kept)
    return replace(built, gpus=0) if rules.gpu_count and "gpus" not in given else built
