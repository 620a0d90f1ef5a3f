"""Every option of sbatch, salloc and srun, and its treatment: the table behind parsing and the migration guide."""

from enum import Enum, StrEnum
from typing import NamedTuple


class Takes(Enum):
    NOTHING = "nothing"
    VALUE = "value"
    MAYBE = "maybe"  # only attached: --exclusive=user, -Xvalue


class Fate(StrEnum):
    MAPPED = "mapped"  # takes effect
    SHOWN = "shown"  # shown and exported, and a limit on shared nodes
    IGNORED = "ignored"  # accepted, with a warning on stderr
    SILENT = "silent"  # accepted silently: it requests what always applies
    REFUSED = "refused"


class Option(NamedTuple):
    """`also` are further full names; `programs` the first letters of those that have it: (b)atch, (a)lloc, (r)un."""

    name: str
    short: str = ""
    takes: Takes = Takes.VALUE
    fate: Fate = Fate.MAPPED
    note: str = ""  # its equivalent, or why it has no effect
    also: tuple[str, ...] = ()
    programs: str = "bar"


_NOTHING, _MAYBE = Takes.NOTHING, Takes.MAYBE
_SHOWN, _IGNORED, _SILENT, _REFUSED = Fate.SHOWN, Fate.IGNORED, Fate.SILENT, Fate.REFUSED
_PINNING = "processes are bound to their share of a node, not below that"
_LAUNCHER = "only applies to Slurm's own launcher"
_NO_ENTRYPOINT = "the entrypoint of an image is not run: begin the command with the program that it names"

OPTIONS: tuple[Option, ...] = (
    Option("account", "A", note="tenant"),
    Option("acctg-freq", fate=_IGNORED, note="usage is measured at the end of each run"),
    Option("array", "a", note="task group", programs="b"),
    Option("batch", fate=_IGNORED, note="the first node runs the script", programs="b"),
    Option("bb", fate=_IGNORED, note="there is no burst buffer", programs="bar"),
    Option("bbf", fate=_IGNORED, note="there is no burst buffer"),
    Option("bcast", takes=_MAYBE, fate=_IGNORED, note="programs are not copied to nodes", programs="r"),
    Option("begin", "b", note="not before"),
    Option("bell", takes=_NOTHING, fate=_SILENT, programs="a"),
    Option("chdir", "D", note="working directory"),
    Option("cluster-constraint", fate=_IGNORED, note="there is one cluster"),
    Option(
        "clusters", "M", fate=_REFUSED, note="only the local cluster may be named", also=("cluster",), programs="ba"
    ),
    Option("comment", note="stored and shown"),
    Option("compress", takes=_MAYBE, fate=_IGNORED, note="programs are not copied to nodes", programs="r"),
    Option("constraint", "C", note="features of nodes"),
    Option("container", fate=_IGNORED, note="OCI bundles are not supported"),
    Option("container-entrypoint", takes=_NOTHING, fate=_REFUSED, note=_NO_ENTRYPOINT),
    Option("container-entrypoint-log", takes=_NOTHING, fate=_REFUSED, note=_NO_ENTRYPOINT),
    Option(
        "container-env",
        fate=_REFUSED,
        note="variables of the job come before those of the image anyway: leave it out; a search path such as PATH, "
        "where the image decides, is set by the command",
    ),
    Option("container-image", note="run inside a container image"),
    Option("container-mount-home", takes=_NOTHING, fate=_SILENT),
    Option("container-mounts", note="what of the node is visible inside"),
    Option("container-name", note="container that steps of the job share"),
    Option("container-readonly", takes=_NOTHING, fate=_SILENT),
    Option(
        "container-remap-root",
        takes=_NOTHING,
        fate=_REFUSED,
        note="work is its own user inside as well: install what needs root when the image is built",
    ),
    Option(
        "container-save",
        fate=_REFUSED,
        note="containers are not saved: keep files below a directory of --container-mounts, or build another image",
    ),
    Option("container-workdir", note="directory to start in, inside"),
    Option("container-writable", takes=_NOTHING, note="keep changes to the image until the run ends"),
    Option("contiguous", takes=_NOTHING, fate=_IGNORED, note="placement follows the topology"),
    Option("core-spec", "S", fate=_IGNORED, note="cores are not reserved for the system"),
    Option("cores-per-socket", fate=_IGNORED, note=_PINNING),
    Option("cpu-bind", note="none, cores, ldoms or map_cpu:LIST", programs="r"),
    Option("cpu-freq", fate=_IGNORED, note="the site sets the frequency"),
    Option("cpus-per-gpu", fate=_SHOWN, note="added to the CPUs of a task"),
    Option("cpus-per-task", "c", fate=_SHOWN, note="CPUs per node, on shared nodes"),
    Option("deadline", note="cancelled if it cannot finish by then"),
    Option("delay-boot", fate=_IGNORED, note="jobs do not boot nodes"),
    Option("dependency", "d", note="waits for other jobs"),
    Option("disable-status", "X", takes=_NOTHING, fate=_IGNORED, note=_LAUNCHER, programs="r"),
    Option("distribution", "m", fate=_IGNORED, note="set the distribution of ranks with srun", programs="ba"),
    Option("distribution", "m", note="block or cyclic", programs="r"),
    Option("epilog", fate=_IGNORED, note=_LAUNCHER, programs="r"),
    Option("error", "e", note="file for stderr", programs="br"),
    Option("exact", takes=_NOTHING, fate=_SILENT, programs="r"),
    Option("exclude", "x", note="nodes to avoid"),
    Option("exclusive", takes=_MAYBE, note="whole nodes"),
    Option("export", note="variables to export", programs="br"),
    Option("export-file", fate=_IGNORED, note="use --export", programs="b"),
    Option("extra-node-info", "B", fate=_IGNORED, note=_PINNING),
    Option("get-user-env", takes=_MAYBE, fate=_SILENT, programs="ba"),
    Option("gid", fate=_IGNORED, note="work runs as its user"),
    Option("gpu-bind", fate=_IGNORED, note="bind tasks with srun", programs="ba"),
    Option("gpu-bind", note="closest or none", programs="r"),
    Option("gpu-freq", fate=_IGNORED, note="the site sets the frequency"),
    Option("gpus", "G", note="total GPUs of all nodes"),
    Option("gpus-per-node", note="GPUs per node"),
    Option("gpus-per-socket", fate=_IGNORED, note=_PINNING),
    Option("gpus-per-task", note="GPUs per task"),
    Option("gres", note="gpu[:type]:n per node"),
    Option("gres-flags", fate=_IGNORED, note=_PINNING),
    Option("het-group", fate=_REFUSED, note="heterogeneous jobs are not supported", programs="r"),
    Option("help", "h", takes=_NOTHING, note="the options"),
    Option("hint", fate=_IGNORED, note=_PINNING),
    Option("hold", "H", takes=_NOTHING, note="submitted on hold"),
    Option("ignore-pbs", takes=_NOTHING, fate=_SILENT, programs="b"),
    Option(
        "immediate",
        "I",
        takes=_MAYBE,
        fate=_IGNORED,
        note="use --test-only to see when it would start",
        programs="a",
    ),
    Option("immediate", "I", takes=_MAYBE, note="a step fails instead of waiting for CPUs", programs="r"),
    Option("input", "i", note="file for stdin", programs="br"),
    Option("interactive", takes=_NOTHING, fate=_SILENT, programs="r"),
    Option("job-name", "J", note="name"),
    Option("jobid", note="the allocation of a step", programs="ar"),
    Option("kill-command", "K", takes=_MAYBE, fate=_SILENT, programs="a"),
    Option("kill-on-bad-exit", "K", takes=_MAYBE, note="whether the first failure ends the other tasks", programs="r"),
    Option("kill-on-invalid-dep", note="cancel or keep it if a dependency can never be satisfied", programs="b"),
    Option("label", "l", takes=_NOTHING, note="prefix lines with their rank", programs="r"),
    Option("launch-cmd", takes=_NOTHING, fate=_IGNORED, note=_LAUNCHER, programs="r"),
    Option("licenses", "L", fate=_IGNORED, note="licences are not counted"),
    Option("mail-type", note="notifications"),
    Option("mail-user", note="mail address"),
    Option("mcs-label", fate=_IGNORED, note="tenants are always isolated"),
    Option("mem", fate=_SHOWN, note="memory per node"),
    Option("mem-bind", fate=_IGNORED, note=_PINNING),
    Option("mem-per-cpu", fate=_SHOWN, note="memory per node, from its CPUs"),
    Option("mem-per-gpu", fate=_SHOWN, note="memory per node, from its GPUs"),
    Option("mincpus", fate=_SHOWN, note="CPUs per node, on shared nodes"),
    Option("mpi", note="none, pmi1, pmi2, pmix and list", programs="r"),
    Option("msg-timeout", fate=_IGNORED, note=_LAUNCHER, programs="r"),
    Option("multi-prog", takes=_NOTHING, note="several programs by rank", programs="r"),
    Option("network", fate=_IGNORED, note="the site configures the network"),
    Option("nice", takes=_MAYBE, fate=_IGNORED, note="class and fair share determine the order"),
    Option("no-allocate", "Z", takes=_NOTHING, fate=_REFUSED, note="work runs only in allocations", programs="r"),
    Option("no-bell", takes=_NOTHING, fate=_SILENT, programs="a"),
    Option("no-kill", "k", takes=_MAYBE, fate=_IGNORED, note="a lost node ends the run"),
    Option("no-container-entrypoint", takes=_NOTHING, fate=_SILENT),
    Option("no-container-mount-home", takes=_NOTHING, note="leave the home directory out"),
    Option("no-container-remap-root", takes=_NOTHING, fate=_SILENT),
    Option("no-requeue", takes=_NOTHING, note="never requeued", programs="b"),
    Option("no-shell", takes=_NOTHING, note="allocate nodes without running a command", programs="a"),
    Option("nodefile", "F", fate=_IGNORED, note="use --nodelist"),
    Option("nodelist", "w", note="nodes to use"),
    Option("nodes", "N", note="nodes"),
    Option("ntasks", "n", note="tasks"),
    Option("ntasks-per-core", fate=_IGNORED, note=_PINNING),
    Option("ntasks-per-gpu", fate=_IGNORED, note=_PINNING),
    Option("ntasks-per-node", note="tasks per node", also=("tasks-per-node",)),
    Option("ntasks-per-socket", fate=_IGNORED, note=_PINNING),
    Option("open-mode", note="append or truncate", programs="br"),
    Option("output", "o", note="file for stdout", programs="br"),
    Option("overcommit", "O", takes=_NOTHING, fate=_IGNORED, note=_PINNING, programs="ba"),
    Option("overcommit", "O", takes=_NOTHING, note="more tasks than CPUs", programs="r"),
    Option("overlap", takes=_NOTHING, note="shares the CPUs of other steps", programs="r"),
    Option(
        "oversubscribe",
        "s",
        takes=_NOTHING,
        fate=_IGNORED,
        note="the vCluster determines whether nodes are shared",
        also=("share",),
    ),
    Option("parsable", takes=_NOTHING, note="print only the id", programs="b"),
    Option("partition", "p", note="vCluster"),
    Option("power", fate=_IGNORED, note="the site manages power"),
    Option("prefer", fate=_IGNORED, note="features are required or not used"),
    Option("preserve-env", "E", takes=_NOTHING, fate=_IGNORED, note=_LAUNCHER, programs="r"),
    Option("priority", fate=_IGNORED, note="class and fair share determine the order"),
    Option("profile", fate=_IGNORED, note="profiling is not supported"),
    Option("prolog", fate=_IGNORED, note=_LAUNCHER, programs="r"),
    Option("propagate", takes=_MAYBE, fate=_IGNORED, note="the node's limits apply", programs="br"),
    Option("pty", takes=_NOTHING, note="a terminal", programs="r"),
    Option("qos", "q", note="preemption class"),
    Option("quiet", "Q", takes=_NOTHING, note="suppress messages"),
    Option("quit-on-interrupt", takes=_NOTHING, fate=_IGNORED, note="the second interrupt ends the step", programs="r"),
    Option("reboot", takes=_NOTHING, fate=_IGNORED, note="jobs do not boot nodes"),
    Option("relative", "r", fate=_IGNORED, note="steps start at the first node", programs="r"),
    Option("requeue", takes=_NOTHING, note="requeued if a node is lost", programs="b"),
    Option("reservation", note="advance reservation to use"),
    Option("resv-ports", takes=_MAYBE, fate=_IGNORED, note=_LAUNCHER, programs="r"),
    Option("send-libs", takes=_MAYBE, fate=_IGNORED, note="programs are not copied to nodes", programs="r"),
    Option("signal", note="signal before the time limit"),
    Option("slurmd-debug", fate=_IGNORED, note=_LAUNCHER, programs="r"),
    Option("sockets-per-node", fate=_IGNORED, note=_PINNING),
    Option("spread-job", takes=_NOTHING, fate=_IGNORED, note="placement follows the topology"),
    Option("switches", fate=_IGNORED, note="placement follows the topology"),
    Option("task-epilog", fate=_IGNORED, note=_LAUNCHER, programs="r"),
    Option("task-prolog", note="program that each task runs before its own", programs="r"),
    Option("test-only", takes=_NOTHING, note="print when it would start", programs="br"),
    Option("thread-spec", fate=_IGNORED, note="threads are not reserved for the system"),
    Option("threads", "T", fate=_IGNORED, note=_LAUNCHER, programs="r"),
    Option("threads-per-core", fate=_IGNORED, note=_PINNING),
    Option("time", "t", note="walltime"),
    Option("time-min", fate=_IGNORED, note="the walltime is not shortened"),
    Option("tmp", fate=_IGNORED, note="scratch space is not counted"),
    Option("tres-per-task", fate=_IGNORED, note=_PINNING, programs="r"),
    Option("uenv", note="images to mount"),
    Option("uid", fate=_IGNORED, note="work runs as its user"),
    Option("unbuffered", "u", takes=_NOTHING, fate=_SILENT, programs="r"),
    Option("usage", takes=_NOTHING, note="brief list of the options"),
    Option("use-min-nodes", takes=_NOTHING, fate=_IGNORED, note="a range uses as many nodes as are free"),
    Option("verbose", "v", takes=_NOTHING, fate=_SILENT),
    Option("version", "V", takes=_NOTHING, note="the version"),
    Option("view", note="views of the images to apply"),
    Option("wait", "W", takes=_NOTHING, note="wait until it ends", programs="b"),
    Option("wait", "W", note="time limit for the other tasks after the first ends", programs="r"),
    Option("wait-all-nodes", fate=_IGNORED, note="all nodes are ready when work starts", programs="ba"),
    Option("wckey", note="stored and shown"),
    Option("whole", takes=_NOTHING, fate=_SILENT, programs="r"),
    Option("wrap", note="a command instead of a script", programs="b"),
)


def options_of(program: str) -> tuple[Option, ...]:
    """The options of sbatch, salloc or srun."""
    letter = program[1]
    return tuple(option for option in OPTIONS if letter in option.programs)
