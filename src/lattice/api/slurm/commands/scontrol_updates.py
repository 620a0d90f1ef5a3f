"""`scontrol update`: jobs (time limit, name, hold, throttle of an array; of pending ones what they ask for) and nodes."""

from lattice.api.auth.rbac import Permission, Reach
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import Found, find
from lattice.api.nodes.orders import MAX_REASON, Instruction, NodeOrder, order_each
from lattice.api.slurm.answering import complained
from lattice.api.slurm.submit.revision import FIELDS, read_revision
from lattice.api.submit.filter import screen_update
from lattice.core.machine.commands import (
    AnyCommand,
    HoldAllocation,
    ReleaseAllocation,
    UpdateAllocation,
)
from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.work.allocations import Hold
from lattice.slurm.faults import Fault
from lattice.slurm.listings.listing import ListingLine
from lattice.slurm.text.hostlists import BadHostlist, expand
from lattice.slurm.text.times import UNLIMITED, parse_limit
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import check_line, check_name

NO_LIMIT_S = 365 * 86400
STATES = "NoResp DRAIN FAIL FUTURE RESUME POWER_DOWN POWER_UP UNDRAIN"
_JOB = ("jobid", "job")
_NODE = ("nodename", "node", "nodes")
_OTHERS = {
    "partitionname": "partitions",
    "reservationname": "reservations",
    "stepid": "steps",
    "frontendname": "front ends",
}


async def update(context: Context, command: SlurmCommand, line: ListingLine) -> SlurmAnswer:
    """Raises Fault for what cannot be changed this way."""
    fields = _fields(line.words)
    if not fields:
        return complained("too few arguments for update keyword")
    names = dict(fields)
    job = next((names[name] for name in _JOB if name in names), "")
    if job:
        rest = [(name, text) for name, text in fields if name not in _JOB]
        return await _update_jobs(context, command, job, rest)
    node = next((names[name] for name in _NODE if name in names), "")
    if node:
        return await _update_nodes(context, command, node, names)
    for name, what in _OTHERS.items():
        if name in names:
            raise Fault(f"scontrol: error: {what} are changed with `lattice admin`, not with scontrol")
    raise Fault("No valid entity in update command", 'Input line must include "NodeName", "JobID" or "PartitionName"')


def _fields(words: list[str]) -> list[tuple[str, str]]:
    """`job 17 timelimit=5` and `JobId=17 TimeLimit=5` alike; names in small letters, signs before = belong to the value."""
    fields = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, given, text = word.partition("=")
        if not given and rest and name.lower() in (*_JOB, *_NODE):
            text = rest.pop(0)
        sign = name[-1:] if name[-1:] in "+-" else ""
        fields.append((name.rstrip("+-").lower(), sign + text))
    return fields


# Jobs.


async def _update_jobs(
    context: Context, command: SlurmCommand, jobs: str, fields: list[tuple[str, str]]
) -> SlurmAnswer:
    if not fields:
        return complained("No changes specified")
    said: list[str] = []
    is_wrong = False
    for name in jobs.split(","):
        try:
            found = await find(context, f"a{name}" if "_" in name else name, Permission.CHANGE)
            for place, change in enumerate(await _changes(context, found, fields, said)):
                screened = change
                if isinstance(change, UpdateAllocation):
                    screened, warned = await screen_update(context, found.head, change)
                    said += [f"scontrol: warning: {text}" for text in warned]
                await context.carry_out(screened, command.request_id, part=f"{name}.{place}")
        except BadField as problem:
            said.append(f"scontrol: error: {problem}")
            is_wrong = True
        except ApiError as problem:
            said.append(f"{_why(problem)} for job {name}")
            is_wrong = True
    return complained(*said, code=int(is_wrong))


def _why(problem: ApiError) -> str:
    if problem.status >= 500:
        raise problem
    words = {"not_found": "Invalid job id specified", "invalid": "Invalid job id specified"}
    if problem.code == "forbidden":
        return "Access/permission denied"
    return words.get(problem.code, problem.view.message)


async def _changes(context: Context, found: Found, fields: list[tuple[str, str]], said: list[str]) -> list[AnyCommand]:
    """Raises Fault for what cannot be changed."""
    number = found.number
    changes: dict[str, object] = {}
    others: list[AnyCommand] = []
    waiting: dict[str, str] = {}
    for name, text in fields:
        match name:
            case "timelimit":
                changes["walltime_s"] = _limit_s(text, found)
            case "jobname" | "name":
                changes["name"] = check_name(text, "name")
            case "arraytaskthrottle":
                changes["concurrency"] = _count(text, "ArrayTaskThrottle")
            case "priority" if text == "0":
                held_by = Hold.USER if found.head.user == context.user else Hold.OPERATOR
                others.append(HoldAllocation(number=number, hold=held_by))
            case "priority" if text.isdigit():
                as_operator = context.reach_in(Permission.CHANGE, found.head.tenant) > Reach.OWN
                others.append(ReleaseAllocation(number=number, as_operator=as_operator))
            case _ if name in FIELDS:
                waiting[name] = text
            case _:
                raise Fault(
                    f"Update of this parameter is not supported: {name}={text}",
                    "Request aborted",
                    "scontrol: error: what can be changed: TimeLimit, JobName, ArrayTaskThrottle, Priority (0 = held)",
                    f"scontrol: error: and of pending jobs: {', '.join(dict.fromkeys(FIELDS.values()))}",
                )
    revision = await read_revision(context, found.head, waiting, said)
    if revision is not None:
        changes["revision"] = revision
    if changes:
        others.insert(0, UpdateAllocation(number=number, **changes))  # type: ignore[arg-type]  # made of its own fields
    return others


def _limit_s(text: str, found: Found) -> int:
    sign = text[:1] if text[:1] in "+-" else ""
    seconds = parse_limit(text[len(sign) :])
    if seconds is None:
        raise Fault("scontrol: error: Invalid TimeLimit value")
    if seconds == UNLIMITED:
        return NO_LIMIT_S
    present = found.head.walltime_s
    return {"": seconds, "+": present + seconds, "-": max(60, present - seconds)}[sign]


def _count(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 8):
        raise Fault(f"scontrol: error: Invalid {name} value")
    return int(text)


# Nodes.


async def _update_nodes(context: Context, command: SlurmCommand, text: str, fields: dict[str, str]) -> SlurmAnswer:
    if context.reach(Permission.CONTROL_NODES) is not Reach.ALL:
        return complained("slurm_update error: Invalid user id")
    word = fields.get("state", "").upper()
    reason = check_line(fields.get("reason", ""), "reason", MAX_REASON)
    unknown = next((name for name in fields if name not in (*_NODE, "state", "reason")), None)
    if unknown is not None:
        raise Fault(f"Update of this parameter is not supported: {unknown}={fields[unknown]}", "Request aborted")
    if not word:
        return complained("No changes specified")
    if word in ("DRAIN", "DOWN", "FAIL") and not reason:
        return complained("You must specify a reason when DOWNING or DRAINING a node. Request denied")
    if word not in ("DRAIN", "DOWN", "FAIL", "RESUME", "UNDRAIN", "IDLE"):
        return complained(
            f"Invalid input: state={fields['state']}",
            "Request aborted",
            f"Valid states are: {STATES}",
            "Not all states are valid given a node's prior state",
        )
    try:
        nodes = expand(text)
    except BadHostlist:
        return complained("slurm_update error: Invalid node name specified")
    return await _order_nodes(context, command, nodes, word, reason)


async def _order_nodes(
    context: Context, command: SlurmCommand, nodes: list[str], word: str, reason: str
) -> SlurmAnswer:
    for node in nodes:
        if node not in context.state.nodes:
            return complained("slurm_update error: Invalid node name specified")

    def instruction_for(node: str) -> Instruction:
        return Instruction(order=_node_order(context, node, word), reason=reason)

    answers = await order_each(context, tuple(dict.fromkeys(nodes)), instruction_for, command.request_id)
    refusals = [answer.error for answer in answers if answer.error is not None]
    if refusals:
        said = [f"scontrol: error: {error.message}" for error in refusals[:20]]
        return complained("slurm_update error: Invalid node state specified", *said)
    return SlurmAnswer()


def _node_order(context: Context, node: str, word: str) -> NodeOrder:
    if word == "DRAIN":
        return NodeOrder.DRAIN
    if word in ("DOWN", "FAIL"):
        return NodeOrder.DISABLE
    is_down = context.state.nodes[node].state in (NodeState.DOWN, NodeState.FAILED)
    return NodeOrder.ENABLE if is_down else NodeOrder.UNDRAIN
