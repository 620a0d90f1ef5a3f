"""`lattice-server`: reads its configuration and serves until stopped.

Exit codes: 0 stopped by a signal, 1 failed while running, 2 cannot start (configuration, ports, data directory),
3 removed from the cluster: restarting it does not help.
"""

import argparse
import asyncio
import gc
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import lattice.observe.quiet_grpc  # noqa: F401 - comes before gRPC
from lattice.config.load import ConfigError, parse_duration, read, with_place
from lattice.config.places import config_dir
from lattice.config.redaction import is_reference, is_secret_key, redacted
from lattice.config.schema import ServerConfig
from lattice.config.secrets import SecretError, resolve
from lattice.daemons.outside.vaults import vault_of
from lattice.daemons.programs.version import add_version
from lattice.daemons.server.http_limits import use_all_descriptors
from lattice.daemons.server.networks import on_its_network
from lattice.observe.log_files import LogFile
from lattice.observe.logging import configure
from lattice.observe.service_manager import ServiceManager
from lattice.quorum.etcd.start_mode import StartMode

if TYPE_CHECKING:
    from lattice.daemons.quorum.process import QuorumProcess
    from lattice.daemons.server.process import ServerProcess

EXIT_FAILED = 1  # a failure while running
EXIT_USAGE = 2  # cannot start: invalid options or configuration, or data that this release cannot read
EXIT_REMOVED = 3  # this server was removed from the quorum; it does not start again
STOP_WITHIN_S = 4.5
# A server keeps most of what it allocates, so frequent full collections would find nothing.
GC_THRESHOLDS = (20_000, 20, 50)
# The plan runs in a thread; a short switch interval keeps requests from waiting behind it.
SWITCH_INTERVAL_S = 0.0005

_USER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}")

_log = logging.getLogger(__name__)


class _PrintExample(argparse.Action):
    """Needs no configuration, so it acts while the line is read."""

    def __call__(self, _parser: object, _namespace: object, kind: object, _flag: str | None = None) -> NoReturn:
        from importlib.resources import files

        sys.stdout.write(files("lattice.config").joinpath("examples", f"{kind}.yaml").read_text(encoding="utf-8"))
        raise SystemExit(0)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lattice-server",
        usage="%(prog)s [--config FILE] [flags]\n       %(prog)s init [flags]",
        description="serve the API and the agents, and run the scheduler; "
        "`init` writes all that a first server needs (see `lattice-server init --help`)",
    )
    add_version(parser)
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="configuration file in YAML (default: /etc/lattice/server.yaml, "
        "without root lattice/server.yaml in $XDG_CONFIG_HOME or ~/.config)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="overrides",
        metavar="KEY=VALUE",
        help="override one setting of the file, e.g. node_agent.grace_period_s=2; may be repeated",
    )
    parser.add_argument(
        "--example-config",
        action=_PrintExample,
        choices=("minimal", "production"),
        help="print a configuration file with every key, its meaning and its default, and exit",
    )
    parser.add_argument(
        "--show-config", action="store_true", help="print the effective configuration without secrets, and exit"
    )
    parser.add_argument(
        "--check-config",
        action="store_true",
        help="check the configuration, the data directory and the ports, and exit",
    )
    parser.add_argument(
        "--connect", action="store_true", help="with --check-config: also try the other servers and the object store"
    )
    begin = parser.add_mutually_exclusive_group()
    begin.add_argument(
        "--bootstrap", action="store_true", help="start a new quorum; refused if the data directory has one"
    )
    begin.add_argument("--join", action="store_true", help="join the existing quorum of the other servers")
    begin.add_argument(
        "--bootstrap-if-new", action="store_true", help="start a new quorum, or continue the one in the data directory"
    )
    _add_recovery(parser)
    parser.add_argument(
        "--join-token-file",
        type=Path,
        metavar="FILE",
        help="with --join: invitation written by `lattice admin raft members add NAME`",
    )
    _add_tokens(parser)
    return parser


def _add_tokens(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--agent-token",
        metavar="NODE",
        help="print a token with which the agent of this node enrolls or connects, and exit",
    )
    parser.add_argument(
        "--user-token", metavar="NAME", help="print a token with which this user logs in, and exit; see also --admin"
    )
    parser.add_argument("--admin", action="store_true", help="with --user-token: an administrator of the whole cluster")
    parser.add_argument(
        "--tenant",
        action="append",
        default=[],
        metavar="NAME",
        help="with --user-token: a tenant of the user; may be repeated (default: default)",
    )
    parser.add_argument(
        "--no-tenant",
        action="store_true",
        help="with --user-token: the token belongs to no tenant, as that of a monitoring system",
    )
    parser.add_argument(
        "--scope",
        choices=["readonly", "allocations:read", "allocations:attach", "data:move"],
        default="",
        help="with --user-token: all that the token is for; "
        "allocations:read: status and output of the user's work, allocations:attach: terminals in it, "
        "data:move: for lattice-mover",
    )
    parser.add_argument(
        "--valid-for",
        metavar="TIME",
        default="1h",
        help="with --agent-token and --user-token: validity of the token (default: %(default)s)",
    )


def _add_recovery(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--recover-from",
        type=Path,
        metavar="PATH",
        help="with --bootstrap: restore this backup into an empty data directory",
    )
    source.add_argument(
        "--from-object-store",
        action="store_true",
        help="with --bootstrap: restore the newest good snapshot in the object store",
    )
    parser.add_argument(
        "--accept-loss",
        action="store_true",
        help="start although acknowledged data is missing; the loss is recorded and shown by `lattice admin raft status`",
    )
    parser.add_argument(
        "--accept-clock",
        action="store_true",
        help="start although the clock differs by more than a year from the last entry of the log, "
        "because that is how long the cluster was stopped, or because earlier times were wrong",
    )


_places: list[Callable[[str], str]] = []  # where the keys of the configuration stand, once it was read


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == ["init"]:
        _leave(_init(words[1:]))
    options = build_parser().parse_args(words)
    try:
        _refuse_plain_secrets(options.overrides)
        notes: list[str] = []
        file = options.config or config_dir(os.environ, os.geteuid()) / "server.yaml"
        config, place = read(file, ServerConfig, options.overrides, notes.append)
        _places[:] = [place]
        configure("server", config.log_level, fields={"server": config.name})
        _tell_notes(notes, in_plain_text=options.check_config)
        if options.show_config:
            _show(config)
        secret = resolve(config.api.hmac_secret, key="api.hmac_secret", mode=config.mode, vault=vault_of(config))
        if options.agent_token is not None:
            _leave(_print_agent_token(secret, options.agent_token, options.valid_for))
        if options.user_token is not None:
            _leave(_print_user_token(config, secret, options))
        if options.admin or options.tenant or options.scope or options.no_tenant:
            raise ConfigError("--admin, --tenant, --no-tenant and --scope need --user-token NAME")
        start_mode = _start_mode(options, config)
        check_settings(config)
        config = on_its_network(config)
        if options.check_config:
            _leave(_report_check(config, connect=options.connect))
        if options.connect:
            raise ConfigError("--connect needs --check-config")
        _check_data_dir(config)
        _write_log_file(config)
    except (ConfigError, SecretError) as error:
        _leave(_complain(error, EXIT_USAGE))
    if options.recover_from is not None or options.from_object_store:
        _recover(config, options.recover_from)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    use_all_descriptors()
    _leave(
        run(
            config,
            secret,
            start_mode,
            options.join_token_file,
            accepts_loss=options.accept_loss,
            accepts_clock=options.accept_clock,
        )
    )


def _tell_notes(notes: Sequence[str], *, in_plain_text: bool) -> None:
    for note in notes:
        if in_plain_text:
            sys.stdout.write(f"note: {note}\n")
        else:
            _log.warning("%s", note)


def _init(words: Sequence[str]) -> int:
    from lattice.daemons.programs.server_init import init

    try:
        return init(words)
    except ConfigError as error:
        return _complain(error, EXIT_USAGE)


def _write_log_file(config: ServerConfig) -> None:
    """Sends messages to the configured file, if there is one. Raises ConfigError."""
    about = config.log
    if about.file:
        file = LogFile(about.file, about.size, about.count)
        try:
            configure("server", config.log_level, fields={"server": config.name}, file=file)
        except OSError as error:
            raise ConfigError(f"log.file: cannot write {about.file}: {error.strerror}") from error


def _refuse_plain_secrets(overrides: Sequence[str]) -> None:
    """Refuses secrets on the command line: every user of the machine can read it."""
    for override in overrides:
        key, _, value = override.partition("=")
        if value and is_secret_key(key.strip()) and not is_reference(value.strip()):
            raise ConfigError(
                f"--set {key}: secrets are not allowed on the command line; use file://, env:// or vault://"
            )


def _show(config: ServerConfig) -> NoReturn:
    import yaml

    sys.stdout.write(yaml.safe_dump(redacted(config), sort_keys=False, allow_unicode=True))
    _leave(0)


def _lifetime_s(valid_for: str) -> int:
    lifetime_s = parse_duration(valid_for)
    if not lifetime_s or lifetime_s < 1:
        raise ConfigError(f"--valid-for: {valid_for!r} is not a duration; write 10m, 1h or 30d")
    return int(lifetime_s)


def _print_user_token(config: ServerConfig, secret: bytes, options: argparse.Namespace) -> int:
    import time

    from lattice.api.auth.tokens import sign_token

    name, tenants = options.user_token, options.tenant or ([] if options.no_tenant else ["default"])
    if options.no_tenant and options.tenant:
        raise ConfigError("--tenant and --no-tenant exclude each other")
    for flag, text in (("--user-token", name), *(("--tenant", each) for each in tenants)):
        if not _USER_NAME.fullmatch(text):
            raise ConfigError(f"{flag}: {text!r} is not a valid name")
    if options.admin and options.scope:
        raise ConfigError("--scope narrows a token, and --admin widens it: give one of them")
    if config.api.oidc_issuer and not config.api.oidc.own_user_tokens:
        raise ConfigError("--user-token: api.oidc.own_user_tokens is false, so servers refuse such tokens")
    token = sign_token(
        secret,
        user=name,
        issued_at_s=int(time.time()),
        lifetime_s=_lifetime_s(options.valid_for),
        tenants=tenants,
        scope="admin" if options.admin else options.scope,
    )
    sys.stdout.write(token + "\n")
    return 0


def _print_agent_token(secret: bytes, node: str, valid_for: str) -> int:
    import time

    from lattice.api.auth.node_certificates import NODE_NAME
    from lattice.api.auth.tokens import sign_token

    lifetime_s = _lifetime_s(valid_for)
    if not NODE_NAME.fullmatch(node):
        raise ConfigError(f"--agent-token: {node!r} is not a valid node name")
    now_s = int(time.time())
    token = sign_token(secret, user=f"node:{node}", issued_at_s=now_s, lifetime_s=lifetime_s, kind="agent", node=node)
    sys.stdout.write(token + "\n")
    return 0


def check_settings(config: ServerConfig) -> None:
    """Checks of the settings that need no running server. Raises ConfigError and SecretError."""
    from lattice.config.rules import intent_rules
    from lattice.daemons.outside.objects import object_store_of
    from lattice.daemons.programs.server_check import check_peers
    from lattice.daemons.server.guards import submit_filter
    from lattice.daemons.server.identity import check_identity
    from lattice.daemons.server.infrastructure import infrastructure_of
    from lattice.daemons.server.senders import Senders
    from lattice.daemons.server.tls import check_tls
    from lattice.ports.clock import SystemClock

    check_peers(config)
    check_tls(config)
    check_identity(config)
    intent_rules(config.submission)
    submit_filter(config)
    infrastructure_of(config)
    object_store_of(config)
    Senders(config, SystemClock())


def _check_data_dir(config: ServerConfig) -> None:
    """Before anything is written there. Raises ConfigError."""
    from lattice.daemons.programs.server_check import check_data_dir

    check_data_dir(config)


def _report_check(config: ServerConfig, *, connect: bool) -> int:
    """Raises ConfigError."""
    from lattice.daemons.programs.server_check import check_surroundings, connect_outcomes

    check_surroundings(config)
    outcomes = list(connect_outcomes(config)) if connect else []
    for what, why in outcomes:
        sys.stdout.write(f"{what}: {f'cannot be reached: {why}' if why else 'reached'}\n")
    if any(why for _, why in outcomes):
        return _complain(ConfigError("the configuration is valid, but not everything can be reached"), EXIT_USAGE)
    sys.stdout.write(f"the configuration of server {config.name} is valid\n")
    return 0


def _recover(config: ServerConfig, source: Path | None) -> None:
    """Creates the data directory from a backup; exits if that fails."""
    from lattice.daemons.server.recovery import recover
    from lattice.ports.quorum.backups import BackupError

    try:
        done = recover(config, None if source is None else source.absolute())
    except BackupError as error:
        _leave(_complain(error, EXIT_USAGE))
    _log.warning(
        "recovered from %s: continues from entry %d, epoch %d", done.source, done.start.index, done.start.epoch
    )


def _start_mode(options: argparse.Namespace, config: ServerConfig) -> StartMode:
    chosen: StartMode = "restart"
    if options.bootstrap:
        chosen = "bootstrap"
    elif options.join:
        chosen = "join"
    elif options.bootstrap_if_new:
        chosen = "bootstrap-if-new"
    recovers = options.recover_from is not None or options.from_object_store
    if recovers and chosen != "bootstrap":
        raise ConfigError("--recover-from and --from-object-store need --bootstrap")
    if recovers and config.quorum.kind != "etcd" and config.log.kind == "sqlite":
        return "restart"
    if chosen != "restart" and config.quorum.kind != "etcd":
        raise ConfigError(f"--{chosen} needs a replicated log; set quorum.kind to etcd")
    if options.join_token_file is not None and chosen != "join":
        raise ConfigError("--join-token-file needs --join")
    return chosen


def run(
    config: ServerConfig,
    secret: bytes,
    start_mode: StartMode = "restart",
    token_file: Path | None = None,
    *,
    accepts_loss: bool = False,
    accepts_clock: bool = False,
) -> int:
    """Serves until a signal or a failure; returns the exit code."""
    import uvloop

    gc.disable()  # what is imported and loaded now is never garbage
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        make = partial(_make, config, secret, start_mode, token_file, accepts_loss=accepts_loss)
        return runner.run(_serve(config, make, accepts_clock=accepts_clock))


def _make(
    config: ServerConfig, secret: bytes, start_mode: StartMode, token_file: Path | None, *, accepts_loss: bool
) -> "ServerProcess | QuorumProcess":
    if config.quorum.kind == "etcd":
        from lattice.daemons.quorum.process import QuorumProcess

        return QuorumProcess(config, secret, start_mode, token_file, accepts_loss=accepts_loss)
    from lattice.daemons.server.process import ServerProcess

    return ServerProcess(config, secret, accepts_loss=accepts_loss)


async def _serve(
    config: ServerConfig, make: "Callable[[], ServerProcess | QuorumProcess]", *, accepts_clock: bool
) -> int:
    from lattice.core.machine.codec import UnreadableBatch
    from lattice.daemons.server.listening import ListenFailed
    from lattice.ports.quorum.archive import ArchiveError
    from lattice.ports.quorum.backups import BackupError
    from lattice.ports.quorum.log import LogError
    from lattice.ports.site.audit import AuditError
    from lattice.quorum.etcd.settings import MemberRemoved

    cannot_start: tuple[type[Exception], ...] = (
        *(ConfigError, ListenFailed, LogError, ArchiveError, UnreadableBatch, ValueError, OSError),
        *(BackupError, AuditError),
        *_refusals_of_a_quorum(config),
    )
    asked_to_stop = asyncio.Event()
    manager = ServiceManager.of_this_process()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_stop.set)
    asked = asyncio.create_task(asked_to_stop.wait())
    try:
        server = make()
        server.parts.accepts_clock = accepts_clock
        starting = asyncio.create_task(server.start())
        await asyncio.wait((asked, starting), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            _leave(0)  # nothing was served yet, so nothing can be lost
        starting.result()
    except cannot_start as error:
        return _complain(error, EXIT_REMOVED if isinstance(error, MemberRemoved) else EXIT_USAGE)
    _settle()
    manager.say_ready(f"server {config.name} serves")
    watchdog = asyncio.create_task(manager.keep_alive())
    failed = asyncio.create_task(server.failed())
    await asyncio.wait((asked, failed), return_when=asyncio.FIRST_COMPLETED)
    code = 0
    if failed.done():
        reason = failed.result()
        code = _complain(reason, EXIT_REMOVED if isinstance(reason, MemberRemoved) else EXIT_FAILED)
    # Acknowledged data is durable: a slow shutdown may be cut short.
    loop.call_later(STOP_WITHIN_S, _leave, code)
    _log.info("stopping")
    manager.say_stopping()
    await server.stop()
    failed.cancel()
    watchdog.cancel()
    return code


def _refusals_of_a_quorum(config: ServerConfig) -> tuple[type[Exception], ...]:
    """What else keeps a server of several from starting; one that is alone imports nothing of etcd."""
    if config.quorum.kind != "etcd":
        return ()
    from lattice.quorum.etcd.client import EtcdError
    from lattice.quorum.etcd.settings import MemberFailed
    from lattice.quorum.etcd.version import UnusableEtcd
    from lattice.quorum.peers.invitations import InvitationError
    from lattice.quorum.trust.certificates import CertificateError

    return MemberFailed, UnusableEtcd, CertificateError, EtcdError, InvitationError


def _settle() -> None:
    """What suits a process that serves for months instead of starting."""
    gc.enable()
    gc.set_threshold(*GC_THRESHOLDS)
    sys.setswitchinterval(SWITCH_INTERVAL_S)


def _complain(error: Exception, code: int) -> int:
    text = str(error) or type(error).__name__
    for place in _places:
        text = with_place(text, ServerConfig, place)
    sys.stderr.write(f"lattice-server: {text}\n")
    return code


def _leave(code: int) -> NoReturn:
    """Ends the process immediately: everything important is closed, and tearing down the interpreter takes time."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
