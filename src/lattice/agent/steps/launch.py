"""From a launch order to a request to the shim: account, folder, environment of every task. May wait, so called in a thread."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import msgspec

from lattice.agent.checkpoints.control import checkpoint_variables, make_control
from lattice.agent.hooks.scratch import NO_SCRATCH, ScratchSettings
from lattice.agent.hooks.scratch import step_variables as scratch_variables
from lattice.agent.pmix.building import FEATURE, PmixHost
from lattice.agent.runs.devices import Devices
from lattice.agent.runs.folders import TOKEN
from lattice.agent.runs.launch import AccountPolicy, build_environment, choose_directory, refusal_of, resolve_account
from lattice.agent.runs.limits import LimitSettings, NodeSize, run_limits
from lattice.agent.runs.memory_policy import policy_request
from lattice.agent.settings import Settings
from lattice.agent.shim.pmi.layout import spans
from lattice.agent.steps.folders import StepFolders, StepSpec
from lattice.core.model.nodes.memory import MemoryTopology
from lattice.core.model.work.binding import TaskDevices
from lattice.core.model.work.layout import Distribution, Layout
from lattice.ports.nodes.agents import StartOrder
from lattice.ports.nodes.steps import LaunchOrder, PmiOrder, TaskOrder

# What figures of a run say of it.
MEASURED = ("key", "allocation_id", "user", "vcluster", "cpus", "output_prefix", "upload_grant", "telemetry")
CPUS_VARIABLE = "LATTICE_TASK_CPUS"
MPICH_KIND = "MPIR_CVAR_PMI_VERSION"
NO_MEMORY = MemoryTopology()


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same for all steps of this node."""

    folders: StepFolders
    policy: AccountPolicy
    node_id: str
    programs: str
    grace_s: float
    size: NodeSize
    limits: LimitSettings = LimitSettings()
    scratch: ScratchSettings = NO_SCRATCH
    pmix: PmixHost | None = None


def site_of(settings: Settings, programs: str) -> Site:
    return Site(
        folders=StepFolders(settings.state_dir, reachable=settings.policy.agent_uid == 0),
        policy=settings.policy,
        node_id=settings.facts.node_id,
        programs=programs,
        grace_s=settings.grace_s,
        size=settings.node_size,
        limits=settings.limits,
        scratch=settings.scratch,
    )


def _spec(launch: LaunchOrder, devices: Devices, bound: Sequence[tuple[TaskDevices, Mapping[str, str]]]) -> StepSpec:
    return StepSpec(
        launch_id=launch.launch_id,
        plan=launch.plan,
        ranks=tuple(task.rank for task in launch.tasks),
        fence=launch.base.fence,
        devices=devices,
        cpus=tuple(cpu for each, _ in bound for cpu in each.cpus),
        output_prefix=launch.base.output_prefix,
        upload_grant=launch.base.upload_grant,
        measured=StartOrder(**{name: getattr(launch.base, name) for name in MEASURED}),
    )


def prepare_step(
    launch: LaunchOrder,
    site: Site,
    devices: Devices,
    variables: Mapping[str, str],
    run_folder: Path,
    bound: Sequence[tuple[TaskDevices, Mapping[str, str]]] = (),
    memory: MemoryTopology = NO_MEMORY,
) -> dict[str, object]:
    """Make the step's folder and say what the shim is to start; raises LaunchRefused and leaves nothing then."""
    order, key = launch.base, launch.key
    account = resolve_account(order.user, site.policy)
    owner, directory = (account.uid, account.gid), choose_directory(order.cwd, account.home, account)[0]
    spec = _spec(launch, devices, bound)
    # Where the allocation has a run, its token is renewed; elsewhere the step has one of its own.
    is_shared = (shared := run_folder / TOKEN).exists()
    try:
        make_control(order, site.folders.state_dir, owner)
        folder = site.folders.create(key, spec, "" if is_shared else order.token, owner)
    except OSError as error:
        raise refusal_of("the step's folder", error) from error
    token_file = str(shared if is_shared else folder / TOKEN) if order.token else ""
    request: dict[str, object] = {
        "op": "launch_step",
        "number": key.number,
        "run": key.run,
        "step": key.step,
        "dir": str(folder),
        "argv": list(order.argv),
        "env": {
            **build_environment(order, account, site.node_id, token_file, site.programs, variables),
            **checkpoint_variables(order, site.folders.state_dir),
            **scratch_variables(site.scratch, key.of_run, order.env),
            **_step_variables(launch),
            **_rendezvous(launch),
        },
        "cwd": directory,
        "uid": account.uid,
        "gid": account.gid,
        "groups": list(account.groups),
        "umask": order.umask,
        "grace_s": order.grace_s or site.grace_s,
        "time_s": launch.time_s,
        "rows": launch.rows,
        "columns": launch.columns,
        "tasks": _tasks(launch, bound),
    }
    if launch.pmi is not None:
        request["pmi"] = _pmi(launch, launch.pmi) | _pmix(launch, launch.pmi, site.pmix, folder)
    if launch.terminal is not None:
        request["terminal"] = {"keep_s": launch.terminal.keep_s, "ends_run": launch.terminal.ends_run}
    if devices.cpus:
        request["cpus"] = list(devices.cpus)
    request |= policy_request(order.memory_policy, memory, devices)
    # For a node where the allocation has no run: the step brings its group along.
    storage = (order.read_mb_s, order.write_mb_s)
    return request | run_limits(site.limits, site.size, order.cpus, order.memory_mb, devices, storage)


def _tasks(launch: LaunchOrder, bound: Sequence[tuple[TaskDevices, Mapping[str, str]]]) -> list[dict[str, object]]:
    with_slurm = "SLURM_STEP_ID" in launch.base.env
    devices = bound or [(TaskDevices(), {})] * len(launch.tasks)
    return [
        _bound(_task(task, launch, with_slurm=with_slurm), *own)
        for task, own in zip(launch.tasks, devices, strict=True)
    ]


def _bound(task: dict[str, object], devices: TaskDevices, variables: Mapping[str, str]) -> dict[str, object]:
    """The task with the devices that are its own; `variables` name its GPUs."""
    own = {**variables, **({CPUS_VARIABLE: ",".join(map(str, devices.cpus))} if devices.cpus else {})}
    given = cast("dict[str, str]", task["env"])
    return {**task, "env": {**given, **own}, **({"cpus": list(devices.cpus)} if devices.cpus else {})}


def _step_variables(launch: LaunchOrder) -> dict[str, str]:
    return {
        "LATTICE_LAUNCH_ID": launch.launch_id,
        "LATTICE_STEP_ID": str(launch.key.step),
        "LATTICE_NODELIST": ",".join(launch.nodes),
        "LATTICE_NNODES": str(len(launch.nodes)),
        "LATTICE_NODE_INDEX": str(launch.node_index),
        "LATTICE_NPROCS": str(launch.size),
        "LATTICE_LOCAL_SIZE": str(len(launch.tasks)),
        "LATTICE_CPUS_PER_TASK": str(launch.cpus_per_task or 1),
        "PMI_SIZE": str(launch.size),
        "PMI_SPAWNED": "0",
        **({"PMI_JOBID": pmi_name(launch)} if launch.pmi is not None else {}),
        **(mpich_kind(launch.pmi.kinds, launch.base.env) if launch.pmi is not None else {}),
    }


def mpich_kind(kinds: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """Which kind MPICH 5 speaks where PMIx is offered: it aborts when it finds variables of two kinds. A choice of the user's own stays."""
    if MPICH_KIND in env or FEATURE not in kinds:
        return {}
    return {MPICH_KIND: "1" if "pmi1" in kinds else "x"}


def _rendezvous(launch: LaunchOrder) -> dict[str, str]:
    """Where libraries that exchange addresses by themselves meet; a choice of the user's own stays."""
    if not launch.master_port:
        return {}
    chosen = {"MASTER_ADDR": launch.master_host, "MASTER_PORT": str(launch.master_port)}
    given = launch.base.env
    return {"WORLD_SIZE": str(launch.size), **({} if chosen.keys() & given.keys() else chosen)}


def _pmi(launch: LaunchOrder, pmi: PmiOrder) -> dict[str, object]:
    """What the shim needs for the step's service; ranks as first and last of each run of them."""
    distribution = Distribution.CYCLIC if pmi.cyclic else Distribution.BLOCK
    layout = Layout(nodes=launch.nodes, counts=pmi.counts, distribution=distribution)
    return {
        "kinds": list(pmi.kinds),
        "name": pmi_name(launch),
        "nodes": list(launch.nodes),
        "ranks": [[list(span) for span in spans(ranks)] for ranks in layout.ranks()],
        "place": launch.node_index,
        "host": pmi.host,
        "heads": [[place, host] for place, host in zip(pmi.heads, pmi.head_hosts, strict=True)],
        "key": pmi.key.hex(),
        "hidden": pmi.hidden,
        "timeout_s": pmi.timeout_s,
    }


def _pmix(launch: LaunchOrder, pmi: PmiOrder, host: PmixHost | None, folder: Path) -> dict[str, object]:
    """The name of the ranks' space is the same on all nodes, and no other user can guess it."""
    if host is None or FEATURE not in pmi.kinds:
        return {}
    secret = hashlib.blake2b(pmi.key, digest_size=16, person=b"pmix").hexdigest()
    space = f"{pmi_name(launch)}.{secret}"
    own = {"{space}": space, "{node}": launch.nodes[launch.node_index]}
    variables = {name: own.get(value, value) for name, value in host.variables.items()}
    return {"pmix": {"program": host.program, "space": space, "dir": str(folder / "pmix"), "env": variables}}


def pmi_name(launch: LaunchOrder) -> str:
    """What PMI calls the step: unlike any other."""
    return f"{launch.base.allocation_id}.{launch.step}"


def _task(task: TaskOrder, launch: LaunchOrder, *, with_slurm: bool) -> dict[str, object]:
    mpi = {}
    if launch.pmi is not None:
        mpi = {"MPI_LOCALRANKID": str(task.local_rank), "MPI_LOCALNRANKS": str(len(launch.tasks))}
    if launch.master_port:
        mpi |= {"RANK": str(task.rank), "LOCAL_RANK": str(task.local_rank)}
    slurm = {"SLURM_PROCID": str(task.rank), "SLURM_LOCALID": str(task.local_rank)} if with_slurm else {}
    return {
        "rank": task.rank,
        "argv": list(task.argv),
        "env": {
            "PMI_RANK": str(task.rank),
            "LATTICE_RANK": str(task.rank),
            "LATTICE_LOCAL_RANK": str(task.local_rank),
            **mpi,
            **slurm,
        },
        "has_input": task.has_input,
        "stdin": task.stdin,
        "stdout": task.stdout,
        "stderr": task.stderr,
        "truncate": task.truncate,
        "pty": task.pty,
    }
