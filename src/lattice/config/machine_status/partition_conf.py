"""PartitionConf: what the numbers of partitions stand for, one per line: `Number=1 Name=debug MaxTime=30`.

Number is from 0 to 31, Name that of the vCluster which the partition becomes. State is UP or DOWN, MaxNodes and MaxTime
(minutes) limit what one allocation may ask for; `UNLIMITED` takes a limit away.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from lattice.config.machine_status.problems import Findings
from lattice.config.machine_status.records import Record, read_records
from lattice.config.machine_status.values import Reader
from lattice.core.model.nodes.specifications import MAX_PARTITION

FIELDS = ("Number", "Name", "State", "MaxNodes", "MaxTime")
UNLIMITED = "UNLIMITED"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True, kw_only=True)
class Partition:
    """None = not said."""

    number: int
    name: str
    is_up: bool | None = None
    max_nodes: int | None = None
    max_time_s: int | None = None


@dataclass
class PartitionConf:
    file: str
    partitions: dict[int, Partition] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)


def read_partition_conf(text: str, file: str, findings: Findings) -> PartitionConf:
    """What the file says; what is wrong with it is reported."""
    conf = PartitionConf(file)
    for record in read_records(text, file, FIELDS, findings, _check_defaults):
        _add(conf, record, Reader(file, record.line, findings))
    return conf


def _add(conf: PartitionConf, record: Record, reader: Reader) -> None:
    values = record.values
    name = values["Name"]
    if "Number" not in record.written:
        reader.report("the record has no Number")
        return
    number = reader.whole("Number", values["Number"])
    if number > MAX_PARTITION:
        reader.report(f"Number={number}: partitions are numbered from 0 to {MAX_PARTITION}")
    if not _NAME.fullmatch(name):
        reader.report(f"Name={name[:80]}: up to 63 letters, digits, dots, dashes and underscores are wanted")
    for key in (name, str(number)):
        if key in conf.lines:
            reader.report(f'partition "{key}" stands already in line {conf.lines[key]}')
            return
    conf.lines |= {name: record.line, str(number): record.line}
    is_up, max_nodes, max_time_s = _limits(values, reader)
    conf.partitions[number] = Partition(
        number=number, name=name, is_up=is_up, max_nodes=max_nodes, max_time_s=max_time_s
    )


def _check_defaults(values: Mapping[str, str], reader: Reader) -> None:
    if "Number" in values:
        reader.report("Number is not for DEFAULT: each partition has its own")
    _limits(values, reader)


def _limits(values: Mapping[str, str], reader: Reader) -> tuple[bool | None, int | None, int | None]:
    """State, most nodes and longest time, as far as they are said."""
    state = reader.choice("State", values["State"], ("UP", "DOWN")) if "State" in values else ""
    minutes = _limit(values, "MaxTime", reader)
    is_up = state == "UP" if state else None
    return is_up, _limit(values, "MaxNodes", reader), None if minutes is None else minutes * 60


def _limit(values: Mapping[str, str], name: str, reader: Reader) -> int | None:
    """0 = none."""
    if name not in values:
        return None
    if values[name].upper() == UNLIMITED:
        return 0
    return reader.whole(name, values[name], least=1)
