"""Pages of `lattice help TOPIC`: what concerns several commands; imported only when asked for."""

TOPICS: dict[str, tuple[str, str]] = {
    "times": (
        "how to write times and durations, and how they are shown",
        """\
Durations: 90s, 10m, 2h, 1d, 1h30m, HH:MM:SS or D-HH:MM:SS. A bare number is refused, because Slurm reads it as minutes.
Times: 22:00 (the next one), 2026-11-15T22:00, 2026-11-15, now+2h. Without a zone they are local.
Tables and sentences show local time; JSON and YAML are in UTC.

  lattice submit --walltime=2h --begin=22:00 train.sh
  lattice history --since=2h
""",
    ),
    "dependencies": (
        "work that waits for other work",
        """\
--depends-on=ID:CONDITION with the conditions success, failure, any, after (it has started) and corresponding (task by task).
Several are separated by ',' (and) or '?' (or).
Work whose dependency can no longer be met ends as Cancelled and says which one it was.

  lattice submit --depends-on=a17:success evaluate.sh
  lattice dag submit pipeline.yaml
""",
    ),
    "groups": (
        "many alike tasks under one id",
        """\
--task-group=0-99 makes 100 tasks; LATTICE_TASK_INDEX tells them apart. Add %N for at most N at a time.
a17 is the whole group, a17_3 one task, a17_[0-9] some.

  lattice submit --task-group=0-99%10 -- ./step.sh
  lattice status a17 --verbose
  lattice resubmit a17 --failed
""",
    ),
    "endings": (
        "how work ended, and the exit codes of those who waited for it",
        """\
Every end that was not exit code 0 has one sentence, such as "a323 was killed at its walltime limit of 00:00:03".
It is the last line of the stderr of the work, and status, explain, wait, mail and sacct (SystemComment) show it.
`lattice explain ID` adds the last lines of stderr and the flag to change; `lattice resubmit ID` submits the work again.
`lattice --help` lists the exit codes.
""",
    ),
    "environment": (
        "variables that `lattice` reads, and those that work finds",
        """\
LATTICE_API_URL       addresses of the servers, separated by commas
LATTICE_TOKEN_FILE    file with the token (LATTICE_TOKEN: the token itself)
LATTICE_TENANT, LATTICE_VCLUSTER, LATTICE_PROJECT   defaults of the flags
LATTICE_CONFIG        configuration file (default: ~/.config/lattice/config.yaml)
LATTICE_DIR           directory of the local cluster
LATTICE_CA_FILE       authorities to trust with https
LATTICE_WARM=off      do not keep a process that makes commands start faster
NO_COLOR              no colors
Work has LATTICE_ALLOC_ID, LATTICE_NODELIST, LATTICE_TASK_INDEX and more; --export=ALL adds your own variables.
""",
    ),
    "configuration": (
        "files that say where the cluster is and what you prefer",
        """\
~/.config/lattice/config.yaml, and below it /etc/lattice/config.yaml of the site; flags and variables win over both.
Keys: endpoint, token_file, ca_file, insecure_http, tenant, vcluster, project, output_format, color,
export (ALL, NONE or NAMES: what --export means when it is not given).

  endpoint: https://lattice-01:8443,https://lattice-02:8443
  vcluster: gpu

Settings of the whole cluster: `lattice admin config list -o wide`.
""",
    ),
    "output": (
        "tables, columns, JSON and scripts",
        """\
-o table, wide, json or yaml everywhere; lists also -o csv and -o name, --columns, --sort and --no-headers.
-q prints only the essential result: `id=$(lattice submit -q train.sh)`.
JSON and YAML keep their names and are in UTC; tables are for people and may change.

  lattice status --state=pending -o name | xargs lattice cancel
  lattice history --columns=id,elapsed,cpu_eff -o csv
""",
    ),
    "slurm": (
        "where the habits of Slurm lead",
        """\
sbatch, srun, squeue, scancel, sacct, sinfo, scontrol and others work unchanged: `lattice compat-aliases` installs them.
squeue -> lattice status         sbatch -> lattice submit        scancel -> lattice cancel
sacct -> lattice history         sinfo -> lattice nodes          srun -> lattice run, lattice launch
scontrol show -> lattice status -v, lattice node status          seff -> lattice status -v
--time -> --walltime   --partition -> --vcluster   --array -> --task-group   --dependency -> --depends-on
""",
    ),
}


def topic_text(word: str) -> str:
    """The page of a topic, or the list of all."""
    if word == "topics":
        width = max(map(len, TOPICS))
        lines = [f"  {name:<{width}}  {summary}" for name, (summary, _) in TOPICS.items()]
        return "\n".join(["usage: lattice help TOPIC", "", "topics:", *lines, ""])
    summary, text = TOPICS[word]
    return f"{word}: {summary}\n\n{text}"
