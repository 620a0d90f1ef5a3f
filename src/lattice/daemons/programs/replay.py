"""`rm-replay`: schedules a recorded workload on a simulated machine and reports the result.

Exit codes: 0 success, 1 the trace cannot be replayed or the output cannot be written, 2 usage error.
"""

import argparse
import gc
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lattice.core.model.site.weights import PROFILES
from lattice.core.scheduler.score.profiles import Profile, built_in
from lattice.daemons.programs.version import add_version
from lattice.replay.inventory import NAME as VCLUSTER
from lattice.replay.inventory import Replayed, Site, made_up, on_nodes, read_inventory, simulate_full
from lattice.replay.outcomes import measure
from lattice.replay.policies.conservative import Conservative
from lattice.replay.policies.easy import Easy
from lattice.replay.policies.fcfs import Fcfs
from lattice.replay.policies.planned import DEFAULT_PROFILE, Planned
from lattice.replay.progress import Bar
from lattice.replay.report import as_json, as_text, moves_text, write_starts
from lattice.replay.simulate import Policy, simulate
from lattice.replay.traces.entries import Trace, TraceError
from lattice.replay.traces.reader import FORMATS, listed_procs, read_trace
from lattice.replay.traces.workload import Workload, keep_r1
from lattice.replay.weights import WeightsError, read_weights

EXIT_FAILED = 1  # the trace cannot be replayed, or the output cannot be written
EXIT_USAGE = 2  # invalid command line
LATTICE = "lattice"
NODES_PROFILE = "hpc"  # the default of a vCluster
TEXTBOOK: dict[str, Callable[[Workload], Policy]] = {"fcfs": Fcfs, "easy": Easy, "conservative": Conservative}


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rm-replay", description="replay workload traces on a simulated machine")
    add_version(parser)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="replay one trace under one policy")
    run.add_argument(
        "trace",
        type=Path,
        metavar="TRACE",
        help="trace in SWF, JSON lines or sacct --parsable2 format; may be .gz or .xz",
    )
    run.add_argument("--policy", choices=[*TEXTBOOK, LATTICE], required=True, help="scheduling policy")
    run.add_argument(
        "--mode",
        choices=["r1", "full"],
        default="r1",
        help="r1: identical processors, exact run times; full: nodes as in production, only for lattice (default: r1)",
    )
    run.add_argument(
        "--inventory", type=Path, metavar="FILE", help="nodes of mode full, in YAML (default: identical nodes)"
    )
    run.add_argument(
        "--procs", type=_positive, metavar="P", help="processors of the machine (default: as in the trace)"
    )
    run.add_argument(
        "--format", choices=list(FORMATS), dest="written_in", help="format of the trace (default: detected)"
    )
    run.add_argument(
        "--profile",
        help=f"profile of policy lattice: {', '.join(PROFILES)} or one of --weights "
        f"(default: {DEFAULT_PROFILE} in mode r1, {NODES_PROFILE} in mode full)",
    )
    run.add_argument(
        "--weights", type=Path, metavar="FILE", help="profiles of policy lattice and their weights, in YAML"
    )
    run.add_argument(
        "--starts", type=Path, metavar="FILE", help="write id,submit,start,run,procs of each allocation as CSV"
    )
    run.add_argument("--skip-bad", action="store_true", help="skip unreadable lines and count them")
    run.add_argument("--json", action="store_true", help="print only one JSON object to stdout")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    parser = build_parser()
    options = parser.parse_args(arguments)
    if options.policy != LATTICE and (options.weights or options.profile):
        parser.error(f"--weights and --profile cannot be used with --policy {options.policy}")
    gc.disable()  # millions of records that all stay alive and form no reference cycles
    try:
        return _run(options)
    except WeightsError as error:
        _say(f"rm-replay: {error}")
        return EXIT_USAGE
    except TraceError as error:
        _say(f"rm-replay: {error}")
    except OSError as error:
        _say(f"rm-replay: {error.filename}: {error.strerror}")
    except KeyboardInterrupt:
        return 130
    return EXIT_FAILED


def _run(options: argparse.Namespace) -> int:
    profile = _profile(options) if options.policy == LATTICE else None
    trace = read_trace(options.trace, written_in=options.written_in, skip_bad=options.skip_bad)
    if trace.skipped:
        _say(f"rm-replay: {options.trace}: {trace.skipped:,} bad lines skipped")
    replayed: Replayed | None = None
    if options.mode == "full":
        work, replayed = _replay_full(options, trace, profile)
        starts = replayed.starts
    else:
        work, starts = _replay_r1(options, trace, profile)
    if options.starts is not None:
        with options.starts.open("w", encoding="utf-8", newline="") as file:
            write_starts(file, work, starts)
    outcome = measure(work, starts, None if replayed is None else replayed.ends)
    title = f"{trace.name}, {options.policy}"
    text = as_json(outcome, work, replayed) + "\n"
    if not options.json:
        text = as_text(title, work, outcome, skipped=trace.skipped)
        text += moves_text(work, replayed) if replayed is not None else ""
    sys.stdout.write(text)
    return 0


def _replay_r1(options: argparse.Namespace, trace: Trace, profile: Profile | None) -> tuple[Workload, list[int]]:
    work = keep_r1(trace, options.procs or _machine(trace, options.trace))
    return work, _simulate(work, TEXTBOOK[options.policy](work) if profile is None else Planned(work, profile))


def _replay_full(options: argparse.Namespace, trace: Trace, profile: Profile | None) -> tuple[Workload, Replayed]:
    if profile is None:
        raise TraceError(f"mode full needs policy {LATTICE}; {options.policy} does not model nodes")
    if options.inventory is not None:
        site = read_inventory(options.inventory)
    else:
        site = Site(nodes=made_up(options.procs or trace.nodes_total or _machine(trace, options.trace)))
    work = on_nodes(trace, site)
    # Each vCluster of the file has the profile of its own scheduler, unless one was asked for.
    is_chosen = options.profile or options.weights or not site.vclusters
    names = [each.name for each in site.vclusters] or [VCLUSTER]
    return work, simulate_full(work, site, dict.fromkeys(names, profile) if is_chosen else {})


def _profile(options: argparse.Namespace) -> Profile:
    """The requested profile: from the file, if there is one, else a built-in one."""
    weights, name = options.weights, options.profile
    if weights is None:
        if name is not None and name not in PROFILES:
            raise WeightsError(f'unknown profile "{name}"; known: {", ".join(PROFILES)}')
        return built_in(name or (DEFAULT_PROFILE if options.mode == "r1" else NODES_PROFILE))
    profiles = read_weights(weights)
    if name is None and len(profiles) > 1:
        raise WeightsError(f"{weights}: has several profiles; choose one with --profile: {', '.join(profiles)}")
    name = name or next(iter(profiles))
    if name not in profiles:
        raise WeightsError(f'{weights}: has no profile "{name}"; it has: {", ".join(profiles)}')
    return profiles[name]


def _simulate(work: Workload, policy: Policy) -> list[int]:
    if not sys.stderr.isatty():
        return simulate(work, policy)
    bar = Bar(sys.stderr, len(work), time.monotonic)
    try:
        return simulate(work, policy, bar)
    finally:
        bar.clear()


def _machine(trace: Trace, path: Path) -> int:
    """The number of processors from the trace, else from the manifest beside it."""
    found = trace.procs_total or listed_procs(path) or trace.nodes_total
    if not found:
        raise TraceError(f"{path}: does not contain the number of processors; set it with --procs")
    return found


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f'"{text}" is not a positive integer')
    return int(text)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
