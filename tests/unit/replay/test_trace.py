"""What the readers make of lines, good and bad, plain and packed."""

import gzip
import json
import lzma
from pathlib import Path

import pytest

from lattice.replay.traces.entries import Entry, Trace, TraceError
from lattice.replay.traces.reader import listed_procs, read_trace
from lattice.replay.traces.workload import keep_r1
from lattice.wire.files.traces import (
    Completed,
    NodeListed,
    Started,
    Submitted,
    TracedAllocation,
    TracedNode,
    TraceLine,
    encode_trace_line,
)

SWF = """; Version: 2.2
; MaxNodes: 50
; MaxProcs: 100

 1  0  10  3477  4 -1 -1  8 53940 -1 1 12 3 7 -1 -1 -1 -1
 2  5  -1  20.6  4 -1 -1 -1    -1 -1 1 -1 -1 -1 -1 -1 -1 -1
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_swf_has_its_fields_where_the_format_says(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "old.swf", SWF))
    assert (trace.name, trace.procs_total, trace.nodes_total) == ("old", 100, 50)
    first, second = trace.entries
    assert first == Entry(
        id="1", submit=0, start=10, run=3477, procs=8, estimate=53940, user="12", project="3", name="7"
    )
    assert (second.procs, second.run, second.estimate, second.start, second.user) == (4, 21, -1, -1, "")


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_packed_traces_are_the_same(tmp_path: Path, suffix: str, pack: object) -> None:
    assert callable(pack)
    packed = tmp_path / f"old.swf{suffix}"
    packed.write_bytes(pack(SWF.encode()))
    misnamed = tmp_path / "anything"
    misnamed.write_bytes(pack(SWF.encode()))
    plain = read_trace(write(tmp_path / "old.swf", SWF))
    assert read_trace(packed) == plain
    assert read_trace(misnamed).entries == plain.entries


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_packed_trace_that_was_cut_off_is_no_trace(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    path = tmp_path / "cut.swf"
    path.write_bytes(pack(SWF.encode() * 5000)[:-20])
    with pytest.raises(TraceError, match=r"cut\.swf: damaged after line \d+"):
        read_trace(path)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("1 2 3", "a line has 18 numbers, this one has 3"),
        (" ".join(["1"] * 19), "this one has 19"),
        ("1 2 3 abc" + " 1" * 14, 'field 4 is no number: "abc"'),
        ("1 2 3 nan" + " 1" * 14, 'field 4 is no number: "nan"'),
    ],
)
def test_a_bad_line_is_named_and_can_be_skipped(tmp_path: Path, line: str, complaint: str) -> None:
    path = write(tmp_path / "bad.swf", SWF + line + "\n")
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert str(caught.value).startswith(f"{path}:7: ")
    assert complaint in str(caught.value)
    trace = read_trace(path, skip_bad=True)
    assert (len(trace.entries), trace.skipped) == (2, 1)


def test_a_trace_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"none\.swf: No such file"):
        read_trace(tmp_path / "none.swf")
    with pytest.raises(TraceError, match="Is a directory"):
        read_trace(tmp_path)


SACCT = """JobID|User|Account|JobName|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqCPUS|NNodes|State
101|ann|physics|sim|2026-03-01T00:00:00|2026-03-01T00:01:00|2026-03-01T01:01:00|3600|120|64|2|COMPLETED
101.batch||physics|batch|2026-03-01T00:01:00|2026-03-01T00:01:00|2026-03-01T01:01:00|3600||64|2|COMPLETED
102|bob|physics|x|2026-03-01T00:00:09|Unknown|Unknown|0|60|1|1|PENDING
103_7|bob|bio|y|2026-03-01T00:00:10|2026-03-01T00:00:11|Unknown|50||0|3|RUNNING
104|bob|bio|y|2026-03-01T00:00:10|None|2026-03-01T00:00:30|0|60|1|1|CANCELLED by 7
"""


def test_sacct_lines_become_entries_and_steps_do_not(tmp_path: Path) -> None:
    entries = read_trace(write(tmp_path / "listing.txt", SACCT)).entries
    assert [entry.id for entry in entries] == ["101", "102", "103_7", "104"]
    done = entries[0]
    assert (done.run, done.estimate, done.procs, done.nodes) == (3600, 7200, 64, 2)
    assert (done.user, done.tenant, done.name, done.start - done.submit) == ("ann", "physics", "sim", 60)
    assert [entry.run for entry in entries[1:]] == [-1, -1, -1]
    assert (entries[2].procs, entries[2].estimate) == (3, -1)


def test_sacct_durations_are_read_when_raw_ones_are_missing(tmp_path: Path) -> None:
    text = "JobID|Submit|Elapsed|Timelimit|AllocCPUS\n1|2026-03-01T00:00:00|1-02:03:04|UNLIMITED|5\n"
    text += "2|2026-03-01T00:00:00|02:03|01:00:00|5\n"
    first, second = read_trace(write(tmp_path / "a.sacct", text)).entries
    assert (first.run, first.estimate) == (93784, -1)
    assert (second.run, second.estimate) == (123, 3600)
    text = "JobID|Submit|Start|End|AllocNodes\n"
    text += "3|2026-03-01T00:00:00|2026-03-01T00:00:10|2026-03-01T00:00:40|5\n"
    (third,) = read_trace(write(tmp_path / "b.sacct", text)).entries
    assert (third.run, third.procs) == (30, 5)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1|2|3\n", "1: the header lacks JobID, Submit"),
        ("JobID|Submit|Elapsed\n", "1: the header has no size"),
        ("JobID|Submit|NCPUS\n", "1: the header has no length"),
        ("JobID|Submit|NCPUS|ElapsedRaw\n1|2026-03-01T00:00:00|2\n", "2: the header names 4 fields, this line has 3"),
        ("JobID|Submit|NCPUS|ElapsedRaw\n1|soon|2|3\n", '2: Submit is no time: "soon"'),
        ("JobID|Submit|NCPUS|ElapsedRaw\n1|Unknown|2|3\n", '2: Submit is no time: "Unknown"'),
        ("JobID|Submit|NCPUS|ElapsedRaw\n1|2026-03-01|x|3\n", '2: NCPUS is no whole number: "x"'),
        ("JobID|Submit|NCPUS|Elapsed\n1|2026-03-01|2|long\n", '2: Elapsed is no duration: "long"'),
    ],
)
def test_sacct_complaints_say_what_is_missing(tmp_path: Path, text: str, complaint: str) -> None:
    path = write(tmp_path / "listing.sacct", text)
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert f"listing.sacct:{complaint}" in str(caught.value)


def recording(*, cpus: int = 0) -> str:
    lines: list[TraceLine] = [
        NodeListed(ts=0.0, node=TracedNode(id="n1", cpus=64)),
        NodeListed(ts=0.0, node=TracedNode(id="n2", cpus=64)),
        Submitted(
            ts="2026-03-01T00:00:01Z",
            alloc=TracedAllocation(id="a", nodes=2, walltime="72h", user="ann", tenant="physics", priority=4),
        ),
        Submitted(ts=1772323205.5, alloc=TracedAllocation(id="b", cpus=cpus, walltime=30.0)),
        Submitted(ts=1772323206.0, alloc=TracedAllocation(id="c")),
        Started(ts="2026-03-01T00:00:05Z", alloc_id="a", nodes=("n1", "n2")),
        Started(ts="2026-03-01T00:00:07Z", alloc_id="b"),
        Completed(ts="2026-03-01T00:00:17Z", alloc_id="b", exit=0),
        Completed(ts="2026-03-03T20:00:00Z", alloc_id="a", duration="68h", exit=0),
        Completed(ts=5.0, alloc_id="from before", duration=1.0),
    ]
    return "".join(map(encode_trace_line, lines))


def test_a_recording_is_joined_by_allocation(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "week.jsonl", recording()))
    assert (trace.nodes_total, trace.procs_total) == (2, 2)
    first, second, third = trace.entries
    assert (first.submit, first.run, first.procs, first.estimate) == (1772323201, 68 * 3600, 2, 72 * 3600)
    assert (first.user, first.tenant, first.preemption_class, first.start - first.submit) == ("ann", "physics", 4, 4)
    assert (second.submit, second.run, second.estimate) == (1772323205, 10, 30)
    assert (third.run, third.estimate) == (-1, -1)


def test_a_recording_counts_cpus_when_somebody_asked_for_them(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "recorded", recording(cpus=8)))
    assert trace.procs_total == 128
    assert [entry.procs for entry in trace.entries] == [128, 8, 64]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not JSON"),
        ('{"ts": 1, "type": "submit"}', "type submit: Object missing required field `alloc`"),
        ('{"ts": 1, "type": "rain"}', "Invalid value 'rain'"),
        ('{"ts": "noon", "type": "start", "alloc_id": "a"}', 'cannot read "noon" as a time'),
        ('{"ts": 1, "type": "submit", "alloc": {"id": "z", "walltime": "soon"}}', 'cannot read "soon"'),
        ('{"ts": 1, "type": "complete", "alloc_id": "a", "duration": -1}', "a duration of -1.0 s is not possible"),
    ],
)
def test_a_bad_line_of_a_recording_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    path = write(tmp_path / "week.jsonl", recording() + line + "\n")
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert str(caught.value).startswith(f"{path}:11: ")
    assert complaint in str(caught.value)
    assert read_trace(path, skip_bad=True).skipped == 1


def test_the_same_allocation_is_submitted_once(tmp_path: Path) -> None:
    line = encode_trace_line(Submitted(ts=1.0, alloc=TracedAllocation(id="a")))
    with pytest.raises(TraceError, match=r':2: allocation "a" was submitted before'):
        read_trace(write(tmp_path / "twice.jsonl", line + line))


def test_the_manifest_beside_a_trace_knows_its_machine(tmp_path: Path) -> None:
    path = tmp_path / "old.swf"
    assert listed_procs(path) == 0
    (tmp_path / "manifest.json").write_text(
        json.dumps([{"file": "other.swf", "procs": 3}, {"file": "old.swf", "procs": 7}])
    )
    assert listed_procs(path) == 7
    (tmp_path / "manifest.json").write_text("[")
    with pytest.raises(TraceError, match=r"manifest\.json"):
        listed_procs(path)


def test_kept_is_what_ran_and_fits(tmp_path: Path) -> None:
    entries = [
        Entry(id="late", submit=9, run=5, procs=4, estimate=2),
        Entry(id="never ran", submit=1, run=-1, procs=1),
        Entry(id="no size", submit=1, run=1, procs=0),
        Entry(id="too large", submit=1, run=1, procs=5),
        Entry(id="first", submit=1, run=0, procs=1),
        Entry(id="second", submit=1, run=3, procs=1, estimate=8),
    ]
    work = keep_r1(Trace(name="t", entries=entries), 4)
    assert [entry.id for entry in work.entries] == ["first", "second", "late"]
    assert (work.estimates, work.dropped) == ([0, 8, 5], 3)
    with pytest.raises(TraceError, match="none of its 6 entries"):
        keep_r1(Trace(name="t", entries=[entries[3]] * 6), 4)


def test_work_joins_the_queue_when_its_data_is_there(tmp_path: Path) -> None:
    lines: list[TraceLine] = [
        Submitted(ts=100.0, alloc=TracedAllocation(id="a1", procs=1, walltime=60.0)),
        Submitted(ts=110.0, alloc=TracedAllocation(id="a2", procs=1, walltime=60.0)),
        Started(ts=700.0, alloc_id="a1", staging=600.0),
        Started(ts=111.0, alloc_id="a2"),
        Completed(ts=760.0, alloc_id="a1", duration=60.0),
        Completed(ts=171.0, alloc_id="a2", duration=60.0),
    ]
    trace = read_trace(write(tmp_path / "staged", "".join(map(encode_trace_line, lines))))
    assert [(entry.id, entry.submit, entry.staging) for entry in trace.entries] == [("a1", 100, 600), ("a2", 110, 0)]
    work = keep_r1(trace, 4)
    assert [entry.id for entry in work.entries] == ["a2", "a1"]
    assert work.submits == [110, 700]
