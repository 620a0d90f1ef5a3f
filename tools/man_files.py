"""What the man pages say of the three configuration files; the fields come from the code that reads them."""

from dataclasses import dataclass

from lattice.config.machine_status import node_spec_conf, partition_conf, slurm_conf
from lattice.config.machine_status.debug_flags import FLAGS

_PARAMETERS = {
    "ControlMachine": "Name of the machine where the server runs. Kept for readers; agents are told their servers by --servers.",
    "CollectorNodes": "Nodes that gather the heartbeats of others, apart by commas; they become the setting node.collectors. "
    "Default: none.",
    "NodeSpecConf": f"Fully qualified path of the file with the nodes. Default: {slurm_conf.FOLDER}/NodeSpecConf.",
    "PartitionConf": f"Fully qualified path of the file with the partitions. Default: {slurm_conf.FOLDER}/PartitionConf; "
    "it may be missing when it is not named.",
    "DefaultPartition": "Name or number of the partition for submissions that name none; it becomes the setting "
    "submission.default_vcluster.",
    "MachStatusManager": "Fully qualified path of the manager. Checked and not used: lattice-server takes its place.",
    "MachStatusDaemon": "Fully qualified path of the daemon. Checked and not used: lattice-agent takes its place.",
    "MachStatusPort": "Port of manager and daemons, from 1 to 65535. Checked and not used: servers listen where their own "
    "configuration says. A port from 1024 on is warned of.",
    "MachStatusDebug": f"Debug flags apart by commas: {', '.join(FLAGS)}. They become the setting node.debug; unknown ones are "
    "warned of and not used.",
    "HeartBeatInterval": "Seconds between two heartbeats; 0 = report once and wait. Default, when HeartBeatTimeout is given: 300. "
    "It becomes the setting node.heartbeat_interval_s.",
    "HeartBeatTimeout": "Seconds without a heartbeat after which a node is Down; longer than the interval. Default, when "
    "HeartBeatInterval is given: 600. It becomes the settings node.heartbeat_timeout_s and node.grace_s, whose sum it is. "
    "Without either the cluster keeps its own timings.",
}
_NODE_FIELDS = {
    "Name": "Name of the node; required. DEFAULT sets values for the lines that follow.",
    "OS": "Operating system and least release, joined by a dot as `uname -s -r` says them.",
    "CPUs": "Least number of processors.",
    "Speed": "Least speed; agents report MHz.",
    "RealMemory": "Least memory in megabytes.",
    "VirtualMemory": "Least memory and swap space together, in megabytes.",
    "TmpDisk": "Least size of the temporary disk in megabytes.",
    "Partition": "Numbers of its partitions, 0 to 31, apart by commas. Not given: 0. Given without a value: in none, and no "
    "work runs there.",
}
_PARTITION_FIELDS = {
    "Number": "Number of the partition, 0 to 31; required.",
    "Name": "Name of the vCluster that it becomes; required. DEFAULT sets values for the lines that follow.",
    "State": "UP or DOWN.",
    "MaxNodes": "Most nodes of one allocation, or UNLIMITED.",
    "MaxTime": "Longest walltime of one allocation in minutes, or UNLIMITED.",
}
_LINES = (
    "Lines with # in column one are comments. Fields lie apart by spaces or tabs; each is Field=Value, at most 1,024 characters "
    "long, and names may be written in any case. Unknown fields, fields that stand twice and values that make no sense are errors, "
    "told with file and line; then nothing of any file is taken."
)


@dataclass(frozen=True)
class Described:
    summary: str
    paragraphs: tuple[str, ...]
    fields: tuple[tuple[str, str], ...]
    example: str


def _in_order(names: tuple[str, ...], texts: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, texts[name]) for name in names)


FILES = {
    "SlurmConf": Described(
        "machine status: where everything is, and how often nodes report",
        (
            "Read by lattice admin node import, with the files that it names. One parameter per line, Parameter = Value; white "
            "space is ignored, lines with # in column one are comments, a parameter and its value have at most 1,024 characters.",
            "An unknown parameter is a warning, because other programs keep theirs in the same file. A parameter that stands "
            "twice, has no value or a wrong one is an error, told with file and line, and nothing is taken.",
        ),
        _in_order(tuple(slurm_conf.PARAMETERS), _PARAMETERS),
        "# Example\nControlMachine    = lx_control\nCollectorNodes    = lx01,lx02\nNodeSpecConf      = /etc/site/NodeSpecConf\n"
        "HeartBeatInterval = 300\nHeartBeatTimeout  = 600",
    ),
    "NodeSpecConf": Described(
        "machine status: the nodes, in consecutive order, and the least that each must have",
        (
            "One node per line. The order of the lines is the order in which nodes are listed.",
            _LINES,
            "A record whose Name is DEFAULT gives values to the lines that follow; a later one replaces the fields that it names.",
            "A node with less than its record says, or with an older system, is logged and gets no work until it registers with "
            "enough or the record asks for less.",
        ),
        _in_order(node_spec_conf.FIELDS, _NODE_FIELDS),
        "# Example\nName=DEFAULT OS=Linux.2.4.7-10 CPUs=2 RealMemory=2048 Partition=1\nName=lx01\nName=lx02\n"
        "Name=lx03 RealMemory=3072 Partition=1,2",
    ),
    "PartitionConf": Described(
        "machine status: what the numbers of partitions stand for",
        (
            "One partition per line. A partition becomes a vCluster with the nodes that name its number. A number that nodes name "
            "and this file does not becomes the vCluster partitionN; a partition without nodes is left out with a warning. A "
            "partition zero that no file names stands for the vCluster that has all nodes.",
            _LINES,
        ),
        _in_order(partition_conf.FIELDS, _PARTITION_FIELDS),
        "# Example\nNumber=1 Name=batch MaxTime=1440\nNumber=2 Name=debug MaxTime=30 MaxNodes=2",
    ),
}
