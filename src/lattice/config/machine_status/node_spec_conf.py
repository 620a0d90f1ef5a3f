"""NodeSpecConf: the nodes of a site, one per line, in consecutive order, with the least that each must have."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lattice.config.machine_status.problems import Findings
from lattice.config.machine_status.records import Record, read_records
from lattice.config.machine_status.values import Reader
from lattice.core.model.nodes.specifications import Specification

FIELDS = ("Name", "OS", "CPUs", "Speed", "RealMemory", "VirtualMemory", "TmpDisk", "Partition")


@dataclass
class NodeSpecConf:
    """Names with their specifications, in the order of the file; `partitions` are the numbers that the file names."""

    file: str
    nodes: dict[str, Specification] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    partitions: set[int] = field(default_factory=set)


def read_node_spec_conf(text: str, file: str, findings: Findings) -> NodeSpecConf:
    """What the file says; what is wrong with it is reported."""
    conf = NodeSpecConf(file)
    for record in read_records(text, file, FIELDS, findings, read_specification):
        _add(conf, record, Reader(file, record.line, findings))
    if not conf.nodes and not findings.errors:
        findings.error(file, 0, "the file names no node")
    return conf


def _add(conf: NodeSpecConf, record: Record, reader: Reader) -> None:
    name = reader.node_name("Name", record.values["Name"])
    if name in conf.lines:
        reader.report(f'node "{name}" stands already in line {conf.lines[name]}')
        return
    wanted = read_specification(record.values, reader)
    conf.lines[name] = record.line
    conf.nodes[name] = wanted
    if "Partition" in record.values:
        conf.partitions.update(wanted.partitions)


def read_specification(values: Mapping[str, str], reader: Reader) -> Specification:
    given = {name: value for name, value in values.items() if value}
    for name, value in values.items():
        if not value and name != "Partition":
            reader.report(f"{name}= has no value: is the line cut off?")
    return Specification(
        os=given.get("OS", ""),
        cpus=reader.whole("CPUs", given["CPUs"], least=1) if "CPUs" in given else 0,
        speed=reader.real("Speed", given["Speed"]) if "Speed" in given else 0.0,
        memory_mb=_megabytes(given, "RealMemory", reader),
        virtual_memory_mb=_megabytes(given, "VirtualMemory", reader),
        tmp_disk_mb=_megabytes(given, "TmpDisk", reader),
        partitions=reader.partitions("Partition", values["Partition"]) if "Partition" in values else (0,),
    )


def _megabytes(given: Mapping[str, str], name: str, reader: Reader) -> int:
    return reader.whole(name, given[name]) if name in given else 0
