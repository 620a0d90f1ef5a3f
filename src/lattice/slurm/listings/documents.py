"""The listings as JSON (or YAML): the records of Slurm's REST interface 0.0.38, with the fields that Lattice knows."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from lattice.slurm.listings.machine import NodeRow
from lattice.slurm.listings.rows import JobRow, StepRow
from lattice.slurm.version import VERSION

Document = dict[str, Any]
_META = {
    "plugin": {"type": "openapi/v0.0.38", "name": "Slurm OpenAPI v0.0.38"},
    "Slurm": {"version": {"major": 22, "micro": 8, "minor": 5}, "release": VERSION},
}


def written(name: str, records: Iterable[Document], form: str) -> Iterator[str]:
    """The text of a document with these records, in pieces of one record each. JSON is YAML, too."""
    start = "---\n" if form == "yaml" else ""
    head, _, tail = _text({"meta": _META, "errors": [], name: [None]}).rpartition("null")
    before, end = start + head, start + _text({"meta": _META, "errors": [], name: []})
    for record in records:
        yield before + _text(record).replace("\n", "\n    ")
        before, end = ",\n    ", tail
    yield f"{end}\n"


def _text(value: Document) -> str:
    return json.dumps(value, indent=2)


def _whole(moment: float | None) -> int:
    return 0 if moment is None else int(moment)


def job_records(rows: Iterable[JobRow], now: float, cluster: str) -> Iterator[Document]:
    """`squeue --json`."""
    return (_job(row, now, cluster) for row in rows)


def _job(row: JobRow, now: float, cluster: str) -> Document:
    limit_end = row.started_at + row.time_limit_s if row.started_at and row.time_limit_s else None
    return {
        "account": row.account,
        "array_job_id": row.array_number,
        "array_task_id": row.array_index,
        "array_max_tasks": row.array_limit,
        "array_task_string": row.waiting,
        "batch_flag": row.is_batch,
        "batch_host": row.nodes[0] if row.nodes else "",
        "cluster": cluster,
        "command": row.command,
        "comment": row.comment,
        "cpus": row.cpus,
        "cpus_per_task": row.cpus_per_task,
        "current_working_directory": row.work_dir,
        "deadline": _whole(row.deadline_at),
        "dependency": row.dependency,
        "derived_exit_code": max((step.exit_code for step in row.steps), default=0),
        "eligible_time": _whole(row.eligible_at),
        "end_time": _whole(row.ended_at if row.ended_at is not None else limit_end),
        "excluded_nodes": row.excluded_nodes,
        "exit_code": row.exit_code << 8 | row.signal,
        "features": row.features,
        "group_id": row.gid,
        "group_name": row.group,
        "job_id": row.number,
        "job_state": row.state.long,
        "max_nodes": row.max_nodes,
        "memory_per_cpu": row.memory_per_cpu_mb or None,
        "memory_per_node": row.memory_mb or None,
        "minimum_cpus_per_node": row.cpus_per_task,
        "name": row.name,
        "nice": 0,
        "node_count": len(row.nodes) or row.min_nodes,
        "nodes": row.node_list,
        "partition": row.partition,
        "priority": row.priority,
        "qos": row.qos,
        "requeue": row.may_requeue,
        "required_nodes": row.wanted_nodes,
        "restart_cnt": row.restarts,
        "resv_name": row.reservation,
        "standard_error": row.stderr,
        "standard_input": row.stdin,
        "standard_output": row.stdout,
        "start_time": _whole(row.started_at),
        "state_description": "",
        "state_reason": row.reason,
        "submit_time": _whole(row.submitted_at),
        "tasks": row.ntasks,
        "tasks_per_node": row.tasks_per_node,
        "time_limit": -(-row.time_limit_s // 60) if row.time_limit_s else None,
        "tres_per_node": f"gres:{row.gres}" if row.gres else "",
        "tres_req_str": f"cpu={row.cpus},node={row.min_nodes},billing={row.cpus}",
        "user_id": row.uid,
        "user_name": row.user,
        "wckey": row.wckey,
    }


def accounting_records(rows: Iterable[JobRow], now: float, cluster: str) -> Iterator[Document]:
    """`sacct --json`."""
    return (_accounted(row, now, cluster) for row in rows)


def _exit(code: int, signal: int) -> Document:
    if signal:
        return {"status": "SIGNALED", "return_code": 0, "signal": {"signal_id": signal, "name": ""}}
    return {"status": "SUCCESS" if not code else "ERROR", "return_code": code}


def _time(of: JobRow | StepRow, now: float) -> Document:
    ran = 0 if of.started_at is None or of.state.is_waiting else int((of.ended_at or now) - of.started_at)
    seconds = int(of.cpu_s)
    total = {"seconds": seconds, "microseconds": int((of.cpu_s - seconds) * 1_000_000)}
    return {
        "elapsed": max(0, ran),
        "start": 0 if of.state.is_waiting else _whole(of.started_at),
        "end": _whole(of.ended_at),
        "total": total,
    }


def _accounted(row: JobRow, now: float, cluster: str) -> Document:
    times = _time(row, now) | {
        "eligible": _whole(row.eligible_at),
        "submission": _whole(row.submitted_at),
        "limit": -(-row.time_limit_s // 60) if row.time_limit_s else None,
    }
    return {
        "account": row.account,
        "comment": {"administrator": None, "job": row.comment or None, "system": row.system_comment or None},
        "allocation_nodes": 0 if row.state.is_waiting else len(row.nodes),
        "array": {
            "job_id": row.array_number,
            "limits": {"max": {"running": {"tasks": row.array_limit}}},
            "task": row.waiting or None,
            "task_id": row.array_index,
        },
        "time": times,
        "cluster": cluster,
        "derived_exit_code": _exit(max((step.exit_code for step in row.steps), default=0), 0),
        "exit_code": _exit(row.exit_code, row.signal),
        "group": row.group,
        "job_id": row.number,
        "name": row.name,
        "nodes": row.node_list or "None assigned",
        "partition": row.partition,
        "priority": row.priority,
        "qos": row.qos,
        "required": {"CPUs": row.cpus, "memory": row.memory_mb or row.memory_per_cpu_mb},
        "kill_request_user": None,
        "reservation": {"id": 0, "name": row.reservation or None},
        "state": {"current": row.state.long, "reason": row.reason},
        "steps": [_step(row, step, now) for step in row.steps],
        "user": row.user,
        "wckey": {"wckey": row.wckey, "flags": []},
        "working_directory": row.work_dir,
    }


def _step(row: JobRow, step: StepRow, now: float) -> Document:
    return {
        "time": _time(step, now),
        "exit_code": _exit(step.exit_code, step.signal),
        "nodes": {"count": len(step.nodes), "list": list(step.nodes)},
        "tasks": {"count": step.ntasks},
        "state": step.state.long,
        "step": {"job_id": row.number, "id": step.name, "name": step.command},
    }


def node_records(nodes: Iterable[NodeRow]) -> Iterator[Document]:
    """`sinfo --json`."""
    return (_node(node) for node in nodes)


def _node(node: NodeRow) -> Document:
    return {
        "name": node.name,
        "hostname": node.name,
        "address": node.address or node.name,
        "architecture": "x86_64",
        "state": node.base.lower(),
        "state_flags": node.state.split("+")[1:],
        "cpus": node.cpus,
        "alloc_cpus": node.cpus_held,
        "idle_cpus": node.cpus - node.cpus_held,
        "cpu_load": 0 if node.load is None else int(node.load * 100),
        "real_memory": node.memory_mb,
        "alloc_memory": node.memory_held_mb,
        "free_memory": node.memory_free_mb,
        "features": node.features,
        "active_features": node.features,
        "gres": node.gres,
        "gres_used": f"gpu:{node.gpus_held}" if node.gpus else "",
        "partitions": list(node.partitions),
        "reason": node.reason,
        "reason_set_by_user": node.reason_by or None,
        "reason_changed_at": _whole(node.reason_at) if node.reason else 0,
        "slurmd_start_time": _whole(node.started_at),
        "slurmd_version": node.version,
        "sockets": 1,
        "cores": node.cpus,
        "threads": 1,
        "weight": 1,
    }
