"""`lattice-supervisor`: starts a local cluster, restarts processes that die, keeps cluster.json current, and stops it.

    lattice-supervisor run --dir DIR ...     until SIGTERM, or until stdin closes with --until-stdin-closes
    lattice-supervisor stop --dir DIR        stops the cluster in DIR, with or without a running supervisor

`run` reports to its caller on stdout, one JSON object per line, then closes it: {"progress": text}, {"ready": {...}}
or {"failed": text}. Exit codes: 0 success, 1 failed, 2 usage error, 3 a cluster is already running in DIR."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import lattice.observe.quiet_grpc  # noqa: F401 - comes before gRPC
from lattice.core.model.units import BadUnit, parse_size_mb
from lattice.daemons.local.credentials import read_users
from lattice.daemons.local.layout import HINT, HINTS, Layout, told
from lattice.daemons.local.options import GRPC_PORT, REST_PORT, AlreadyRunning, Options, StartFailed
from lattice.observe.logging import configure

EXIT_FAILED = 1  # the cluster could not be started or stopped
EXIT_USAGE = 2  # invalid command line
EXIT_ALREADY_RUNNING = 3  # a cluster is already running in that directory


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse(argv)
    layout = Layout(arguments.dir)
    configure("supervisor", "info")
    if arguments.action == "stop":
        return stop(layout)
    return start(layout, arguments)


def start(layout: Layout, arguments: argparse.Namespace) -> int:
    from lattice.daemons.local.supervising import Caller, run  # `stop` needs nothing of it

    options = Options(
        nodes=arguments.nodes,
        rest_port=arguments.rest_port,
        grpc_port=arguments.grpc_port,
        node_cpus=arguments.node_cpus,
        node_memory_mb=arguments.node_memory,
        node_groups=arguments.node_groups,
        node_gpus=arguments.node_gpus,
        scratch_dir=arguments.scratch_dir,
        prologue=arguments.prologue,
        epilogue=arguments.epilogue,
        checks=arguments.checks,
        check_dir=arguments.check_dir,
        hardware_dir=arguments.hardware_dir,
        restart=not arguments.no_restart,
        servers=arguments.servers,
        users=arguments.users,
        settings=arguments.set,
    )
    caller = Caller(sys.stdout.fileno())
    try:
        return run(layout, options, caller, until_stdin_closes=arguments.until_stdin_closes)
    except StartFailed as error:
        caller.tell(failed=str(error), hint=error.hint)
        return EXIT_ALREADY_RUNNING if isinstance(error, AlreadyRunning) else EXIT_FAILED


def stop(layout: Layout) -> int:
    from lattice.daemons.local.teardown import StopFailed, stop_cluster

    try:
        outcome = stop_cluster(layout)
    except StopFailed as error:
        return complain(str(error))
    except OSError as error:
        return complain(f"cannot stop the cluster in {layout.root}: {told(error)}", HINTS.get(type(error), HINT))
    print(outcome)  # noqa: T201 - the answer to the user
    return 0


def complain(text: str, hint: str = "", code: int = EXIT_FAILED) -> int:
    """Prints it in the form of `lattice`'s own errors."""
    print(f"error: {text}" + (f"\n  hint: {hint}" if hint else ""), file=sys.stderr)  # noqa: T201 - the answer to the user
    return code


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        hint = f"see `{self.prog} --help`"
        sys.exit(complain(message.removeprefix("argument "), hint, EXIT_USAGE))


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(prog="lattice-supervisor", description="run a local cluster for `lattice up`")
    actions = parser.add_subparsers(dest="action", required=True)
    run_parser = actions.add_parser(
        "run", prog="lattice up", usage="%(prog)s [flags]", help="start a cluster and keep it running"
    )
    stop_parser = actions.add_parser("stop", prog="lattice down", help="stop the cluster")
    for action in (run_parser, stop_parser):
        action.add_argument("--dir", type=Path, required=True)
    run_parser.add_argument("--nodes", type=bounded(0, 1000), default=Options.nodes)
    run_parser.add_argument("--servers", type=odd(1, 5), default=Options.servers)
    run_parser.add_argument("--rest-port", type=bounded(0, 65535), default=REST_PORT)
    run_parser.add_argument("--grpc-port", type=bounded(0, 65535), default=GRPC_PORT)
    run_parser.add_argument("--node-gpus", type=bounded(0, 1024))
    run_parser.add_argument("--node-cpus", type=bounded(1, 65536), default=Options.node_cpus)
    run_parser.add_argument("--node-memory", type=size_mb, default=Options.node_memory_mb)
    run_parser.add_argument("--node-groups", type=bounded(0, 1000), default=Options.node_groups)
    run_parser.add_argument("--scratch-dir", default=Options.scratch_dir)
    run_parser.add_argument("--prologue", default=Options.prologue)
    run_parser.add_argument("--epilogue", default=Options.epilogue)
    run_parser.add_argument("--checks", default=Options.checks)
    run_parser.add_argument("--check-dir", default=Options.check_dir)
    run_parser.add_argument("--hardware-dir", type=folder, default=Options.hardware_dir)
    run_parser.add_argument("--users", type=users, default={})
    run_parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    run_parser.add_argument("--no-restart", action="store_true")
    run_parser.add_argument("--until-stdin-closes", action="store_true")
    return parser.parse_args(argv)


def users(text: str) -> dict[str, str]:
    try:
        return read_users(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def bounded(lowest: int, highest: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = lowest - 1
        if not lowest <= value <= highest:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {lowest} to {highest}")
        return value

    return number


def odd(lowest: int, highest: int) -> Callable[[str], int]:
    """An odd number: one more server raises the majority, but tolerates no more failures."""

    def number(text: str) -> int:
        value = bounded(lowest, highest)(text)
        if value % 2 == 0:
            raise argparse.ArgumentTypeError(
                f"{text} servers tolerate no more failures than {value - 1}; use 1, 3 or 5"
            )
        return value

    return number


def size_mb(text: str) -> int:
    try:
        return parse_size_mb(text)
    except BadUnit as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def folder(text: str) -> str:
    if text and not os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a directory")
    return text


if __name__ == "__main__":
    sys.exit(main())
