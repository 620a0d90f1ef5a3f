"""`make bench`: every promised figure, medians of 3, as a table and as JSON.

python -m bench [NAME ...] [--repeats N] [--json FILE] [--write]
python -m bench compare --baseline COMMIT [--rows NAME ...] [--repeats N]
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from statistics import median

from bench import compare
from bench.beside import api_beside_cycles
from bench.commands import status_command
from bench.dags import dag_release, dag_submit
from bench.daily import executor_map, killed_sentence, many_submissions, native_commands, srun_command
from bench.drawing import page_drawing
from bench.evicting import evictions
from bench.figures import FIGURES, Figure, Measure
from bench.footprint import idle_node, server_memory
from bench.forwarding import forwarding, starts_beside_tunnel
from bench.groups import group_rate, group_size
from bench.grpc import grpc_rate
from bench.hostile import endless_heads, half_sent, longest_hold
from bench.images import image_arrival, image_speed, image_start_latency
from bench.instances import reactive_evaluation, service_instances, service_registry
from bench.launching import launch_command
from bench.listing import squeue_command
from bench.mpi import fence_times, mpi_launches
from bench.nodes import collected_figures, node_figures, silence_figures
from bench.output import follow_latency, stored_volume
from bench.pages import page_cost, page_latency
from bench.planning import cycle_figures
from bench.quorum import quorum_gap, quorum_join, quorum_latency, quorum_power_cut, quorum_rate
from bench.replaying import (
    replay_lending,
    replay_lending_whole,
    replay_preempting,
    replay_quality,
    replay_speed,
)
from bench.restarting import recovery, restart
from bench.running import confined_rate, share_start_latency, short_rate, start_latency
from bench.services import service_gateway
from bench.slurm import sbatch_command
from bench.staging import staging, staging_server
from bench.submitting import submit_latency, submit_rate
from bench.telemetry import (
    closer_look,
    collection_cost,
    collector_cost,
    hollow_store,
    metrics_page,
    top_from_store,
)
from bench.terminals import terminals
from bench.tui import tui_first_rows
from bench.upgrading import agents_upgraded, servers_upgraded
from bench.watching import watch_latency

MEASUREMENTS: dict[str, Measure] = {
    "submit-rate": submit_rate,
    "submit-latency": submit_latency,
    "grpc-rate": grpc_rate,
    "start-latency": start_latency,
    "share-start": share_start_latency,
    "short-rate": short_rate,
    "confined-rate": confined_rate,
    "image-start": image_start_latency,
    "image-speed": image_speed,
    "image-arrival": image_arrival,
    "forwarding": forwarding,
    "start-beside-tunnel": starts_beside_tunnel,
    "staging": staging,
    "staging-server": staging_server,
    "service-gateway": service_gateway,
    "service-instances": service_instances,
    "service-registry": service_registry,
    "reactive-evaluation": reactive_evaluation,
    "evictions": evictions,
    "group-size": group_size,
    "group-rate": group_rate,
    "launch": launch_command,
    "terminals": terminals,
    "mpi-fence": fence_times,
    "mpi-launch": mpi_launches,
    "dag-submit": dag_submit,
    "dag-release": dag_release,
    "collection-cost": collection_cost,
    "collector-cost": collector_cost,
    "closer-look": closer_look,
    "top-from-store": top_from_store,
    "hollow-store": hollow_store,
    "metrics-page": metrics_page,
    "watch-latency": watch_latency,
    "page-cost": page_cost,
    "page-latency": page_latency,
    "page-drawing": page_drawing,
    "status-command": status_command,
    "native-commands": native_commands,
    "srun-command": srun_command,
    "many-submissions": many_submissions,
    "executor-map": executor_map,
    "killed-sentence": killed_sentence,
    "squeue-command": squeue_command,
    "tui": tui_first_rows,
    "sbatch-command": sbatch_command,
    "recovery": recovery,
    "restart": restart,
    "server-memory": server_memory,
    "idle-node": idle_node,
    "nodes": node_figures,
    "nodes-collected": collected_figures,
    "nodes-silence": silence_figures,
    "cycle": cycle_figures,
    "api-beside-cycles": api_beside_cycles,
    "longest-hold": longest_hold,
    "endless-heads": endless_heads,
    "half-sent": half_sent,
    "logs-follow": follow_latency,
    "logs-volume": stored_volume,
    "quorum-rate": quorum_rate,
    "quorum-latency": quorum_latency,
    "quorum-gap": quorum_gap,
    "quorum-power-cut": quorum_power_cut,
    "quorum-join": quorum_join,
    "upgrade-servers": servers_upgraded,
    "upgrade-agents": agents_upgraded,
    "replay-speed": replay_speed,
    "replay-quality": replay_quality,
    "replay-preempting": replay_preempting,
    "replay-lending": replay_lending,
    "replay-lending-whole": replay_lending_whole,
}
ONCE = frozenset(
    {
        "logs-volume",
        "replay-quality",
        "nodes",
        "nodes-collected",
        "quorum-power-cut",
        "replay-lending",
        "replay-lending-whole",
    }
)  # long, and with little spread
BY_NAME = frozenset({"replay-lending-whole"})  # so long that it runs only when it is named
_PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
_MARK = "<!-- figures: written by `make bench` -->"


def main() -> int:
    if sys.argv[1:2] == ["compare"]:
        return compare.main(sys.argv[2:], list(MEASUREMENTS), ONCE)
    options = _parser().parse_args()
    values: dict[str, float] = {}
    for name in options.names or [each for each in MEASUREMENTS if each not in BY_NAME]:
        for key, value in _medians(name, 1 if name in ONCE else options.repeats).items():
            values[key] = value
    rows = [(figure, values[figure.key]) for figure in FIGURES if figure.key in values]
    table = _table(rows)
    print("\n" + table)
    report = {"commit": _commit(), "machine": _machine(), "repeats": options.repeats, "figures": values}
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=2) + "\n")
    else:
        print(json.dumps(report))
    if options.write:
        _write_page(table, options.repeats)
    return 0 if all(figure.verdict(value) != "MISSED" for figure, value in rows) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*MEASUREMENTS, []], help="only these measurements")
    parser.add_argument("--repeats", type=int, default=3, help="each measurement so many times, the median counts")
    parser.add_argument("--json", metavar="FILE", help="write the report there instead of printing it")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    return parser


def _medians(name: str, repeats: int) -> dict[str, float]:
    runs = []
    for count in range(repeats):
        print(f"{name} {count + 1}/{repeats} ...", file=sys.stderr, flush=True)
        runs.append(MEASUREMENTS[name]())
    medians = {key: median(run[key] for run in runs) for key in runs[0]}
    print(f"  {medians}", file=sys.stderr, flush=True)
    return medians


def _table(rows: list[tuple[Figure, float]]) -> str:
    lines = ["| figure | measured | must | goal | verdict |", "|---|---|---|---|---|"]
    for figure, value in rows:
        sign = ">=" if figure.at_least else "<="
        goal = "" if figure.goal is None else f"{sign} {figure.goal:g} {figure.unit}"
        shown = f"{value:.0f}" if value >= 100 else f"{value:.3g}"
        must = f"{sign} {figure.must:g} {figure.unit}"
        lines.append(f"| {figure.text} | {shown} {figure.unit} | {must} | {goal} | {figure.verdict(value)} |")
    return "\n".join(lines)


def _write_page(table: str, repeats: int) -> None:
    head, _, rest = _PAGE.read_text().partition(_MARK)
    _, _, tail = rest.partition(_MARK)
    stamp = f"Commit {_commit()}, {_machine()}, median of {repeats}, load {os.getloadavg()[0]:.1f}."
    _PAGE.write_text(f"{head}{_MARK}\n{stamp}\n\n{table}\n\n{_MARK}{tail}")


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _machine() -> str:
    return f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {platform.python_version()}"


if __name__ == "__main__":
    sys.exit(main())
