"""SlurmConf: one parameter per line, `Parameter = Value`, white space ignored.

Other parts of a site's software keep their parameters in the same file, so that an unknown one is a warning, not an error.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lattice.config.machine_status.debug_flags import FLAGS
from lattice.config.machine_status.problems import Findings
from lattice.config.machine_status.records import MAX_FIELD, plain_lines
from lattice.config.machine_status.values import Reader
from lattice.slurm.text.hostlists import BadHostlist, expand

DEFAULT_INTERVAL_S = 300.0
DEFAULT_TIMEOUT_S = 600.0
PRIVILEGED_PORTS = 1024
FOLDER = "/usr/local/SLURM"


@dataclass(kw_only=True)
class SlurmConf:
    """What the file says. `lines` has the place of every parameter that it names."""

    file: str
    control_machine: str = ""
    collector_nodes: tuple[str, ...] = ()
    node_spec_conf: str = f"{FOLDER}/NodeSpecConf"
    partition_conf: str = f"{FOLDER}/PartitionConf"
    default_partition: str = ""
    manager: str = f"{FOLDER}/MachStatusManager"
    daemon: str = f"{FOLDER}/MachStatusDaemon"
    port: int = 0  # 0 = not said
    debug: tuple[str, ...] = ()
    heartbeat_interval_s: float = DEFAULT_INTERVAL_S
    heartbeat_timeout_s: float = DEFAULT_TIMEOUT_S
    lines: dict[str, int] = field(default_factory=dict)

    @property
    def has_heartbeats(self) -> bool:
        """Whether the file says anything of them; if so, what it leaves out has the defaults of the format."""
        return "HeartBeatInterval" in self.lines or "HeartBeatTimeout" in self.lines


def read_slurm_conf(text: str, file: str, findings: Findings) -> SlurmConf:
    """What the file says; what is wrong with it is reported."""
    conf = SlurmConf(file=file)
    known = {name.lower(): name for name in _TAKE}
    for line, content in plain_lines(text, file, findings):
        name, equals, value = (part.strip() for part in content.partition("="))
        reader = Reader(file, line, findings)
        if not equals:
            reader.report(f'"{name[:80]}" is no Parameter = Value: is the line cut off?')
        elif len(name) + len(value) + 1 > MAX_FIELD:
            reader.report(f"{name[:40]} has {len(name) + len(value) + 1:,} characters, the limit is {MAX_FIELD:,}")
        elif name.lower() not in known:
            findings.warn(file, line, f'unknown parameter "{name[:80]}" is not used; known: {", ".join(_TAKE)}')
        else:
            _take(conf, known[name.lower()], value, reader)
    _check_heartbeats(conf, findings)
    return conf


def _take(conf: SlurmConf, name: str, value: str, reader: Reader) -> None:
    if name in conf.lines:
        reader.report(f"{name} stands already in line {conf.lines[name]}")
        return
    conf.lines[name] = reader.line
    if not value and name not in _MAY_BE_EMPTY:
        reader.report(f"{name} has no value: is the line cut off?")
        return
    _TAKE[name](conf, reader, name, value)


def _take_collectors(conf: SlurmConf, reader: Reader, name: str, value: str) -> None:
    try:
        nodes = expand(value.replace(" ", "").replace("\t", ""))
    except BadHostlist as error:
        reader.report(f"{name}: {error}")
        return
    for node in nodes:
        reader.node_name(name, node)
    twice = sorted({node for node in nodes if nodes.count(node) > 1}) if len(nodes) < MAX_FIELD else []
    for node in twice:
        reader.report(f'{name}: node "{node}" stands twice')
    conf.collector_nodes = tuple(nodes)


def _take_port(conf: SlurmConf, reader: Reader, name: str, value: str) -> None:
    if not (value.isascii() and value.isdigit() and 1 <= int(value[:9]) <= 65535):
        reader.report(f"{name}={value[:40]}: a port from 1 to 65535 is wanted")
        return
    conf.port = int(value)
    if conf.port >= PRIVILEGED_PORTS:
        reader.findings.warn(
            reader.file, reader.line, f"{name}={value} is no privileged port: any user could listen there"
        )


def _take_debug(conf: SlurmConf, reader: Reader, name: str, value: str) -> None:
    flags = [flag.strip().lower() for flag in value.split(",") if flag.strip()]
    for flag in flags:
        if flag not in FLAGS:
            reader.findings.warn(
                reader.file, reader.line, f'{name}: unknown flag "{flag[:40]}" is not used; known: {", ".join(FLAGS)}'
            )
    conf.debug = tuple(dict.fromkeys(flag for flag in flags if flag in FLAGS))


def _text(attribute: str) -> "Taker":
    return lambda conf, reader, name, value: setattr(conf, attribute, value)


def _path(attribute: str) -> "Taker":
    return lambda conf, reader, name, value: setattr(conf, attribute, reader.path(name, value))


def _seconds(attribute: str) -> "Taker":
    return lambda conf, reader, name, value: setattr(conf, attribute, reader.real(name, value))


def _check_heartbeats(conf: SlurmConf, findings: Findings) -> None:
    interval, timeout = conf.heartbeat_interval_s, conf.heartbeat_timeout_s
    line = max(conf.lines.get("HeartBeatInterval", 0), conf.lines.get("HeartBeatTimeout", 0))
    if findings.errors or not conf.has_heartbeats or timeout > interval:
        return
    findings.error(
        conf.file, line, f"HeartBeatTimeout ({timeout:g} s) must be longer than HeartBeatInterval ({interval:g} s)"
    )


Taker = Callable[[SlurmConf, Reader, str, str], None]
_MAY_BE_EMPTY = frozenset({"CollectorNodes", "MachStatusDebug"})
_TAKE: Mapping[str, Taker] = {
    "ControlMachine": _text("control_machine"),
    "CollectorNodes": _take_collectors,
    "NodeSpecConf": _path("node_spec_conf"),
    "PartitionConf": _path("partition_conf"),
    "DefaultPartition": _text("default_partition"),
    "MachStatusManager": _path("manager"),
    "MachStatusDaemon": _path("daemon"),
    "MachStatusPort": _take_port,
    "MachStatusDebug": _take_debug,
    "HeartBeatInterval": _seconds("heartbeat_interval_s"),
    "HeartBeatTimeout": _seconds("heartbeat_timeout_s"),
}
PARAMETERS = tuple(_TAKE)
