"""`lattice up`: a cluster on this machine, from one command."""

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from lattice.cli.command import Command
from lattice.cli.config import Place, load_settings
from lattice.cli.context import Context
from lattice.cli.errors import INTERRUPTED, USAGE, CommandError
from lattice.cli.progress import StatusLine
from lattice_sdk.site.local_cluster import TOKEN_FILE, default_directory


@dataclass(frozen=True, kw_only=True)
class UpOptions:
    dir: str = ""
    nodes: str = ""
    servers: str = ""
    rest_port: str = ""
    grpc_port: str = ""
    node_cpus: str = ""
    node_gpus: str = ""
    node_memory: str = ""
    node_groups: str = ""
    prologue: str = ""
    scratch_dir: str = ""
    epilogue: str = ""
    checks: str = ""
    check_dir: str = ""
    hardware_dir: str = ""
    users: str = ""
    set: tuple[str, ...] = ()
    detach: bool = False
    no_restart: bool = False


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dir", default="", help="directory of the cluster; kept between starts")
    parser.add_argument(
        "--nodes", default="", metavar="N", help="number of nodes, each with its own agent (default: 4)"
    )
    parser.add_argument(
        "--servers", default="", metavar="S", help="number of servers: 1, 3 or 5 with a replicated log (default: 1)"
    )
    parser.add_argument(
        "--rest-port", default="", metavar="P", help="port of the REST API; 0 picks a free one (default: 8080)"
    )
    parser.add_argument(
        "--grpc-port", default="", metavar="P", help="port for agents; 0 picks a free one (default: 50051)"
    )
    parser.add_argument(
        "--node-gpus", default="", metavar="G", help="GPUs of each node (default: those of the machine, dealt out)"
    )
    parser.add_argument("--node-cpus", default="", metavar="C", help="CPUs of each node (default: 4)")
    parser.add_argument("--node-memory", default="", metavar="M", help="memory of each node (default: 4G)")
    parser.add_argument(
        "--node-groups",
        default="",
        metavar="G",
        help="spread the nodes over topology groups g1 to gG (default: no groups)",
    )
    parser.add_argument(
        "--scratch-dir",
        default="",
        metavar="DIR",
        help="give each run a directory below this one, and a private /tmp; tmpfs = in memory",
    )
    parser.add_argument("--prologue", default="", metavar="PROGRAM", help="program that nodes run before each run")
    parser.add_argument("--epilogue", default="", metavar="PROGRAM", help="program that nodes run after each run")
    parser.add_argument("--checks", default="", metavar="FILE", help="health checks of the nodes, in TOML or JSON")
    parser.add_argument("--check-dir", default="", metavar="DIR", help="directory of health check programs")
    parser.add_argument(
        "--hardware-dir",
        default="",
        metavar="DIR",
        help="directory of NODE.json files that describe simulated hardware",
    )
    parser.add_argument(
        "--users",
        default="",
        metavar="NAME[:ROLE],...",
        help="further users of the cluster, for `lattice --as NAME`; a role is "
        "user, operator, tenant-admin, admin or readonly (default: user)",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="set a server option; may be repeated"
    )
    parser.add_argument("--detach", action="store_true", help="run in the background; return when the cluster is ready")
    parser.add_argument("--no-restart", action="store_true", help="do not restart processes that die")


def run(options: UpOptions, context: Context) -> int:
    directory = cluster_directory(options.dir, context)
    supervisor = subprocess.Popen(
        supervisor_command(options, directory),
        stdin=subprocess.DEVNULL if options.detach else subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
    try:
        ready = follow(supervisor, context, directory)
        tell_ready(ready, directory, context)
        return 0 if options.detach else stay(supervisor, context, directory)
    except KeyboardInterrupt:
        supervisor.terminate()
        supervisor.wait()
        return INTERRUPTED
    finally:
        for pipe in (supervisor.stdin, supervisor.stdout):
            if pipe is not None:
                pipe.close()


def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def cluster_directory(given: str, context: Context) -> Path:
    chosen = Path(given) if given else default_directory(context.process.environment)
    return Path(os.path.realpath(Path(context.process.directory()) / chosen))


def supervisor_command(options: UpOptions, directory: Path) -> list[str]:
    command = [str(Path(sys.executable).with_name("lattice-supervisor")), "run", "--dir", str(directory)]
    figures = ("nodes", "servers", "rest_port", "grpc_port", "node_cpus", "node_gpus", "node_memory", "node_groups")
    for name in (*figures, "scratch_dir", "prologue", "epilogue", "checks", "check_dir", "hardware_dir", "users"):
        if value := getattr(options, name):
            command += [f"--{name.replace('_', '-')}", value]
    for setting in options.set:
        command += ["--set", setting]
    if options.no_restart:
        command.append("--no-restart")
    if not options.detach:
        command.append("--until-stdin-closes")
    return command


def follow(supervisor: "subprocess.Popen[bytes]", context: Context, directory: Path) -> dict[str, object]:
    """What the supervisor says when everything is ready; CommandError when that will not be."""
    with StatusLine(context) as progress:
        for line in supervisor.stdout or ():
            message = json.loads(line)
            if "ready" in message:
                return dict(message["ready"])
            if "failed" in message:
                code = supervisor.wait()
                raise CommandError(message["failed"], hint=message.get("hint", ""), exit_code=code or 1)
            progress.show(message["progress"])
    code = supervisor.wait()
    if code == USAGE:
        raise SystemExit(USAGE)  # it has said what is wrong
    raise CommandError(
        f"the cluster's supervisor ended before the cluster was ready (exit code {code})",
        hint=f"look into {directory / 'supervisor.log'}",
    )


def tell_ready(ready: dict[str, object], directory: Path, context: Context) -> None:
    nodes = ready["nodes"]
    states = list(nodes.values()) if isinstance(nodes, dict) else []
    counts = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))
    context.say(f"Lattice is up at {ready['api_url']}, nodes: {counts or 'none'}")
    lattice = how_to_call(str(ready["api_url"]), directory, context)
    if ready.get("page") == "served":
        first = str(ready["api_url"]).partition(",")[0]
        context.say(f"The web page is at {first}/ and opens, logged in, with {lattice} web")
    elif ready.get("page") == "missing":
        context.say("The web page is not installed: `make web` adds it if npm and a network are available.")
    context.say("Next:")
    if states:
        context.say(f"  {lattice} run -- hostname")
        context.say(f"  {lattice} logs a{ready['next_number']}")
    else:
        context.say(f"  {lattice} nodes")
        context.say(f"  {lattice} status")
    context.streams.stdout.flush()


def how_to_call(api_url: str, directory: Path, context: Context) -> str:
    """The words that call this program for this cluster, whatever PATH and variables say."""
    program = os.path.abspath(shutil.which(context.process.program) or context.process.program)
    on_path = shutil.which("lattice", path=context.process.environment.get("PATH"))
    word = "lattice" if on_path and os.path.samefile(on_path, program) else shlex.quote(program)
    place = Place(api_url=api_url, origin="", token_file=str(directory / TOKEN_FILE))
    variables: dict[str, str] = {}
    if not leads_to(place, variables, context):
        variables = {"LATTICE_DIR": str(directory)}
    if not leads_to(place, variables, context):
        variables = {"LATTICE_API_URL": api_url, "LATTICE_TOKEN_FILE": str(directory / TOKEN_FILE)}
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in variables.items()), word])


def leads_to(place: Place, variables: dict[str, str], context: Context) -> bool:
    """Whether the command line would find the cluster there with these variables set."""
    environment = {**context.process.environment, **variables}
    try:
        found = load_settings(context.flags, environment, lambda _note: None).place()
    except CommandError:
        return False
    return (found.api_url, found.token_file) == (place.api_url, place.token_file)


def stay(supervisor: "subprocess.Popen[bytes]", context: Context, directory: Path) -> int:
    """Until Ctrl-C, or until another process stops the cluster."""
    try:
        context.say("Ctrl-C stops it.")
        context.streams.stdout.flush()
        code = supervisor.wait()
    except KeyboardInterrupt:
        context.say("stopping")
        context.streams.stdout.flush()
        supervisor.terminate()
        code = supervisor.wait()
    if code != 0:
        raise CommandError(
            f"the cluster's supervisor ended (exit code {code})", hint=f"look into {directory / 'supervisor.log'}"
        )
    return 0


COMMAND = Command(
    options=UpOptions,
    run=run,
    fill=fill,
    examples=(
        "lattice up --detach",
        "lattice up --servers 3 --detach",
        "lattice up --users ada,bob:operator --detach",
        "lattice up --nodes 8 --node-cpus 16 --node-memory 64G",
        "lattice up --dir /tmp/second --rest-port 0 --grpc-port 0 --detach",
    ),
)
