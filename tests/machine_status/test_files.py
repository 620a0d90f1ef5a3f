"""The three files as they are written, and everything that can be wrong with them: file, line, reason."""

import pytest

from lattice.config.machine_status.reading import GivenFile, read_files
from lattice.core.model.nodes.specifications import Specification
from tests.machine_status.sample_files import (
    NODE_SPEC_CONF,
    PARTITION_PLACE,
    SLURM_CONF,
    SPEC_PLACE,
    asked,
    errors,
    read_all,
    read_conf,
    read_spec,
)

PLAIN = Specification(
    os="Linux.2.4.7-10",
    cpus=2,
    speed=1.0,
    memory_mb=2048,
    virtual_memory_mb=4096,
    tmp_disk_mb=16384,
    partitions=(1,),
)


def test_the_sample_node_spec_conf_is_read_as_written() -> None:
    found = asked(read_spec(NODE_SPEC_CONF))
    assert list(found.nodes) == ["lx01", "lx02", "lx03", "lx04", "lx05", "lx06"]
    assert found.nodes["lx01"] == found.nodes["lx06"] == PLAIN
    third, fourth = found.nodes["lx03"], found.nodes["lx04"]
    assert (third.speed, third.memory_mb, third.partitions, third.cpus) == (1.5, 3072, (1, 2), 2)
    assert (fourth.cpus, fourth.speed, fourth.partitions, fourth.memory_mb) == (1, 1.3, (1, 3), 2048)


def test_the_sample_slurm_conf_names_its_files_and_decides_settings() -> None:
    first = read_files([GivenFile(path="conf", text=SLURM_CONF)])
    assert first.needs == ("/usr/local/SLURM/NodeSpecConf", "/usr/local/SLURM/PartitionConf")
    assert asked(read_all()).settings == {
        "node.heartbeat_interval_s": "300",
        "node.heartbeat_timeout_s": "540",
        "node.grace_s": "60",  # together: Down after 600 s
        "node.collectors": "lx[01-02]",
        "node.debug": "init,msg",
    }


def test_a_slurm_conf_without_anything_has_the_defaults_of_the_format_and_changes_no_setting() -> None:
    conf, findings = read_conf("# nothing\n\n")
    assert (conf.node_spec_conf, conf.partition_conf) == (
        "/usr/local/SLURM/NodeSpecConf",
        "/usr/local/SLURM/PartitionConf",
    )
    assert (conf.heartbeat_interval_s, conf.heartbeat_timeout_s, conf.collector_nodes) == (300.0, 600.0, ())
    assert not findings.errors
    assert asked(read_all("# nothing\n", partitions=None)).settings == {}


def test_defaults_hold_for_the_lines_that_follow_and_can_be_set_again() -> None:
    text = "Name=a\nName=DEFAULT CPUs=2 RealMemory=10\nName=b\nName=DEFAULT CPUs=4\nName=c\nName=d RealMemory=5\n"
    found = asked(read_spec(text)).nodes
    figures = {name: (wanted.cpus, wanted.memory_mb) for name, wanted in found.items()}
    assert figures == {"a": (0, 0), "b": (2, 10), "c": (4, 10), "d": (4, 5)}


def test_only_a_hash_in_column_one_makes_a_comment() -> None:
    assert list(asked(read_spec("#Name=a\nName=b\n")).nodes) == ["b"]
    assert errors(read_spec("Name=b # the second\n"))[0].startswith('nodes:1: "#" begins no comment')
    assert errors(read_spec("Name=a\n #Name=b\n"))[0].startswith('nodes:2: "#Name=b" begins no comment')


def test_fields_lie_apart_by_spaces_and_tabs_and_names_by_any_case() -> None:
    found = asked(read_spec("name=a\tcpus=2   REALMEMORY=7\t \r\n")).nodes["a"]
    assert (found.cpus, found.memory_mb) == (2, 7)


@pytest.mark.parametrize(
    ("field", "partitions"),
    [("", (0,)), (" Partition=", ()), (" Partition= ", ()), (" Partition=3,1", (1, 3)), (" Partition=0,31", (0, 31))],
)
def test_a_node_is_in_partition_zero_in_those_that_are_named_or_in_none(field: str, partitions: tuple[int]) -> None:
    assert asked(read_spec(f"Name=a{field}\n")).nodes["a"].partitions == partitions


@pytest.mark.parametrize("value", ["32", "-1", "1,", "one", "1,,2", "1-3", "99999999999999"])
def test_a_partition_that_is_no_number_up_to_31_is_reported(value: str) -> None:
    assert errors(read_spec(f"Name=a\nName=b Partition={value}\n")) == [
        f"nodes:2: Partition={value}: partitions are numbers from 0 to 31, apart by commas"
    ]


def test_a_field_may_have_1024_characters_and_no_more() -> None:
    longest = "OS=" + "x" * 1021
    assert len(asked(read_spec(f"Name=a {longest}\n")).nodes["a"].os) == 1021
    message = errors(read_spec(f"Name=a {longest}x\n"))
    assert message == ['nodes:1: field "OS" has 1,025 characters, the limit is 1,024']
    long_list = ",".join(f"lx{number:04}" for number in range(200))
    assert "the limit is 1,024" in str(read_conf(f"CollectorNodes = {long_list}\n")[1].errors[0])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("CPUs=2", "the record has no Name"),
        ("Name=b CPU=2", 'unknown field "CPU"; known: Name, OS, CPUs, Speed, RealMemory'),
        ("Name=b CPUs=2 cpus=3", 'field "CPUs" stands twice'),
        ("Name=b RealMem", '"RealMem" is no Field=Value: is the line cut off'),
        ("Name=b RealMemory=", "RealMemory= has no value: is the line cut off?"),
        ("Name=b RealMemory =2", '"RealMemory" is no Field=Value'),
        ("Name=b CPUs=0", "CPUs=0: a whole number from 1 on is wanted"),
        ("Name=b CPUs=two", "CPUs=two: a whole number from 1 on is wanted"),
        ("Name=b CPUs=1.5", "CPUs=1.5: a whole number from 1 on is wanted"),
        ("Name=b Speed=-1", "Speed=-1: a number, not negative, is wanted"),
        ("Name=b Speed=nan", "Speed=nan: a number, not negative, is wanted"),
        ("Name=b TmpDisk=1e3", "TmpDisk=1e3: a whole number from 0 on is wanted"),
        ("Name=b/c", "Name=b/c: no name of a node"),
        ("Name=", "Name=: no name of a node"),
        ("Name=a", 'node "a" stands already in line 1'),
    ],
)
def test_a_wrong_line_is_named_with_its_reason_and_nothing_is_taken(line: str, reason: str) -> None:
    found = errors(read_spec(f"Name=a\n{line}\nName=z\n"))
    assert found[0].startswith(f"nodes:2: {reason}"), found


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ("CPUs=two", "CPUs=two: a whole number from 1 on is wanted"),
        ("CPUs=", "CPUs= has no value: is the line cut off?"),
        ("Partition=77", "Partition=77: partitions are numbers from 0 to 31, apart by commas"),
    ],
)
@pytest.mark.parametrize("followers", ["", "Name=b\nName=c\n"])
def test_wrong_defaults_are_reported_once_at_their_own_line(fields: str, reason: str, followers: str) -> None:
    assert errors(read_spec(f"Name=a\nName=DEFAULT {fields}\n{followers}")) == [f"nodes:2: {reason}"]


@pytest.mark.parametrize("first", ["Nmae=b CPUs=2", "CPUs=2 Name=b Numbr=1"])
def test_a_typing_error_in_its_first_line_makes_no_other_file_of_it(first: str) -> None:
    (found,) = errors(read_spec(f"{first}\nName=a\n"))
    assert found.startswith('nodes:1: unknown field "N')


def test_the_fields_of_a_node_may_come_in_any_order() -> None:
    assert asked(read_spec("CPUs=2 Name=b\n")).nodes["b"].cpus == 2


def test_a_file_that_says_nothing_and_names_no_nodes_anywhere_says_where_they_were_looked_for() -> None:
    files = [GivenFile(path="conf", text="# nothing\n"), GivenFile(path=SPEC_PLACE, problem="no such file")]
    assert errors(read_files([*files, GivenFile(path=PARTITION_PLACE, problem="no such file")])) == [
        "conf: the file names no NodeSpecConf, and there is none at its usual place; "
        "NodeSpecConf /usr/local/SLURM/NodeSpecConf: no such file"
    ]


def test_every_wrong_line_is_reported_not_only_the_first() -> None:
    found = errors(read_spec("Name=a CPUs=x\nName=b\nName=b\nSpeed=2\n"))
    assert [line.split(": ")[0] for line in found] == ["nodes:1", "nodes:3", "nodes:4"]


def test_a_file_that_ends_in_the_middle_of_a_line_is_suspicious() -> None:
    reading = read_spec("Name=a\nName=b RealMemory=20")
    assert asked(reading).nodes["b"].memory_mb == 20
    assert [str(problem) for problem in reading.findings.warnings] == [
        "nodes:2: the last line has no end: has the file been cut off?"
    ]


@pytest.mark.parametrize("text", ["# nobody\n", "Name=DEFAULT CPUs=2\n"])
def test_a_node_spec_conf_without_nodes_is_refused(text: str) -> None:
    assert errors(read_all(nodes=text, conf="# none\n")) == ["/usr/local/SLURM/NodeSpecConf: the file names no node"]


def test_what_is_no_text_is_refused() -> None:
    assert errors(read_spec("Name=a\0\n")) == ["nodes: this is no text file: it holds zero bytes"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("HeartBeatInterval", '"HeartBeatInterval" is no Parameter = Value: is the line cut off?'),
        ("NodeSpecConf =", "NodeSpecConf has no value: is the line cut off?"),
        ("ControlMachine = other", "ControlMachine stands already in line 1"),
        ("CollectorNodes = lx01,,lx/2", "CollectorNodes=lx/2: no name of a node"),
        ("CollectorNodes = lx01,lx01", 'CollectorNodes: node "lx01" stands twice'),
        ("CollectorNodes = lx[1-", "CollectorNodes: brackets do not match"),
    ],
)
def test_a_wrong_parameter_is_named_with_its_reason(line: str, reason: str) -> None:
    _, findings = read_conf(f"ControlMachine = lx\n{line}\n")
    assert str(findings.errors[0]).startswith(f"conf:2: {reason}")


def test_parameters_that_nobody_here_knows_are_warned_of_and_not_used() -> None:
    conf, findings = read_conf("FirstJobId = 7\nHeartBeatInterval=10\nHeartBeatTimeout=40\n")
    assert str(findings.warnings[0]).startswith(
        'conf:1: unknown parameter "FirstJobId" is not used; known: ControlMach'
    )
    assert (conf.heartbeat_interval_s, findings.errors) == (10.0, [])


def test_white_space_around_parameters_is_ignored() -> None:
    conf, _ = read_conf("\t HeartBeatInterval\t=  7  \nHeartBeatTimeout=20\n")
    assert (conf.heartbeat_interval_s, conf.heartbeat_timeout_s) == (7.0, 20.0)


def test_collectors_must_be_nodes_of_the_file() -> None:
    conf = SLURM_CONF.replace("lx01,lx02", "lx01,lx[07-09]")
    assert errors(read_all(conf)) == ["conf:7: CollectorNodes: lx[07-09] not in /usr/local/SLURM/NodeSpecConf"]


def test_partitions_become_vclusters_with_the_names_of_the_partition_conf() -> None:
    text = "# number, name\nNumber=1 Name=batch MaxTime=60 MaxNodes=4\nNumber=3 Name=odd State=DOWN\n"
    plans = asked(read_all(partitions=text)).partitions
    assert [(plan.partition.name, plan.nodes) for plan in plans] == [
        ("batch", ("lx01", "lx02", "lx03", "lx04", "lx05", "lx06")),
        ("partition2", ("lx03",)),
        ("odd", ("lx04",)),
    ]
    first, _, last = (plan.partition for plan in plans)
    assert (first.max_time_s, first.max_nodes, first.is_up, last.is_up) == (3600, 4, None, False)


def test_a_partition_zero_that_no_file_names_is_the_vcluster_of_all_nodes() -> None:
    assert asked(read_spec("Name=a\nName=b\n")).partitions == []
    assert [plan.nodes for plan in asked(read_spec("Name=a\nName=b Partition=0\n")).partitions] == [("a", "b")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Name=batch\n", "the record has no Number"),
        ("Number=32 Name=batch\n", "Number=32: partitions are numbered from 0 to 31"),
        ("Number=x Name=batch\n", "Number=x: a whole number from 0 on is wanted"),
        ("Number=1 Name=b/c\n", "Name=b/c: up to 63 letters"),
        ("Number=1 Name=a State=MAYBE\n", "State=MAYBE: one of UP, DOWN is wanted"),
        ("Number=1 Name=a MaxTime=0\n", "MaxTime=0: a whole number from 1 on is wanted"),
        ("Name=DEFAULT MaxTime=soon\nNumber=1 Name=a\n", "MaxTime=soon: a whole number from 1 on is wanted"),
        ("Name=DEFAULT Number=1\nNumber=2 Name=a\n", "Number is not for DEFAULT"),
        ("Number=1 Name=a Color=red\n", 'unknown field "Color"; known: Number, Name, State, MaxNodes, MaxTime'),
    ],
)
def test_a_wrong_partition_is_named_with_its_reason(text: str, reason: str) -> None:
    assert errors(read_all(partitions=text))[0].startswith(f"/usr/local/SLURM/PartitionConf:1: {reason}")


def test_a_partition_stands_once_and_one_without_nodes_is_left_out_with_a_warning() -> None:
    again = errors(read_all(partitions="Number=1 Name=a\nNumber=1 Name=b\n"))
    assert again == ['/usr/local/SLURM/PartitionConf:2: partition "1" stands already in line 1']
    reading = read_all(partitions="Number=1 Name=a\nNumber=9 Name=empty MaxTime=UNLIMITED\n")
    assert "empty" not in [plan.partition.name for plan in asked(reading).partitions]
    assert [str(problem) for problem in reading.findings.warnings] == [
        "/usr/local/SLURM/PartitionConf:2: partition 9 has no nodes and is left out"
    ]


@pytest.mark.parametrize(("value", "name"), [("batch", "batch"), ("1", "batch"), ("2", "partition2"), ("0", "")])
def test_the_default_partition_is_a_name_or_a_number(value: str, name: str) -> None:
    conf = SLURM_CONF + f"DefaultPartition = {value}\n"
    assert asked(read_all(conf, partitions="Number=1 Name=batch\n")).default_partition == name


def test_a_default_partition_that_does_not_exist_is_refused_with_those_that_do() -> None:
    conf = SLURM_CONF + "DefaultPartition = night\n"
    message = errors(read_all(conf, partitions="Number=1 Name=batch\n"))[0]
    assert message.startswith('conf:18: DefaultPartition: no partition "night"; known: batch, partition2, partition3')
