"""The two sample files of the machine status design, and short ways to read files in tests."""

from lattice.config.machine_status.problems import Findings
from lattice.config.machine_status.reading import GivenFile, MachineImport, Reading, read_files
from lattice.config.machine_status.slurm_conf import SlurmConf, read_slurm_conf

SLURM_CONF = """\
#
# Example SlurmConf
# Author: John Doe
# Date: 11/06/2001
#
ControlMachine    = lx_control
CollectorNodes    = lx01,lx02
NodeSpecConf      = /usr/local/SLURM/NodeSpecConf
PartitionConf     = /usr/local/SLURM/PartitionConf
#
MachStatusManager = /usr/local/SLURM/MachStatusManager
MachStatusDaemon  = /usr/local/SLURM/MachStatusDaemon
MachStatusPort    = 612
MachStatusDebug   = init,msg
#
HeartBeatInterval = 300
HeartBeatTimeout  = 600
"""
NODE_SPEC_CONF = """\
#
# Example NodeSpecConf
# Author: John Doe
# Date: 11/06/2001
#
Name=DEFAULT OS=Linux.2.4.7-10 CPUs=2 Speed=1.0 RealMemory=2048 VirtualMemory=4096 TmpDisk=16384 Partition=1
#
Name=lx01
Name=lx02
Name=lx03 Speed=1.5 RealMemory=3072 Partition=1,2
Name=lx04 CPUs=1 Speed=1.3 Partition=1,3
Name=lx05
Name=lx06
"""
SPEC_PLACE = "/usr/local/SLURM/NodeSpecConf"
PARTITION_PLACE = "/usr/local/SLURM/PartitionConf"


def read_spec(text: str) -> Reading:
    """A NodeSpecConf alone."""
    return read_files([GivenFile(path="nodes", text=text)])


def read_conf(text: str) -> tuple[SlurmConf, Findings]:
    """A SlurmConf alone."""
    findings = Findings()
    return read_slurm_conf(text, "conf", findings), findings


def read_all(conf: str = SLURM_CONF, nodes: str = NODE_SPEC_CONF, partitions: str | None = "") -> Reading:
    """A SlurmConf with both other files; None = the last one is not there."""
    return read_files(
        [
            GivenFile(path="conf", text=conf),
            GivenFile(path=SPEC_PLACE, text=nodes),
            GivenFile(path=PARTITION_PLACE, text=partitions, problem="no such file or directory"),
        ]
    )


def asked(reading: Reading) -> MachineImport:
    assert [str(problem) for problem in reading.findings.errors] == []
    assert reading.asked is not None
    return reading.asked


def errors(reading: Reading) -> list[str]:
    assert reading.asked is None
    return [str(problem) for problem in reading.findings.errors]
