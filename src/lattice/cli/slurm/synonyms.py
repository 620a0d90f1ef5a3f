"""Names from other tools and their names here; imported only to suggest a correction."""

COMMAND_SYNONYMS = {
    **dict.fromkeys(("kill", "delete", "abort", "stop", "scancel", "qdel"), "cancel"),
    **dict.fromkeys(("squeue", "ps", "queue", "jobs", "list", "qstat", "show"), "status"),
    **dict.fromkeys(("sbatch", "qsub", "batch"), "submit"),
    **dict.fromkeys(("srun", "exec"), "launch"),
    **dict.fromkeys(("sacct", "past"), "history"),
    **dict.fromkeys(("sinfo",), "nodes"),
    **dict.fromkeys(("output", "cat", "log"), "logs"),
    **dict.fromkeys(("why", "reason"), "explain"),
}
FLAG_SYNONYMS = {
    "--time": "--walltime",
    "--time-limit": "--walltime",
    "--partition": "--vcluster",
    "-p": "--vcluster",
    "--account": "--project",
    "-A": "--project",
    "--job-name": "--name",
    "-J": "--name",
    "--mem": "--memory",
    "--array": "--task-group",
    "-a": "--task-group",
    "--dependency": "--depends-on",
    "-d": "--depends-on",
    "--workdir": "--chdir",
    "--format": "--output",
}
