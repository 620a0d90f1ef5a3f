"""The lines of `scontrol show config` that have a meaning here."""

from lattice.api.context import Context
from lattice.api.slurm.rows.finding import MIN_JOB_AGE_S
from lattice.core.model.site.settings import setting_value
from lattice.core.model.work.evictions import limits_of
from lattice.slurm.text.arrays import MAX_INDEX
from lattice.slurm.version import VERSION


def config_values(context: Context) -> dict[str, str]:
    services, state = context.services, context.state
    grace_s = float(setting_value(state.settings, "agent.grace_s"))
    is_preempting = limits_of(state.settings).max_victims > 0
    has_gpus = any(node.hardware.gpus for node in state.nodes.values())
    return {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageTRES": "cpu,mem,energy,node,billing,fs/disk,vmem,pages",
        "AccountingStorageEnforce": "associations",
        "AuthType": "auth/lattice",
        "ClusterName": services.slurm.cluster,
        "DefMemPerNode": "UNLIMITED",
        "EnforcePartLimits": "NO",
        "FirstJobId": "1",
        "GresTypes": "gpu" if has_gpus else "",
        "JobAcctGatherType": "jobacct_gather/cgroup",
        "JobRequeue": "1",
        "KillWait": f"{int(grace_s)} sec",
        "MaxArraySize": str(MAX_INDEX),
        "MaxJobCount": "1000000",
        "MaxNodeCount": str(len(state.nodes)),
        "MinJobAge": f"{MIN_JOB_AGE_S} sec",
        "MpiDefault": "none",
        "NEXT_JOB_ID": str(state.next_number),
        "PreemptMode": "REQUEUE" if is_preempting else "OFF",
        "PreemptType": "preempt/qos" if is_preempting else "preempt/none",
        "PriorityType": "priority/multifactor",
        "ProctrackType": "proctrack/cgroup",
        "SchedulerType": "sched/backfill",
        "SelectType": "select/cons_tres",
        "SlurmUser": "root(0)",
        "SlurmctldHost[0]": services.server_name,
        "SLURM_CONF": "",
        "SLURM_VERSION": VERSION,
        "SwitchType": "switch/none",
        "TaskPlugin": "task/cgroup",
        "TopologyPlugin": "topology/tree",
        "TrackWCKey": "No",
    }
