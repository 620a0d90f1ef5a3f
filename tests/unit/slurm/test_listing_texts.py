"""The texts of sacct, sinfo and scontrol, against what Slurm 22.05 prints for the same jobs and nodes."""

import re
import time
from collections.abc import Callable

import pytest

from lattice.slurm.faults import Fault
from lattice.slurm.listings import sacct, scontrol, sinfo
from lattice.slurm.listings.accounting import read_question
from lattice.slurm.listings.listing import items_outside_brackets
from lattice.slurm.listings.machine import NodeRow, PartitionRow, ReservationRow, is_state_word
from lattice.slurm.listings.rows import JobRow, StepRow
from lattice.slurm.listings.sacct_line import read_query as read_sacct
from lattice.slurm.listings.sinfo_line import read_query as read_sinfo
from lattice.slurm.listings.squeue_line import read_query as read_squeue
from lattice.slurm.listings.tables import Style, table_lines
from lattice.slurm.text.formats import line_writer, parse_percent, parse_sized
from lattice.slurm.text.reasons import waiting_word
from lattice.slurm.text.states import State

NOON = time.mktime((2026, 3, 10, 12, 0, 0, 0, 0, -1))
BATCH = StepRow(
    name="batch",
    command="batch",
    state=State.FAILED,
    nodes=("n1",),
    cpus=2,
    started_at=NOON,
    ended_at=NOON + 65,
    exit_code=3,
    cpu_s=1.5,
    peak_memory_mb=7,
)
STEP = StepRow(
    name="0",
    command="hostname",
    state=State.COMPLETED,
    nodes=("n1", "n2"),
    ntasks=4,
    started_at=NOON,
    ended_at=NOON + 5,
)
JOB = JobRow(
    number=20,
    name="wrap",
    user="root",
    group="root",
    partition="main",
    account="physics",
    qos="normal",
    state=State.FAILED,
    reason="NonZeroExitCode",
    nodes=("n1", "n2"),
    cpus=4,
    cpus_per_task=2,
    memory_mb=100,
    submitted_at=NOON - 10,
    eligible_at=NOON - 10,
    started_at=NOON,
    ended_at=NOON + 65,
    exit_code=3,
    time_limit_s=300,
    comment="hello there",
    work_dir="/home/ada",
    stdout="/home/ada/slurm-20.out",
    stderr="/home/ada/slurm-20.out",
    steps=(BATCH, STEP),
)
WAITING = JobRow(
    number=18,
    name="wrap",
    user="root",
    partition="main",
    state=State.PENDING,
    array_number=18,
    waiting="1-3",
    array_limit=1,
)


def told(job: JobRow, fields: str, *, bars: str = "parsable2") -> list[str]:
    writer = sacct.Writer(NOON + 100, "main")
    values = [writer.value_of(each) for each in sacct.lines(job, with_steps=True)]
    style = Style(bars=bars, has_header=False)
    return list(table_lines(parse_sized(fields, sacct.COLUMNS), sacct.COLUMNS, values, style))


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        (
            "JobID,JobName,State,ExitCode",
            ["20|wrap|FAILED|3:0", "20.batch|batch|FAILED|3:0", "20.0|hostname|COMPLETED|0:0"],
        ),
        ("Partition,Account,User", ["main|physics|root", "|physics|", "|physics|"]),
        ("AllocCPUS,NNodes,NTasks", ["4|2|", "2|1|1", "4|2|4"]),
        (
            "Elapsed,CPUTime,TotalCPU",
            ["00:01:05|00:04:20|00:00.000", "00:01:05|00:02:10|00:01.500", "00:00:05|00:00:20|00:00.000"],
        ),
        ("MaxRSS,ReqMem", ["|100M", "7168K|", "|"]),
        ("Start,End", ["2026-03-10T12:00:00|2026-03-10T12:01:05"] * 2 + ["2026-03-10T12:00:00|2026-03-10T12:00:05"]),
        ("DerivedExitCode,Reason,Timelimit", ["3:0|NonZeroExitCode|00:05:00", "||", "||"]),
        ("Planned,NodeList", ["00:00:10|n[1-2]", "|n1", "|n[1-2]"]),
        ("MaxVMSize,AveDiskRead", ["|", "|0.00M", "|0.00M"]),
    ],
)
def test_sacct_tells_of_the_job_and_of_its_steps(fields: str, lines: list[str]) -> None:
    assert told(JOB, fields) == lines


def test_sacct_of_an_array_that_waits() -> None:
    assert told(WAITING, "JobID,JobIDRaw,State,Start,NodeList,AllocCPUS,Elapsed") == [
        "18_[1-3%1]|18|PENDING|Unknown|None assigned|0|00:00:00"
    ]
    cancelled = JobRow(number=5, name="x", user="u", partition="p", state=State.CANCELLED, cancelled_by=1000)
    assert told(cancelled, "State%20", bars="") == ["   CANCELLED by 1000 "]
    assert told(cancelled, "State", bars="") == ["CANCELLED+ "]
    assert told(cancelled, "State", bars="parsable") == ["CANCELLED by 1000|"]


def test_every_field_of_sacct_can_be_asked_for() -> None:
    names = ",".join(column.key for column in sacct.COLUMNS.values())
    assert {line.count("|") for line in told(JOB, names)} == {len(sacct.COLUMNS) - 1}
    for usual in (sacct.DEFAULT, sacct.LONG, sacct.BRIEF):
        assert parse_sized(usual, sacct.COLUMNS)


def pairs(text: str) -> list[str]:
    return [found[1] for found in re.finditer(r"(?:^|\s)([A-Za-z_:/]+)=", text)]


# What Slurm's own `scontrol show job` has, in its order.
_KEYS_OF_A_JOB = [
    "JobId",
    "JobName",
    "UserId",
    "GroupId",
    "MCS_label",
    "Priority",
    "Nice",
    "Account",
    "QOS",
    "JobState",
    "Reason",
    "Dependency",
    "Requeue",
    "Restarts",
    "BatchFlag",
    "Reboot",
    "ExitCode",
    "RunTime",
    "TimeLimit",
    "TimeMin",
    "SubmitTime",
    "EligibleTime",
    "AccrueTime",
    "StartTime",
    "EndTime",
    "Deadline",
    "SuspendTime",
    "SecsPreSuspend",
    "LastSchedEval",
    "Scheduler",
    "Partition",
    "AllocNode:Sid",
    "ReqNodeList",
    "ExcNodeList",
    "NodeList",
    "BatchHost",
    "NumNodes",
    "NumCPUs",
    "NumTasks",
    "CPUs/Task",
    "ReqB:S:C:T",
    "TRES",
    "Socks/Node",
    "NtasksPerN:B:S:C",
    "CoreSpec",
    "MinCPUsNode",
    "MinMemoryNode",
    "MinTmpDiskNode",
    "Features",
    "DelayBoot",
    "OverSubscribe",
    "Contiguous",
    "Licenses",
    "Network",
    "Command",
    "WorkDir",
    "Comment",
    "StdErr",
    "StdIn",
    "StdOut",
    "Power",
]
_KEYS_OF_A_NODE = [
    "NodeName",
    "Arch",
    "CoresPerSocket",
    "CPUAlloc",
    "CPUEfctv",
    "CPUTot",
    "CPULoad",
    "AvailableFeatures",
    "ActiveFeatures",
    "Gres",
    "NodeAddr",
    "NodeHostName",
    "Version",
    "OS",
    "RealMemory",
    "AllocMem",
    "FreeMem",
    "Sockets",
    "Boards",
    "State",
    "ThreadsPerCore",
    "TmpDisk",
    "Weight",
    "Owner",
    "MCS_label",
    "Partitions",
    "BootTime",
    "SlurmdStartTime",
    "CfgTRES",
    "AllocTRES",
    "CapWatts",
]
_KEYS_OF_A_PARTITION = [
    "PartitionName",
    "AllowGroups",
    "AllowAccounts",
    "AllowQos",
    "AllocNodes",
    "Default",
    "QoS",
    "DefaultTime",
    "DisableRootJobs",
    "ExclusiveUser",
    "GraceTime",
    "Hidden",
    "MaxNodes",
    "MaxTime",
    "MinNodes",
    "LLN",
    "MaxCPUsPerNode",
    "Nodes",
    "PriorityJobFactor",
    "PriorityTier",
    "RootOnly",
    "ReqResv",
    "OverSubscribe",
    "OverTimeLimit",
    "PreemptMode",
    "State",
    "TotalCPUs",
    "TotalNodes",
    "SelectTypeParameters",
    "JobDefaults",
    "DefMemPerNode",
    "MaxMemPerNode",
    "TRES",
]


def test_scontrol_has_the_keys_of_slurms_own_in_their_order() -> None:
    assert pairs(scontrol.job_text(JOB, NOON)) == _KEYS_OF_A_JOB
    assert pairs(scontrol.node_text(node("n1"))) == _KEYS_OF_A_NODE
    assert pairs(scontrol.partition_text(PartitionRow(name="main", nodes=(node("n1"),)))) == _KEYS_OF_A_PARTITION


def test_scontrol_leaves_no_value_empty_and_no_blank_in_a_line() -> None:
    texts = [
        scontrol.job_text(JOB, NOON, one_line=True),
        scontrol.job_text(WAITING, NOON, one_line=True, in_detail=True),
        scontrol.node_text(node("n1", reason="bad disk", is_drained=True), one_line=True),
        scontrol.partition_text(PartitionRow(name="main"), one_line=True),
        scontrol.step_text(JOB, STEP, one_line=True),
    ]
    for text in texts:
        assert "\n" not in text
        assert all(re.fullmatch(r"[^=]+=.+", word) for word in text.split(" ")), text
    assert "Comment=hello_there" in texts[0]
    assert "ArrayJobId=18 ArrayTaskId=1-3%1 ArrayTaskThrottle=1" in texts[1]


def test_a_job_of_scontrol_looks_as_it_always_did() -> None:
    lines = scontrol.job_text(JOB, NOON + 100).splitlines()
    assert lines[:4] == [
        "JobId=20 JobName=wrap",
        "   UserId=root(0) GroupId=root(0) MCS_label=N/A",
        "   Priority=0 Nice=0 Account=physics QOS=normal",
        "   JobState=FAILED Reason=NonZeroExitCode Dependency=(null)",
    ]
    for line in (
        "   RunTime=00:01:05 TimeLimit=00:05:00 TimeMin=N/A",
        "   StartTime=2026-03-10T12:00:00 EndTime=2026-03-10T12:01:05 Deadline=N/A",
        "   NodeList=n[1-2]",
        "   NumNodes=2 NumCPUs=4 NumTasks=1 CPUs/Task=2 ReqB:S:C:T=0:0:*:*",
        "   TRES=cpu=4,mem=200M,node=2,billing=4",
        "   MinCPUsNode=2 MinMemoryNode=100M MinTmpDiskNode=0",
        "   Comment=hello there",
    ):
        assert line in lines


def node(name: str, **changes: object) -> NodeRow:
    values: dict[str, object] = {"name": name, "base": "IDLE", "cpus": 2, "memory_mb": 2000, "load": 0.5, **changes}
    return NodeRow(**values)  # type: ignore[arg-type]


BUSY = node("n1", base="ALLOCATED", cpus_held=2, features="fast")
MAIN = PartitionRow(name="main", nodes=(BUSY, *(node(f"n{number}") for number in (2, 3, 4))), is_default=True)
DEBUG = PartitionRow(name="debug", nodes=(BUSY, node("n2")), max_time_s=1800)


def info(*words: str) -> list[str]:
    query = read_sinfo(words, {})
    shown = sinfo.Shown(cluster="main", is_exact=query.line.has("exact"), by_node=query.line.has("Node"))
    return list(sinfo.lines([MAIN, DEBUG], query.parts, shown))


def test_sinfo_makes_the_lines_of_slurms_own() -> None:
    assert info() == [
        "main*        up   infinite      1  alloc n1",
        "main*        up   infinite      3   idle n[2-4]",
        "debug        up      30:00      1  alloc n1",
        "debug        up      30:00      1   idle n2",
    ]
    assert info("-s") == [
        "main*        up   infinite          1/3/0/4 n[1-4]",
        "debug        up      30:00          1/1/0/2 n[1-2]",
    ]
    assert info("-l")[0] == "main*        up   infinite 1-infinite   no       NO        all      1   allocated n1"
    assert info("-N")[:3] == [
        "n1             1     main* alloc ",
        "n1             1     debug alloc ",
        "n2             1     main* idle  ",
    ]
    assert info("-o", "%20N|%.5D|%6t") == ["n1                  |    1|alloc ", "n[2-4]              |    3|idle  "]
    assert info("-o", "%P|%l") == ["main*|infinite", "debug|30:00"]
    assert info("-o", "%P %C %f") == [
        "main* 2/0/0/2 fast",
        "main* 0/6/0/6 (null)",
        "debug 2/0/0/2 fast",
        "debug 0/2/0/2 (null)",
    ]
    assert info("-O", "partition:10,cpusstate:.9") == ["main*       2/6/0/8", "debug       2/2/0/4"]


def test_nodes_with_other_figures_share_a_line_unless_it_has_to_be_exact() -> None:
    mixed = PartitionRow(name="main", nodes=(node("n1", cpus=8), node("n2", cpus=16)))
    parts = parse_percent("%N %c", sinfo.LETTERS)
    assert list(sinfo.lines([mixed], parts, sinfo.Shown(cluster=""))) == ["n[1-2] 8+"]
    assert list(sinfo.lines([mixed], parts, sinfo.Shown(cluster="", is_exact=True))) == ["n1 8", "n2 16"]


def test_every_letter_and_name_of_sinfo_has_a_value() -> None:
    parts = parse_percent("|".join(f"%{letter}" for letter in sinfo.LETTERS), sinfo.LETTERS)
    for shown in sinfo.lines([MAIN, PartitionRow(name="empty")], parts, sinfo.Shown(cluster="main")):
        assert all(shown.split("|")[:18]), shown
    for name, column in sinfo.NAMES.items():
        assert sinfo.header_of(column.key), name
        assert info("-O", name)[0].strip()


@pytest.mark.parametrize(
    ("changes", "short", "long", "state"),
    [
        ({}, "idle", "idle", "IDLE"),
        ({"base": "MIXED"}, "mix", "mixed", "MIXED"),
        ({"is_drained": True}, "drain", "drained", "IDLE+DRAIN"),
        ({"base": "ALLOCATED", "is_drained": True}, "drng", "draining", "ALLOCATED+DRAIN"),
        ({"is_silent": True}, "idle*", "idle*", "IDLE+NOT_RESPONDING"),
        ({"base": "DOWN", "is_silent": True}, "down*", "down*", "DOWN+NOT_RESPONDING"),
        ({"base": "DOWN", "is_drained": True}, "down", "down", "DOWN+DRAIN"),
        ({"is_reserved": True}, "resv", "reserved", "IDLE+RESERVED"),
        ({"is_maintained": True}, "maint", "maint", "IDLE+MAINTENANCE"),
        ({"base": "UNKNOWN"}, "unk", "unknown", "UNKNOWN"),
    ],
)
def test_every_state_of_a_node_has_its_words(changes: dict[str, object], short: str, long: str, state: str) -> None:
    row = node("n1", **changes)
    assert (row.state_word(short=True), row.state_word(short=False), row.state) == (short, long, state)
    for word in (short.rstrip("*"), long.rstrip("*")):
        assert row.is_in(word)
        assert is_state_word(word)


def test_reservations_are_written_as_in_slurm() -> None:
    row = ReservationRow(
        name="res1",
        start_at=NOON,
        end_at=NOON + 3600,
        is_active=True,
        nodes=("n3",),
        cpus=2,
        users=("root",),
        flags=("SPEC_NODES",),
    )
    assert scontrol.reservation_text(row).splitlines() == [
        "ReservationName=res1 StartTime=2026-03-10T12:00:00 EndTime=2026-03-10T13:00:00 Duration=01:00:00",
        "   Nodes=n3 NodeCnt=1 CoreCnt=2 Features=(null) PartitionName=(null) Flags=SPEC_NODES",
        "   TRES=cpu=2",
        "   Users=root Groups=(null) Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null) Watts=n/a",
        "   MaxStartDelay=(null)",
    ]


@pytest.mark.parametrize(
    ("sentence", "word"),
    [
        ("", "None"),
        ("waiting behind 3 others", "Priority"),
        ("waiting for the next cycle", "None"),
        ("held by user", "JobHeldUser"),
        ("held by operator", "JobHeldAdmin"),
        ("not before 2026-03-10T12:00:00Z", "BeginTime"),
        ("waiting for tasks of its group: 2 of 2 at a time run", "JobArrayTaskLimit"),
        ("waiting for quota headroom: user ada runs 2 of 2 allocations", "QOSMaxJobsPerUserLimit"),
        ("waiting for quota headroom: tenant t runs 2 of 2 allocations", "AssocGrpJobsLimit"),
        ("waiting for quota headroom: tenant t uses 2 of 2 nodes, 1 requested", "AssocGrpNodeLimit"),
        ("vCluster default is down", "PartitionDown"),
        ("vCluster default has no nodes", "ReqNodeNotAvail"),
        ("vCluster default allows a walltime of at most 1h, 2h requested", "PartitionTimeLimit"),
        ("vCluster default allows at most 4 nodes, 5 requested", "PartitionNodeLimit"),
        ("no nodes registered", "ReqNodeNotAvail"),
        (
            "no nodes matching constraints: 4 of 4 nodes of vCluster default suit the request, 5 requested",
            "PartitionNodeLimit",
        ),
        (
            "no nodes matching constraints: 1 of 4 nodes of vCluster default suit the request, 2 requested",
            "ReqNodeNotAvail",
        ),
        ("all suitable nodes occupied: 0 of 4 nodes free, 4 busy; the 1st is free at 14:20 UTC", "Resources"),
        (
            "all suitable nodes occupied: 0 of 4 nodes free, 1 down, 3 busy; when the 1st will be free is not known",
            "Resources",
        ),
        (
            "all suitable nodes occupied: 0 of 4 nodes free, 4 drained; when the 1st will be free is not known",
            "ReqNodeNotAvail",
        ),
        ('reservation "maintenance" lasts from 10:00 UTC to 12:00 UTC: 0 of 4 nodes free', "Reservation"),
        ("storage bandwidth: 1 of 2 GB/s left", "Resources"),
    ],
)
def test_every_reason_becomes_one_word(sentence: str, word: str) -> None:
    assert waiting_word(sentence) == word


def test_words_and_options_come_in_any_order() -> None:
    query = read_squeue(["-h", "-j", "18,19_[1,3]", "--format=%i", "-tPD"], {})
    assert query.jobs == ("18", "19_[1,3]")
    assert query.states == {State.PENDING}
    assert items_outside_brackets("7, 8_[1,3-5]") == ["7", "8_[1,3-5]"]
    assert read_squeue(["-t", "revoked"], {}).states == frozenset()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["extra"], "squeue: error: Unrecognized option: extra"),
        (["-t", "bogus"], "squeue: error: Invalid job state specified: bogus"),
        (["-i", "abc"], "squeue: error: --iterate=abc"),
        (
            ["--st"],
            "squeue: option '--st' is ambiguous; possibilities: '--start' '--states' '--state' '--steps' '--step'",
        ),
    ],
)
def test_a_line_that_squeue_refuses_ends_with_one(words: list[str], text: str) -> None:
    with pytest.raises(Fault) as refused:
        read_squeue(words, {})
    assert (refused.value.code, sorted(refused.value.lines[0])) == (1, sorted(text))


def test_sacct_looks_back_to_midnight_unless_jobs_are_named() -> None:
    midnight = NOON - 12 * 3600
    assert read_sacct([], {}, NOON).since == midnight
    assert read_sacct(["-j", "7"], {}, NOON).since == 0
    assert read_sacct(["-s", "R"], {}, NOON).since == NOON
    assert read_sacct(["-S", "now-2days"], {}, NOON).since == NOON - 2 * 86400
    assert read_sacct(["-S", "1970-01-01-00:00:01"], {}, NOON).since < 86400
    with pytest.raises(Fault, match="Start time requested is after end time"):
        read_sacct(["-S", "now", "-E", "now-1day"], {}, NOON)
    with pytest.raises(Fault, match="Unknown state specified"):
        read_sacct(["-s", "bogus"], {}, NOON)


def test_sacctmgr_takes_names_conditions_and_formats() -> None:
    question = read_question(["-n", "-s", "list", "user", "ada", "format=account%256,def"])
    assert question.entity == "user"
    assert [(field.key, field.width) for field in question.fields] == [("Account", 256), ("DefaultAccount", 10)]
    assert question.takes("user", "ada")
    assert not question.takes("user", "bob")
    assert read_question(["show", "assoc", "where", "account=a,b"]).conditions == {"account": frozenset({"a", "b"})}
    assert read_question(["add", "user", "x"]).entity == ""
    for words in (["show"], ["show", "bogus"], ["show", "qos", "format=bogus"]):
        with pytest.raises(Fault):
            read_question(words)


def test_many_rows_are_written_as_single_ones() -> None:
    parts = parse_percent("<%.5i> %3j|", {"i": "", "j": ""})

    def shown(key: str) -> Callable[[int], str]:
        return lambda row: f"{key}{row}"

    write = line_writer(parts, shown)
    assert write(12) == "<  i12> j12|"
