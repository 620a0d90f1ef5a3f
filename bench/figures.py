"""The figures Lattice promises: what each measures, the limit it must keep, the goal beyond."""

from collections.abc import Callable
from dataclasses import dataclass

Measure = Callable[[], dict[str, float]]


@dataclass(frozen=True)
class Figure:
    """One number of one measurement. `at_least` turns the comparison round."""

    key: str
    text: str
    unit: str
    must: float
    goal: float | None = None
    at_least: bool = False

    def meets(self, value: float, limit: float) -> bool:
        return value >= limit if self.at_least else value <= limit

    def verdict(self, value: float) -> str:
        if not self.meets(value, self.must):
            return "MISSED"
        return "goal" if self.goal is not None and self.meets(value, self.goal) else "met"


FIGURES = (
    Figure("submit_rate", "durable submissions over REST, SQLite, 32 concurrent", "/s", 1500, 3000, at_least=True),
    Figure("submit_p50_ms", "one submit call at a time, p50", "ms", 5),
    Figure("submit_p99_ms", "one submit call at a time, p99", "ms", 20),
    Figure("grpc_rate", "durable submissions over gRPC with mutual TLS, server on one core", "/s", 1000, at_least=True),
    Figure("grpc_batch_rate", "the same, 64 in one call", "/s", 1500, at_least=True),
    Figure("start_p50_ms", "submission sent to process started, idle cluster, p50", "ms", 100, 50),
    Figure("start_p99_ms", "submission sent to process started, idle cluster, p99", "ms", 300),
    Figure("share_start_p50_ms", "the same for a share of a node with all limits, p50", "ms", 30, 15),
    Figure("uenv_start_p50_ms", "the same in a uenv that the node has in its cache, p50", "ms", 60, 35),
    Figure("container_start_p50_ms", "the same in a container that the node has in its cache, p50", "ms", 150, 90),
    Figure("uenv_cpu_ratio", "CPU-bound program in a uenv: processor time against the bare node", "x", 1.01),
    Figure("container_cpu_ratio", "the same in a container", "x", 1.01),
    Figure(
        "image_arrival_s", "uenv of 1 GB, registry on this machine: submission to a process that sees it", "s", 8, 4
    ),
    Figure("confined_rate", "500 allocations of `true` with all limits on 4 nodes", "/s", 75, 200, at_least=True),
    Figure("confined_ratio", "the same against such without limits", "x", 0.9, 1.0, at_least=True),
    Figure("short_rate", "500 one-node allocations of `true` on 4 nodes", "/s", 150, 300, at_least=True),
    Figure("forward_mb_s", "200 MB through `lattice forward`", "MB/s", 100, 300, at_least=True),
    Figure("start_beside_tunnel", "submission to process p99 beside a forward at full speed, times idle", "x", 3, 1.5),
    Figure("staging_large", "staging 64 x 16 MiB: bytes/s against `cp -r`", "x", 0.5, 0.9, at_least=True),
    Figure("staging_small", "staging 10,000 x 4 KiB: bytes/s against `cp -r`", "x", 0.3, 0.6, at_least=True),
    Figure("staging_s3", "1 GiB from S3: time against boto3's transfer", "x", 1.2, 1.0),
    Figure("staging_server_cpu", "server with 10,000 waiting for data and a busy mover: CPU of a core", "%", 5, 2),
    Figure("hot_start_added_ms", "start of work whose data is hot: what the data adds, p50", "ms", 30, 10),
    Figure("gateway_rate", "requests of 1 kB through the gateway, 32 clients", "/s", 800, 2500, at_least=True),
    Figure("gateway_added_ms", "one request of 1 kB at a time: what the gateway adds, p50", "ms", 5, 2),
    Figure(
        "service_gateway_ratio",
        "service of 4 instances that need 5 ms a request, 32 clients: requests/s by the gateway, times direct",
        "x",
        0.6,
        0.9,
        at_least=True,
    ),
    Figure("instance_restart_ms", "exit of an instance to its restart in place, p50", "ms", 500, 100),
    Figure("instance_replaced_s", "node Down to the replacement of its instance ready, p50", "s", 2, 0.5),
    Figure(
        "reactive_evaluation_ms", "500 reactive services that all grow: one evaluation, processor time", "ms", 200, 40
    ),
    Figure("service_lookup_p99_ms", "registry of 1,000 services: lookup in one process, p99", "ms", 10, 3),
    Figure("service_change_p99_ms", "the same: change to the answer of a long poll, p99", "ms", 100, 30),
    Figure("preempt_p50_s", "full cluster: class 9 submitted to its process, victim obeys SIGTERM, p50", "s", 0.5, 0.2),
    Figure("done_to_start_p50_s", "`.done` of a victim's checkpoint to the preemptor's process, p50", "s", 0.3, 0.1),
    Figure("hint_signal_p99_ms", "request in place to the work's reaction, by signal, p99", "ms", 50, 10),
    Figure("hint_shmem_p99_ms", "request in place to the work's reaction, by shared memory, p99", "ms", 10, 2),
    Figure("hint_grpc_p99_ms", "request in place to the work's reaction, by gRPC, p99", "ms", 30, 10),
    Figure("group_submit_s", "task group of 100,000: submission, whole command", "s", 2, 0.5),
    Figure("group_status_s", "task group of 100,000: `lattice status`, whole command", "s", 0.3, 0.1),
    Figure("group_mb", "task group of 100,000: memory of the server", "MB", 60, 20),
    Figure("dag_submit_s", "DAG of 1,000 allocations: submission with validation", "s", 1),
    Figure("dag_release_ms", "end of a predecessor to release of its successor, median", "ms", 50),
    Figure("dag_release_worst_ms", "the same, worst of 19", "ms", 50),
    Figure("group_rate", "tasks of `true` from one group on 4 shared nodes", "/s", 80, 200, at_least=True),
    Figure("launch_s", "launch of 64 tasks over 4 nodes, whole command", "s", 0.6, 0.3),
    Figure("terminal_prompt_s", "`lattice attach` to its first prompt, whole command, median", "s", 0.4, 0.2),
    Figure("terminal_key_p50_ms", "key to its echo in `lattice attach`, p50", "ms", 8, 3),
    Figure("terminal_key_p99_ms", "the same, p99", "ms", 30, 10),
    Figure("terminal_flood_mb_s", "200 MB through a terminal, whole command", "MB/s", 20, 60, at_least=True),
    Figure("terminal_killed_s", "server of a terminal killed -9, until what was typed then comes back", "s", 5, 2),
    Figure("mpich_ratio", "16 ranks of MPICH over 4 nodes, whole launch: times mpiexec with 4 proxies", "x", 1.2, 0.8),
    Figure("pmi_auto_ratio", "64 tasks without MPI over 4 nodes, `--pmi=auto`: times `--pmi=none`", "x", 1.3, 1.1),
    Figure("fence_star_ms", "fence, one process plays 128 nodes of 4 ranks", "ms", 150, 50),
    Figure("fence_tree_ms", "fence, one process plays 1,000 nodes of 1 rank", "ms", 500, 200),
    Figure("openmpi_ratio", "8 ranks of Open MPI over 4 nodes, MPI_Init to MPI_Finalize: times mpirun", "x", 1.3, 0.9),
    Figure("watch_p50_ms", "change of state to watcher, idle cluster, p50", "ms", 50, 15),
    Figure("follow_p99_ms", "line printed to line followed, p99", "ms", 200, 60),
    Figure("stored_missing_mb", "2 GB of output in one go: missing in the store", "MB", 0, 0),
    Figure("since_first_s", "2 GB of output: first line of the last moment by `since`", "s", 1, 0.3),
    Figure("watch_p99_ms", "change of state to watcher, idle cluster, p99", "ms", 100, 30),
    Figure("status_s", "`lattice status` with 1,000 allocations, whole command", "s", 0.25, 0.15),
    Figure("native_status_ms", "`lattice status`, whole command, p50", "ms", 40, 10),
    Figure("native_submit_ms", "`lattice submit -- true`, whole command, p50", "ms", 40, 10),
    Figure("native_python_ms", "`lattice status` where there is no C compiler, p50", "ms", 150),
    Figure("srun_p50_ms", "`srun -N 2 -n 2 hostname` with an allocation of its own, p50", "ms", 44, 25),
    Figure("gather_1000_s", "1,000 submissions at once by one LatticeClient", "s", 3, 1),
    Figure("gather_5000_s", "5,000 submissions at once by one LatticeClient", "s", 15, 5),
    Figure("gather_failed", "failed submissions among these", "", 0),
    Figure("executor_map_s", "`Executor.map` of 1,000 trivial functions on 4 shared nodes", "s", 10, 5),
    Figure("sentence_ms", "end of a killed run to its sentence in the output file", "ms", 200, 50),
    Figure("sbatch_p50_ms", "`sbatch`, whole command, p50", "ms", 100, 20),
    Figure("sbatch_python_p50_ms", "the same where there is no C compiler, p50", "ms", 100),
    Figure("sbatch_rate", "8 parallel loops of `sbatch`", "/s", 20, 150, at_least=True),
    Figure("squeue_10k_ms", "`squeue` with 10,000 pending, whole command", "ms", 80, 50),
    Figure("squeue_one_ms", "`squeue -j ID` beside them, whole command", "ms", 100, 25),
    Figure("pages_cpu_percent", "server CPU with 100 web pages open and a change every 5 s, of one core", "%", 10, 4),
    Figure("page_change_p50_ms", "change of state to a row of an open web page, p50", "ms", 300),
    Figure("page_change_p99_ms", "the same, p99", "ms", 1000, 300),
    Figure("page_load_s", "web page with an empty cache to its first rows, 10,000 allocations", "s", 1.5, 0.7),
    Figure("page_load_kb", "the same: transferred", "kB", 500, 300),
    Figure(
        "page_timeline_ms", "timeline of 10,000 nodes and 2,000 bars, from the answer to the picture", "ms", 1500, 500
    ),
    Figure("page_scroll_fps", "list of 10,000 rows while it is scrolled", "fps", 30, at_least=True),
    Figure("tui_first_rows_s", "`lattice tui` to its first rows with 10,000 allocations", "s", 1.5, 0.8),
    Figure("recovery_s", "kill -9 of the server with 10,000 queued until a full listing", "s", 1.2, 0.8),
    Figure("recovery_lost", "acknowledged submissions lost by that", "", 0),
    Figure("restart_s", "start from a snapshot of 100,000 allocations plus 50,000 commands", "s", 10, 5),
    Figure("server_mb", "server memory with 10,000 pending and 100,000 archived", "MB", 400, 250),
    Figure("node_mb", "agent and shim, idle: memory", "MB", 70),
    Figure("node_cpu_percent", "agent and shim, idle: CPU of a core", "%", 0.5),
    Figure(
        "measured_burn_ratio", "CPU-bound run that is measured, BPF included: times the same without", "x", 1.01, 1.003
    ),
    Figure(
        "measured_read_ratio", "read-bound run that is measured, BPF included: times the same without", "x", 1.03, 1.01
    ),
    Figure("measured_node_cpu_percent", "agent and shim with 10 runs that are measured: CPU of a core", "%", 1.5, 0.7),
    Figure("measured_node_mb", "agent and shim with 10 runs that are measured: memory", "MB", 90, 80),
    Figure("mode_switch_s", "change to mode debug to the first window of 1 s at a stream, p99", "s", 3, 1.2),
    Figure("top_agents_s", "`lattice top ID` from agents, whole command", "s", 0.2, 0.12),
    Figure("top_store_s", "`lattice top ID` from a store, whole command", "s", 0.3, 0.15),
    Figure("hollow_server_cpu", "1,000 hollow nodes that send to VictoriaMetrics: CPU of the server", "%", 2, 0.5),
    Figure("hollow_lost", "the same: samples that the store lacks", "", 0),
    Figure("metrics_page_ms", "`/metrics` with 10,000 nodes", "ms", 100, 30),
    Figure("metrics_page_kb", "the same: size", "kB", 300),
    Figure("nodes_ready_s", "10,000 hollow nodes Ready from nothing, token authentication", "s", 60, 20),
    Figure(
        "nodes_direct_cpu",
        "server, 10,000 nodes at a beat per 10 s, each on its own stream: CPU of a core",
        "%",
        25,
        16,
    ),
    Figure("nodes_collected_cpu", "the same through 10 collectors", "%", 4, 2),
    Figure("collector_loss", "loss of 1 of 10 collectors at 10,000 nodes: others not Ready", "", 0),
    Figure("degraded_late_s", "a silent node is Degraded after its time-out, p99", "s", 1),
    Figure("down_late_s", "a silent node is Down after its grace, p99", "s", 1),
    Figure("nodes_summary_s", "`lattice nodes --summary` at 10,000 nodes, whole command", "s", 0.5, 0.2),
    Figure("nodes_table_s", "`lattice nodes` at 10,000 nodes, whole command", "s", 2, 1),
    Figure("cycle_10k_ms", "cycle, 1,000 pending x 10,000 nodes, 50 reservations", "ms", 250, 50),
    Figure("queue_1000x100_ms", "cycle with everything reserved, 100 pending x 1,000 nodes", "ms", 200, 50),
    Figure("queue_1000x1000_ms", "cycle with everything reserved, 1,000 pending x 1,000 nodes", "ms", 2000, 500),
    Figure("queue_10000x100_ms", "cycle with everything reserved, 100 pending x 10,000 nodes", "ms", 400, 100),
    Figure("cycle_50k_ms", "cycle, 10,000 pending x 50,000 nodes", "ms", 2000, 500),
    Figure("cycle_changed_ms", "cycle when one submission changed, 10,000 nodes", "ms", 20, 5),
    Figure(
        "longest_hold_ms",
        "longest hold of the event loop by any single request up to its limits, processor time",
        "ms",
        50,
        10,
    ),
    Figure(
        "endless_heads_mb", "memory taken by 1,000 anonymous connections that send heads without end", "MB", 100, 20
    ),
    Figure("half_sent_percent", "REST answers while 2,000 half-sent requests are held", "%", 100, at_least=True),
    Figure("api_p99_ratio", "API p99 while cycles run, against the same without", "x", 1.5),
    Figure("quorum_rate", "durable submissions over REST, 3 servers, 64 concurrent", "/s", 600, 1200, at_least=True),
    Figure("quorum_p50_ms", "submission at 100/s, 3 servers taking turns, p50", "ms", 10, 5),
    Figure("quorum_p99_ms", "submission at 100/s, 3 servers taking turns, p99", "ms", 50, 20),
    Figure("quorum_gap_s", "longest gap when the leader and its member are killed -9", "s", 5, 2),
    Figure("quorum_lost", "acknowledged submissions lost by that", "", 0),
    Figure("quorum_cut_s", "all three servers killed -9 at once, ten times: longest until a write", "s", 6, 3),
    Figure("quorum_cut_lost", "acknowledged submissions lost by that", "", 0),
    Figure("quorum_join_s", "a new server is caught up and votes, 100,000 allocations", "s", 30, 10),
    Figure("upgrade_servers_failed", "upgrade of 3 servers under 100 submissions/s: failed requests", "", 0),
    Figure("upgrade_servers_gap_s", "the same: longest gap without an answer", "s", 3, 1.5),
    Figure("upgrade_agents_lost", "upgrade of 20 agents with work: ended runs lost", "", 0),
    Figure("upgrade_agents_cpu", "the same: processor of the server", "%", 10),
    Figure("replay_ricc_s", "replay of RICC under easy (447,794 entries)", "s", 30, 10),
    Figure("replay_kth_s", "replay of KTH-SP2 through the plan", "s", 60, 20),
    Figure("preempt_wait_ratio", "replay preemption-heavy: p95 wait of class 8 against no preemption", "x", 0.3, 0.1),
    Figure("preempt_lost", "replay preemption-heavy: node time lost", "%", 5, 2),
    Figure(
        "lending_long_bsld_ratio",
        "replay METACENTRUM, 4 queues as vClusters, 16,000 entries: slowdown with lending against without",
        "x",
        0.5,
        0.25,
    ),
    Figure(
        "lending_long_over_s",
        "replay METACENTRUM, 16,000 entries: average wait of the worst lender beyond 1.1 x",
        "s",
        0,
    ),
    Figure(
        "lending_short_bsld_ratio",
        "replay METACENTRUM, 4 queues as vClusters, 3,000 entries: slowdown with lending against without",
        "x",
        0.5,
        0.25,
    ),
    Figure(
        "lending_short_over_s",
        "replay METACENTRUM, 3,000 entries: average wait of the worst lender beyond 1.1 x",
        "s",
        0,
    ),
    Figure(
        "lending_whole_bsld_ratio",
        "replay METACENTRUM, 4 queues as vClusters, all 96,567 entries: slowdown with lending against without",
        "x",
        0.5,
        0.25,
    ),
    Figure(
        "lending_whole_over_s",
        "replay METACENTRUM, all 96,567 entries: average wait of the worst lender beyond 1.1 x",
        "s",
        0,
    ),
    Figure("replay_curie_s", "replay of CEA-Curie through the plan", "s", 600, 180),
    Figure("slowdown_ratio", "bounded slowdown against easy, geometric mean of 7 traces", "x", 0.6, 0.45),
    Figure("slowdown_worst", "bounded slowdown against easy, worst trace", "x", 1.0),
    Figure("max_wait_worst", "longest wait against easy, worst trace", "x", 1.5),
    Figure("util_worst", "utilisation against easy, worst trace", "x", 0.99, at_least=True),
)
