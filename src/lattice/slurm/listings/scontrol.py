"""The texts of `scontrol show`: `Key=Value` pairs, on several lines or, for programs, on one."""

from collections.abc import Iterable, Mapping, Sequence

from lattice.slurm.listings.machine import NodeRow, PartitionRow, ReservationRow
from lattice.slurm.listings.rows import JobRow, StepRow
from lattice.slurm.text.hostlists import fold
from lattice.slurm.text.sizes import format_memory
from lattice.slurm.text.times import format_limit, format_moment, format_span

Pairs = Sequence[tuple[str, str]]


def joined(rows: Sequence[Pairs], *, one_line: bool) -> str:
    """One record; on one line, values contain no blanks, because readers split there."""
    if one_line:
        return " ".join(f"{key}={'_'.join(value.split(' '))}" for row in rows for key, value in row)
    return "\n   ".join(" ".join(f"{key}={value}" for key, value in row) for row in rows)


def _null(text: str) -> str:
    return text or "(null)"


def job_text(row: JobRow, now: float, *, one_line: bool = False, in_detail: bool = False, form: str = "") -> str:
    rows = [_job_head(row), *_job_state(row, now, form, in_detail=in_detail), *_job_place(row), *_job_request(row)]
    return joined([*rows, *_job_files(row)], one_line=one_line)


def _job_head(row: JobRow) -> Pairs:
    array: list[tuple[str, str]] = []
    if row.array_number:
        array = [("ArrayJobId", str(row.array_number)), ("ArrayTaskId", row.index_text.strip("[]"))]
        array += [("ArrayTaskThrottle", str(row.array_limit))] if row.array_limit else []
    return [("JobId", str(row.number)), *array, ("JobName", row.name)]


def _job_state(row: JobRow, now: float, form: str, *, in_detail: bool) -> list[Pairs]:
    def moment(at: float | None, missing: str = "Unknown") -> str:
        return format_moment(at, form, missing)

    end = row.ended_at
    if end is None and row.started_at is not None and row.time_limit_s:
        end = row.started_at + row.time_limit_s
    limit = format_limit(row.time_limit_s, short=False)
    derived = max((step.exit_code for step in row.steps), default=0)
    eligible = row.eligible_at
    return [
        [("UserId", f"{row.user}({row.uid})"), ("GroupId", f"{row.group}({row.gid})"), ("MCS_label", "N/A")],
        [("Priority", str(row.priority)), ("Nice", "0"), ("Account", _null(row.account)), ("QOS", _null(row.qos))],
        [("JobState", row.state.long), ("Reason", row.reason), ("Dependency", _null(row.dependency))],
        [
            ("Requeue", str(int(row.may_requeue))),
            ("Restarts", str(row.restarts)),
            ("BatchFlag", str(int(row.is_batch))),
            ("Reboot", "0"),
            ("ExitCode", f"{row.exit_code}:{row.signal}"),
        ],
        *([[("DerivedExitCode", f"{derived}:0")]] if in_detail else []),
        [("RunTime", format_span(row.run_time_s(now), short=False)), ("TimeLimit", limit), ("TimeMin", "N/A")],
        [("SubmitTime", moment(row.submitted_at)), ("EligibleTime", moment(eligible))],
        [("AccrueTime", moment(eligible))],
        [("StartTime", moment(row.started_at)), ("EndTime", moment(end)), ("Deadline", moment(row.deadline_at, "N/A"))],
        [("SuspendTime", "None"), ("SecsPreSuspend", "0"), ("LastSchedEval", moment(eligible)), ("Scheduler", "Main")],
    ]


def _job_place(row: JobRow) -> list[Pairs]:
    return [
        [("Partition", row.partition), ("AllocNode:Sid", f"{row.submit_host or 'localhost'}:0")],
        [("ReqNodeList", _null(row.wanted_nodes)), ("ExcNodeList", _null(row.excluded_nodes))],
        [("NodeList", _null(row.node_list))],
        *([[("BatchHost", row.nodes[0])]] if row.nodes else []),
    ]


def _job_request(row: JobRow) -> list[Pairs]:
    most = f"-{row.max_nodes}" if row.max_nodes else ""
    nodes = str(len(row.nodes)) if row.nodes else f"{row.min_nodes}{most}"
    if row.memory_per_cpu_mb:
        memory = ("MinMemoryCPU", format_memory(row.memory_per_cpu_mb))
    else:
        memory = ("MinMemoryNode", format_memory(row.memory_mb) if row.memory_mb else "0")
    return [
        [
            ("NumNodes", nodes),
            ("NumCPUs", str(row.cpus)),
            ("NumTasks", str(row.ntasks)),
            ("CPUs/Task", str(row.cpus_per_task)),
            ("ReqB:S:C:T", "0:0:*:*"),
        ],
        [("TRES", tres(row))],
        [("Socks/Node", "*"), ("NtasksPerN:B:S:C", f"{row.tasks_per_node}:0:*:*"), ("CoreSpec", "*")],
        [("MinCPUsNode", str(row.cpus_per_task)), memory, ("MinTmpDiskNode", "0")],
        [("Features", _null(row.features)), ("DelayBoot", "00:00:00")],
        *([[("Reservation", row.reservation)]] if row.reservation else []),
        [("OverSubscribe", "NO"), ("Contiguous", "0"), ("Licenses", "(null)"), ("Network", "(null)")],
    ]


def tres(row: JobRow) -> str:
    """`cpu=2,mem=100M,node=1,billing=2`."""
    nodes = len(row.nodes) or row.min_nodes
    memory_mb = row.memory_per_cpu_mb * row.cpus or row.memory_mb * nodes
    memory = f",mem={format_memory(memory_mb)}" if memory_mb else ""
    gpus = f",gres/gpu={row.gpus}" if row.gpus else ""
    return f"cpu={row.cpus}{memory},node={nodes},billing={row.cpus}{gpus}"


def _job_files(row: JobRow) -> list[Pairs]:
    optional = (("Comment", row.comment), ("WCKey", row.wckey))
    return [
        [("Command", _null(row.command))],
        [("WorkDir", _null(row.work_dir))],
        *[[pair] for pair in optional if pair[1]],
        [("StdErr", _null(row.stderr))],
        [("StdIn", _null(row.stdin))],
        [("StdOut", _null(row.stdout))],
        *([[("TresPerNode", f"gres:{row.gres}")]] if row.gres else []),
        [("Power", "(null)")],
    ]


def node_text(node: NodeRow, *, one_line: bool = False, form: str = "") -> str:
    gpus = f",gres/gpu={node.gpus}" if node.gpus else ""
    held = f"cpu={node.cpus_held},mem={node.memory_held_mb}M" if node.cpus_held else ""
    held += f",gres/gpu={node.gpus_held}" if held and node.gpus_held else ""
    load = "N/A" if node.load is None else f"{node.load:.2f}"
    free = "N/A" if node.memory_free_mb is None else str(node.memory_free_mb)
    started = format_moment(node.started_at, form, "None")
    rows: list[Pairs] = [
        [("NodeName", node.name), ("Arch", "x86_64"), ("CoresPerSocket", str(node.cpus))],
        [
            ("CPUAlloc", str(node.cpus_held)),
            ("CPUEfctv", str(node.cpus)),
            ("CPUTot", str(node.cpus)),
            ("CPULoad", load),
        ],
        [("AvailableFeatures", _null(node.features))],
        [("ActiveFeatures", _null(node.features))],
        [("Gres", _null(node.gres))],
        [("NodeAddr", node.address or node.name), ("NodeHostName", node.name), ("Version", node.version or "N/A")],
        [("OS", "Linux")],
        [
            ("RealMemory", str(node.memory_mb)),
            ("AllocMem", str(node.memory_held_mb)),
            ("FreeMem", free),
            ("Sockets", "1"),
            ("Boards", "1"),
        ],
        [
            ("State", node.state),
            ("ThreadsPerCore", "1"),
            ("TmpDisk", "0"),
            ("Weight", "1"),
            ("Owner", "N/A"),
            ("MCS_label", "N/A"),
        ],
        [("Partitions", _null(",".join(node.partitions)))],
        [("BootTime", "None"), ("SlurmdStartTime", started)],
        [("CfgTRES", f"cpu={node.cpus},mem={node.memory_mb}M,billing={node.cpus}{gpus}")],
        [("AllocTRES", _null(held))],
        [("CapWatts", "n/a")],
    ]
    if node.reason:
        at = format_moment(node.reason_at, form, "Unknown")
        rows.append([("Reason", f"{node.reason} [{node.reason_by or 'root'}@{at}]")])
    return joined(rows, one_line=one_line)


def partition_text(partition: PartitionRow, *, one_line: bool = False) -> str:
    cpus = sum(node.cpus for node in partition.nodes)
    memory_mb = sum(node.memory_mb for node in partition.nodes)
    gpus = sum(node.gpus for node in partition.nodes)
    accounts = ",".join(partition.accounts) or "ALL"
    return joined(
        [
            [("PartitionName", partition.name)],
            [("AllowGroups", "ALL"), ("AllowAccounts", accounts), ("AllowQos", "ALL")],
            [("AllocNodes", "ALL"), ("Default", "YES" if partition.is_default else "NO"), ("QoS", "N/A")],
            [
                (
                    "DefaultTime",
                    format_limit(partition.default_time_s, short=False) if partition.default_time_s else "NONE",
                ),
                ("DisableRootJobs", "NO"),
                ("ExclusiveUser", "NO"),
                ("GraceTime", "0"),
                ("Hidden", "NO"),
            ],
            [
                ("MaxNodes", str(partition.max_nodes or "UNLIMITED")),
                ("MaxTime", format_limit(partition.max_time_s, short=False)),
                ("MinNodes", "0"),
                ("LLN", "NO"),
                ("MaxCPUsPerNode", "UNLIMITED"),
            ],
            [("Nodes", _null(partition.node_list))],
            [
                ("PriorityJobFactor", "1"),
                ("PriorityTier", "1"),
                ("RootOnly", "NO"),
                ("ReqResv", "NO"),
                ("OverSubscribe", "YES:4" if partition.is_shared else "NO"),
            ],
            [("OverTimeLimit", "NONE"), ("PreemptMode", partition.preempt_mode)],
            [
                ("State", "UP" if partition.is_up else "DOWN"),
                ("TotalCPUs", str(cpus)),
                ("TotalNodes", str(len(partition.nodes))),
                ("SelectTypeParameters", "NONE"),
            ],
            [("JobDefaults", "(null)")],
            [("DefMemPerNode", "UNLIMITED"), ("MaxMemPerNode", "UNLIMITED")],
            [
                (
                    "TRES",
                    f"cpu={cpus},mem={memory_mb}M,node={len(partition.nodes)},billing={cpus}"
                    + (f",gres/gpu={gpus}" if gpus else ""),
                )
            ],
        ],
        one_line=one_line,
    )


def reservation_text(row: ReservationRow, *, one_line: bool = False, form: str = "") -> str:
    return joined(
        [
            [
                ("ReservationName", row.name),
                ("StartTime", format_moment(row.start_at, form)),
                ("EndTime", format_moment(row.end_at, form)),
                ("Duration", format_span(int(row.end_at - row.start_at), short=False)),
            ],
            [
                ("Nodes", _null(fold(row.nodes))),
                ("NodeCnt", str(len(row.nodes))),
                ("CoreCnt", str(row.cpus)),
                ("Features", "(null)"),
                ("PartitionName", "(null)"),
                ("Flags", ",".join(row.flags) or "SPEC_NODES"),
            ],
            [("TRES", f"cpu={row.cpus}")],
            [
                ("Users", _null(",".join(row.users))),
                ("Groups", "(null)"),
                ("Accounts", _null(",".join(row.accounts))),
                ("Licenses", "(null)"),
                ("State", "ACTIVE" if row.is_active else "INACTIVE"),
                ("BurstBuffer", "(null)"),
                ("Watts", "n/a"),
            ],
            [("MaxStartDelay", "(null)")],
        ],
        one_line=one_line,
    )


def step_text(row: JobRow, step: StepRow, *, one_line: bool = False, form: str = "") -> str:
    limit = format_limit(row.time_limit_s, short=False)
    return joined(
        [
            [
                ("StepId", f"{row.shown_id}.{step.name}"),
                ("UserId", str(row.uid)),
                ("StartTime", format_moment(step.started_at, form)),
                ("TimeLimit", limit),
            ],
            [("State", step.state.long), ("Partition", row.partition), ("NodeList", _null(fold(step.nodes)))],
            [
                ("Nodes", str(len(step.nodes))),
                ("CPUs", str(step.cpus)),
                ("Tasks", str(step.ntasks)),
                ("Name", _null(step.command)),
                ("Network", "(null)"),
            ],
            [("TRES", f"cpu={step.cpus},node={len(step.nodes)}")],
        ],
        one_line=one_line,
    )


def config_lines(values: Mapping[str, str]) -> Iterable[str]:
    """`Key   = value`, by name."""
    return (f"{key:<23} = {values[key] or '(null)'}" for key in sorted(values, key=str.lower))
