"""`lattice-agent`: one node's agent. Reads its arguments, locks the state directory, runs until stopped."""

import argparse
import asyncio
import contextlib
import fcntl
import gc
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

import lattice.observe.quiet_grpc  # noqa: F401 - comes before gRPC
from lattice.agent.checks.options import Check, UnusableChecks, choose_checks
from lattice.agent.connection import Connector
from lattice.agent.containers.node import NO_RUNTIME, ContainerSettings, find_runtime
from lattice.agent.containers.oci_hooks import HooksUnusable, read_hooks
from lattice.agent.discovery.__main__ import main as discover_here
from lattice.agent.discovery.figures import measure_figures
from lattice.agent.discovery.keeper import LOOK_EVERY_S
from lattice.agent.discovery.processors import read_meminfo
from lattice.agent.discovery.tree import Tree
from lattice.agent.driver import Driver
from lattice.agent.hooks.site_programs import DEFAULT_TIMEOUT_S, SiteHooks
from lattice.agent.machine.state import Retention
from lattice.agent.messages import NodeFacts
from lattice.agent.runs.device_files import DeviceFiles
from lattice.agent.runs.devices import is_amd
from lattice.agent.runs.launch import DEFAULT_MIN_UID, AccountPolicy, own_account
from lattice.agent.runs.limits import DEFAULT_PIDS_PER_CPU, DEFAULT_RESERVE_MB, LimitSettings
from lattice.agent.runs.rlimits import Rlimits, parse_rlimit, what_cannot_be_set
from lattice.agent.settings import Settings
from lattice.agent.shim_client import ShimUnavailable
from lattice.config.load import ConfigError
from lattice.config.places import state_dir
from lattice.daemons.agent.check import check_state_dir, report_check
from lattice.daemons.agent.choices import CannotStart, choose_credentials, split_list
from lattice.daemons.agent.data import add_data, data_settings
from lattice.daemons.agent.figures import add_figures_option, show_figures
from lattice.daemons.agent.file import add_file_options, with_file, with_place
from lattice.daemons.agent.hardware import BadHardware, Machine, look_around
from lattice.daemons.agent.identity import Credentials, add_options
from lattice.daemons.agent.images import registry_blobs
from lattice.daemons.agent.listener import add_listener_option, listen
from lattice.daemons.agent.log_file import add_log_options, configure_logging
from lattice.daemons.agent.network import add_network_options, bind_host, figures_place
from lattice.daemons.agent.scratch import add_scratch, prepared_scratch, scratch_settings, tmp_dir
from lattice.daemons.agent.spellings import understood
from lattice.daemons.agent.telemetry import add_telemetry_options, telemetry_settings
from lattice.daemons.programs.version import add_version
from lattice.observe.service_manager import ServiceManager
from lattice.ports.quorum.object_store import ObjectStore
from lattice.wire.agents.messages import ready_for_orders

NODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
DEFAULT_CACHE_DIR = Path("/var/cache/lattice")
USER_CACHE = "cache"
DEFAULT_OUTPUT_LIMIT = 64 << 20
DEFAULT_GRACE_S = 30.0
EXIT_USAGE = 2  # invalid options, or another agent uses the state directory; starting it again does not help
EXIT_FAILED = 1  # a failure while running, such as a shim that cannot be started
DISCOVER_HELP = "`lattice-agent --discover` prints the inventory of this machine as JSON and exits. "
HOLLOW_HELP = "`lattice-agent --hollow N` simulates N nodes; see `lattice-agent --hollow N --help`"

_log = logging.getLogger(__name__)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lattice-agent",
        usage="%(prog)s --node-id NAME [flags]\n       %(prog)s --config FILE [flags]",
        description="run the work of one node",
        epilog=DISCOVER_HELP + HOLLOW_HELP,
    )
    add = parser.add_argument
    add_version(parser)
    add_file_options(parser)
    add("--node-id", required=True, metavar="NAME", help="name of this node in the cluster")
    add(
        "--state-dir",
        type=Path,
        default=state_dir(os.environ, os.geteuid()) / "agent",
        metavar="DIR",
        help="directory for run records and the shim's socket (default: /var/lib/lattice/agent, "
        "without root lattice/agent in $XDG_STATE_HOME or ~/.local/state)",
    )
    add_options(add)
    _add_machine(add)
    _add_runs(add)
    _add_limits(add)
    _add_images(add)
    _add_hooks(add)
    add_listener_option(add)
    add_telemetry_options(add)
    add_figures_option(add)
    add_log_options(add, _positive)
    return parser


def _add_machine(add: Callable[..., argparse.Action]) -> None:
    add_network_options(add)
    add("--cpus", type=_positive, default=0, metavar="N", help="CPUs to offer (default: detected)")
    add("--memory-mb", type=_positive, default=0, metavar="MB", help="memory to offer (default: detected)")
    add("--gpus", type=_natural, metavar="N", help="GPUs to offer (default: detected)")
    add("--gpu-type", default="", metavar="TYPE", help="type of the GPUs (default: detected)")
    add("--group", default="", help="topology group of this node")
    add("--features", default="", metavar="LIST", help="features of this node: a,b,c")
    add("--unified-memory", action="store_true", help="CPUs and GPUs share one memory")
    add("--cxl-memory-mb", type=_natural, default=0, metavar="MB", help="expansion memory in addition to --memory-mb")
    add("--power-w", type=_natural, default=0, metavar="W", help="power drawn when busy, in watts")
    add("--cpu-speed", type=_seconds, default=0.0, metavar="MHZ", help="CPU speed (default: detected)")
    add(
        "--tmp-dir",
        type=Path,
        default=Path("/tmp"),  # noqa: S108
        metavar="DIR",
        help="directory on the temporary disk (default: %(default)s)",
    )
    add(
        "--hardware",
        type=Path,
        metavar="FILE",
        help="JSON file that overrides the detected inventory; re-read when it changes",
    )
    add(
        "--inventory-every",
        type=_seconds,
        default=LOOK_EVERY_S,
        metavar="SECONDS",
        help="interval between hardware scans (default: %(default)s)",
    )
    add("--topology-file", type=Path, metavar="FILE", help="JSON file with the GPU links and NUMA domains")


def _add_runs(add: Callable[..., argparse.Action]) -> None:
    add(
        "--allow-user",
        action="append",
        default=[],
        metavar="USER",
        help="run work of this user regardless of its uid; may be repeated",
    )
    add(
        "--min-uid",
        type=_natural,
        default=DEFAULT_MIN_UID,
        metavar="UID",
        help="lowest uid whose work may run (default: %(default)s)",
    )
    add("--object-store", type=Path, metavar="DIR", help="directory to store final output in")
    add(
        "--output-limit",
        type=_positive,
        default=DEFAULT_OUTPUT_LIMIT,
        metavar="BYTES",
        help="bytes to keep of each output stream (default: %(default)s)",
    )
    add(
        "--grace",
        type=_seconds,
        default=DEFAULT_GRACE_S,
        metavar="SECONDS",
        help="time between SIGTERM and SIGKILL (default: %(default)s)",
    )
    add(
        "--keep-runs",
        type=_seconds,
        default=Retention().keep_s,
        metavar="SECONDS",
        help="how long to keep run directories (default: %(default)s)",
    )
    add(
        "--keep-bytes",
        type=_natural,
        default=Retention().max_bytes,
        metavar="BYTES",
        help="maximum size of all run directories (default: %(default)s)",
    )


def _add_limits(add: Callable[..., argparse.Action]) -> None:
    add(
        "--device",
        type=_absolute,
        action="append",
        default=[],
        metavar="PATH",
        help="device file that runs may open on a shared node besides those of their GPUs; /dev/infiniband/* = all there; repeatable",
    )
    add(
        "--pids-per-cpu",
        type=_natural,
        default=DEFAULT_PIDS_PER_CPU,
        metavar="N",
        help="processes and threads that a run may have for each of its CPUs; 0 = no limit (default: %(default)s)",
    )
    add(
        "--memory-reserve-mb",
        type=_natural,
        default=DEFAULT_RESERVE_MB,
        metavar="MB",
        help="memory kept back for the system from runs that use the whole node (default: %(default)s)",
    )
    add(
        "--rlimit",
        type=_rlimit,
        action="append",
        default=[],
        metavar="NAME=SOFT[:HARD]",
        help="limit of every process of the work, as in memlock=unlimited, stack=8M:unlimited, nofile=65536, core=0; repeatable",
    )
    add_scratch(add)


def _add_images(add: Callable[..., argparse.Action]) -> None:
    add_data(add)
    add(
        "--cache-dir",
        type=Path,
        metavar="DIR",
        help=f"directory of the image cache (default: {DEFAULT_CACHE_DIR}; {USER_CACHE} in --state-dir without root)",
    )
    add(
        "--cache-bytes",
        type=_natural,
        default=0,
        metavar="BYTES",
        help="size limit of the image cache; images not used for longest are removed at 90%% of it (default: 80%% of the disk)",
    )
    add(
        "--registries",
        type=Path,
        metavar="FILE",
        help="JSON file with the accounts of this node at image registries: host, username, and password by reference",
    )
    add(
        "--container-runtime",
        default="",
        metavar="PROGRAM",
        help="OCI runtime that makes containers, by name or path; none = no containers (default: crun, else runc)",
    )
    add(
        "--oci-hooks-dir",
        type=Path,
        metavar="DIR",
        help="directory with OCI hooks (*.json) that the runtime calls for each container",
    )


def _folder(text: str) -> str:
    """Empty = none; argparse also calls this for a default that is a text."""
    if not text:
        return ""
    path = os.path.abspath(text)
    if not os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"{text} is not a directory")
    return path


def _add_hooks(add: Callable[..., argparse.Action]) -> None:
    add(
        "--prologue",
        default="",
        metavar="PROGRAM",
        help="program to run before each run, as the agent's user; if it fails, the work runs elsewhere",
    )
    add("--epilogue", default="", metavar="PROGRAM", help="program to run after each run, as the agent's user")
    add(
        "--prologue-dir",
        type=_folder,
        default="",
        metavar="DIR",
        help="directory of prologues whose names begin with a number, run by name before --prologue; read for each run",
    )
    add(
        "--epilogue-dir",
        type=_folder,
        default="",
        metavar="DIR",
        help="directory of epilogues whose names begin with a number, run in reverse after --epilogue",
    )
    add(
        "--hook-timeout",
        type=_seconds,
        default=DEFAULT_TIMEOUT_S,
        metavar="SECONDS",
        help="time limit of each prologue and epilogue (default: %(default)s)",
    )
    add("--checks", type=Path, metavar="FILE", help="health checks of this node, in TOML or JSON, one table each")
    add("--check-dir", type=Path, metavar="DIR", help="directory of health check programs")
    add("--no-checks", action="store_true", help="disable health checks")


def _absolute(text: str) -> str:
    if not text.startswith("/"):
        raise argparse.ArgumentTypeError("must be an absolute path")
    return text


def _rlimit(text: str) -> tuple[str, tuple[int, int]]:
    try:
        return parse_rlimit(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return value


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError("must be a number of seconds, not negative")
    return value


def _facts(options: argparse.Namespace, machine: Machine, address: str, agent_user: str) -> NodeFacts:
    """What the node says of itself; `agent_user` is empty for root."""
    return NodeFacts(
        node_id=options.node_id,
        address=address,
        boot_id="",
        cpus=machine.cpus,
        memory_mb=machine.memory_mb,
        gpus=machine.gpus,
        gpu_type=machine.gpu_type,
        group=options.group,
        features=split_list(options.features),
        unified_memory=options.unified_memory or machine.topology.memory.is_unified,
        cxl_memory_mb=machine.cxl_memory_mb,
        power_w=options.power_w,
        figures=measure_figures(speed=options.cpu_speed, tmp_dir=tmp_dir(options), memory_mb=machine.memory_mb),
        runs_as_root=not agent_user,
        agent_user=agent_user,
    )


def build_settings(options: argparse.Namespace) -> Settings:
    if not NODE_ID.fullmatch(options.node_id):
        text = f"{options.node_id!r} is not a valid node name: use letters, digits, dots, dashes and underscores"
        raise CannotStart(text, key="node_id")
    uid, user = own_account()
    try:
        machine = look_around(options)
    except BadHardware as error:
        raise CannotStart(str(error)) from error
    host = bind_host(options)
    facts = _facts(options, machine, options.address or host, "" if uid == 0 else user)
    policy = AccountPolicy(
        agent_uid=uid, agent_user=user, min_uid=options.min_uid, allowed=frozenset(options.allow_user)
    )
    return Settings(
        state_dir=options.state_dir.absolute(),
        facts=facts,
        telemetry=telemetry_settings(options, facts),
        policy=policy,
        retention=Retention(keep_s=options.keep_runs, max_bytes=options.keep_bytes),
        output_limit=options.output_limit,
        grace_s=options.grace,
        collector_port=options.collector_port,
        metrics_listen=figures_place(options, host),
        bind_host=host,
        topology=machine.topology,
        limits=LimitSettings(
            pids_per_cpu=options.pids_per_cpu,
            reserve_mb=options.memory_reserve_mb,
            rlimits=_rlimits(options.rlimit, uid),
            machine_memory_mb=read_meminfo(Tree()).get("MemTotal", 0) >> 10,
            device_files=_device_files(machine, options.device),
        ),
        inventory=machine.inventory,
        hardware=machine.file,
        look_every_s=max(1.0, options.inventory_every),
        data=data_settings(options),
        object_store=options.object_store.absolute() if options.object_store else None,
        scratch=scratch_settings(options, uid),
        blobs=registry_blobs(options.registries),
        cache_bytes=options.cache_bytes,
        cache_dir=_cache_dir(options.cache_dir, options.state_dir, uid),
        containers=_containers(options.container_runtime, options.oci_hooks_dir, uid),
        hooks=_site_hooks(options),
        checks=() if options.no_checks else _checks(options.checks, options.check_dir),
    )


def _device_files(machine: Machine, site: Sequence[str]) -> DeviceFiles:
    return DeviceFiles(gpus=machine.topology.gpus, is_amd=is_amd(machine.gpu_type), site=tuple(site))


def _rlimits(parsed: list[tuple[str, tuple[int, int]]], uid: int) -> Rlimits:
    """The last one given for a name counts. Raises CannotStart for what would fail every run."""
    rlimits = dict(parsed)
    if uid != 0 and (problem := what_cannot_be_set(rlimits)):
        raise CannotStart(f"--rlimit: {problem}")
    return rlimits


def _cache_dir(directory: Path | None, state_dir: Path, uid: int) -> Path:
    """A user's own is beside the state of the agent, which no agent of another node shares."""
    return (directory or (DEFAULT_CACHE_DIR if uid == 0 else state_dir / USER_CACHE)).absolute()


def _site_hooks(options: argparse.Namespace) -> SiteHooks:
    return SiteHooks(
        prologue=options.prologue,
        epilogue=options.epilogue,
        prologue_dir=options.prologue_dir,
        epilogue_dir=options.epilogue_dir,
        timeout_s=options.hook_timeout,
    )


def _containers(runtime: str, hooks_dir: Path | None, uid: int) -> ContainerSettings:
    """Raises CannotStart for a runtime that was asked for and is not there."""
    found = find_runtime(runtime) if uid == 0 else ""
    if runtime not in ("", NO_RUNTIME) and not found:
        why = "it was not found" if uid == 0 else "the agent does not run as root"
        raise CannotStart(f"cannot use the container runtime {runtime}: {why}", key="container_runtime")
    try:
        return ContainerSettings(runtime=found, hooks=read_hooks(hooks_dir))
    except HooksUnusable as error:
        raise CannotStart(f"OCI hooks: {error}") from error


def _checks(file: Path | None, directory: Path | None) -> tuple[Check, ...]:
    try:
        return choose_checks(file, directory)
    except UnusableChecks as error:
        raise CannotStart(f"health checks: {error}") from error


def take_state_dir(state_dir: Path) -> int:
    """Takes a lock for the lifetime of this process. Raises CannotStart if another agent holds it."""
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        fd = os.open(state_dir / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CannotStart(f"cannot use the state directory: {error}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(fd, 32).decode("ascii", "replace").strip()
        os.close(fd)
        raise CannotStart(f"another agent (pid {holder or 'unknown'}) uses {state_dir}") from None
    # The pid is only for the message above: the lock also holds if the disk is full.
    with contextlib.suppress(OSError):
        os.ftruncate(fd, 0)
        os.write(fd, f"{os.getpid()}\n".encode())
    return fd


def choose_store(directory: Path | None) -> ObjectStore | None:
    if directory is None:
        return None
    from lattice.integrations.directory.store import DirectoryStore

    return DirectoryStore(directory.absolute())


async def serve(settings: Settings, credentials: Credentials, store: ObjectStore | None) -> None:
    """Runs the agent until SIGTERM or SIGINT; the shim and all workloads keep running."""
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    manager = ServiceManager.of_this_process()  # before the shim starts: it must not inherit the variables
    driver = Driver(settings, store)
    driver.telemetry.arrange(settings.telemetry, driver.relay)
    if not settings.facts.runs_as_root:
        _log.warning("not root: running only work of %s", settings.policy.agent_user)
    await driver.start()
    ready_for_orders()
    gc.freeze()  # without collecting first: there is no garbage yet, and finding that out takes a tenth of the start
    manager.say_ready(f"node {settings.facts.node_id}")
    watchdog = asyncio.create_task(manager.keep_alive())
    loops = [
        asyncio.create_task(connect(credentials, driver, settings.facts.node_id)),
        asyncio.create_task(driver.pulse()),
        asyncio.create_task(driver.keeper.run()),
        asyncio.create_task(driver.telemetry.run()),
        asyncio.create_task(stopped.wait()),
    ]
    done, pending = await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
    manager.say_stopping()
    for task in (*pending, watchdog):
        task.cancel()
    for task in done:
        task.result()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            await asyncio.gather(*pending, return_exceptions=True)
    driver.end_checks()
    _log.info("agent stopped; its work continues")
    logging.shutdown()
    # Immediately: a thread may hang in a name service or on a dead file server, and nothing waits for it.
    os._exit(0)


async def connect(credentials: Credentials, driver: Driver, node: str) -> None:
    """Obtains the agent's identity, then keeps a stream to the servers; never returns."""
    identity = credentials.identity
    await identity.begin()
    keeping = asyncio.create_task(identity.keep()) if identity.has_certificate else None
    try:
        endpoints = credentials.endpoints()
        await listen(driver, endpoints)
        await show_figures(driver, driver.settings.metrics_listen, endpoints)
        dial = credentials.open_channel
        await Connector(endpoints, identity.token, driver, node, dial, dial).run()
    finally:
        if keeping is not None:
            keeping.cancel()


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if any(word.partition("=")[0] == "--hollow" for word in words):
        from lattice.daemons.agent.hollow import main as play_many

        return play_many(words)
    if "--discover" in words:
        return discover_here([word for word in words if word != "--discover"])
    parser, places = build_parser(), dict[str, str]()
    try:
        options = parser.parse_args(with_file(parser, understood(words), places))
        settings = build_settings(options)
        credentials = choose_credentials(options)
        if options.check_config:
            return report_check(settings, credentials, connect=options.connect)
        if options.connect:
            raise CannotStart("--connect needs --check-config")
        check_state_dir(settings.state_dir)
        configure_logging(options)
        lock = take_state_dir(settings.state_dir)
        settings = replace(settings, scratch=prepared_scratch(settings.scratch))
    except (CannotStart, ConfigError) as error:
        sys.stderr.write(f"lattice-agent: {with_place(error, places)}\n")
        return EXIT_USAGE
    try:
        asyncio.run(serve(settings, credentials, choose_store(options.object_store)))
    except (ShimUnavailable, OSError) as error:
        _log.critical("%s", error)
        return EXIT_FAILED
    finally:
        os.close(lock)
    return 0


if __name__ == "__main__":
    sys.exit(main())
