"""`lattice-agent --hollow N`: one process simulates many nodes against real servers. It reports work without running it."""

import argparse
import asyncio
import gc
import os
import random
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path

from lattice.agent.hollow.durations import NotASpan
from lattice.agent.hollow.faults import BadFault, Fault, draw_faults, parse_faults
from lattice.agent.hollow.fleet import CONCURRENCY, Fleet, FleetSettings
from lattice.agent.hollow.hardware import HollowHardware
from lattice.agent.hollow.injections import InjectionFile
from lattice.agent.hollow.names import node_names
from lattice.agent.hollow.node import HollowNode
from lattice.agent.hollow.switchboard import HollowSwitchboard, pretended_address
from lattice.agent.hollow.telemetry import HollowPush
from lattice.agent.hollow.work import Work, parse_work
from lattice.agent.messages import NodeFacts
from lattice.core.model.nodes.inventory import UnusableInventory
from lattice.daemons.agent.choices import CannotStart, choose_credentials, split_list
from lattice.daemons.agent.identity import Credentials, add_options
from lattice.daemons.agent.telemetry import add_push_options, push_settings
from lattice.observe.logging import LEVELS, configure

NODES_MAX = 100_000
EXIT_USAGE = 2
EXIT_FAILED = 1


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lattice-agent --hollow",
        usage="lattice-agent --hollow N [flags]",
        description="simulate N nodes against real servers: they register, send heartbeats, accept work and report, but run nothing",
        epilog='example: eval "$(lattice env)"; lattice-agent --hollow 500 --work 1s..5s --fault silence=1%%,flap=1%%:20s; '
        "SIGUSR1 disconnects the next collector permanently",
    )
    add = parser.add_argument
    add("--hollow", type=int, required=True, metavar="N", help="number of nodes")
    add("--hollow-prefix", default="hollow", metavar="TEXT", help="prefix of their names (default: %(default)s)")
    add(
        "--work", type=_work, default=Work(), metavar="1s..5s", help="duration of work (default: that of its `sleep N`)"
    )
    add(
        "--fault",
        type=_faults,
        default=(),
        metavar="KIND=SHARE%[:SPAN],...",
        help="inject faults: silence, flap, slow-boot, drift",
    )
    add("--injections", type=Path, metavar="FILE", help="write the injected faults to this file, as JSON lines")
    add("--seed", type=int, default=1, help="seed for faults and durations (default: %(default)s)")
    add(
        "--at-once",
        type=int,
        default=CONCURRENCY,
        help="maximum number of concurrent registrations (default: %(default)s)",
    )
    add_options(add)
    add("--cpus", type=int, default=64, help="CPUs of each node (default: %(default)s)")
    add("--memory-mb", type=int, default=256 << 10, help="memory of each node (default: %(default)s)")
    add("--gpus", type=int, default=0, help="GPUs of each node (default: %(default)s)")
    add("--gpu-type", default="", help="type of the GPUs")
    add(
        "--collectors",
        type=int,
        default=0,
        metavar="K",
        help="make the first K nodes able to collect heartbeats of the others",
    )
    add("--hardware", type=Path, help="JSON file that overrides the inventory of the nodes; re-read when it changes")
    add("--group-size", type=int, default=0, help="nodes per topology group; 0 = no groups")
    add("--features", default="", help="features of each node: a,b,c")
    add_push_options(add)
    add("--log-level", choices=LEVELS, default="info", help="minimum level of log messages (default: %(default)s)")
    return parser


def _work(text: str) -> Work:
    try:
        return parse_work(text)
    except NotASpan as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _faults(text: str) -> tuple[Fault, ...]:
    try:
        return parse_faults(text)
    except BadFault as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def build_nodes(options: argparse.Namespace, injections: InjectionFile, hardware: HollowHardware) -> list[HollowNode]:
    switchboard = HollowSwitchboard()
    names = node_names(options.hollow_prefix, options.hollow)
    misfortunes = draw_faults(names, options.fault, options.seed)
    return [
        HollowNode(
            _facts(options, name, place),
            options.work,
            random.Random(f"{options.seed} {name}"),  # noqa: S311 - repeatable on purpose
            injections,
            hardware,
            switchboard,
            misfortunes.get(name),
        )
        for place, name in enumerate(names)
    ]


def _facts(options: argparse.Namespace, name: str, place: int) -> NodeFacts:
    return NodeFacts(
        node_id=name,
        address="",
        boot_id=f"hollow-{options.seed}",
        cpus=options.cpus,
        memory_mb=options.memory_mb,
        gpus=options.gpus,
        gpu_type=options.gpu_type,
        group=f"g{place // options.group_size}" if options.group_size else "",
        features=split_list(options.features),
        collector_address=pretended_address(place) if place < options.collectors else "",
        runs_as_root=True,
        agent_user="",
    )


async def serve(options: argparse.Namespace, credentials: Credentials, hardware: HollowHardware) -> None:
    """Simulates until SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await credentials.identity.begin()
    injections = InjectionFile(options.injections)
    nodes = build_nodes(options, injections, hardware)
    gc.collect()
    gc.freeze()
    settings = FleetSettings(endpoints=tuple(credentials.endpoints()), at_once=options.at_once)
    fleet = Fleet(nodes, settings, credentials.identity.token, credentials.open_channel, injections, hardware)
    loop.add_signal_handler(signal.SIGUSR1, fleet.lose_collector)
    running = asyncio.create_task(fleet.run())
    pushing = _push(options, nodes)
    waiting = asyncio.create_task(stopped.wait())
    done, _ = await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
    if running in done:
        running.result()
    if pushing is not None:
        pushing.cancel()
    # Immediately: thousands of streams are not closed one by one.
    sys.stderr.flush()
    os._exit(0)


def _push(options: argparse.Namespace, nodes: Sequence[HollowNode]) -> "asyncio.Task[None] | None":
    """Made-up windows of all nodes go to the store, where there is one."""
    settings = push_settings(options, nodes[0].facts)
    if settings is None:
        return None
    return asyncio.create_task(HollowPush([node.facts for node in nodes], settings).run())


def run_quickly(work: Coroutine[None, None, None]) -> None:
    """Uses uvloop if it is installed."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)


def main(arguments: Sequence[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    try:
        if not 1 <= options.hollow <= NODES_MAX:
            raise CannotStart(f"--hollow {options.hollow}: must be between 1 and {NODES_MAX}")
        if options.enroll_servers:
            raise CannotStart("--enroll-servers cannot be used with --hollow: hollow nodes share one identity")
        credentials = choose_credentials(options)
        push_settings(options, _facts(options, options.hollow_prefix, 0))
        hardware = HollowHardware(options.cpus, options.memory_mb, options.hardware)
    except (CannotStart, UnusableInventory) as error:
        sys.stderr.write(f"lattice-agent: {error}\n")
        return EXIT_USAGE
    configure("agent", options.log_level, fields={})
    try:
        run_quickly(serve(options, credentials, hardware))
    except OSError as error:
        sys.stderr.write(f"lattice-agent: {error}\n")
        return EXIT_FAILED
    return 0
