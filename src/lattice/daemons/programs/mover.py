"""`lattice-mover`: copies data to the hot tier, for work that waits for it, until it is stopped.

Exit codes: 0 stopped by a signal, 2 cannot start (configuration, token, directory).
"""

import argparse
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from lattice.config.load import ConfigError, load
from lattice.config.schema import ServerConfig
from lattice.config.secrets import SecretError
from lattice.config.sections.data import ColdTierSection, WarmTierSection
from lattice.daemons.outside.data import bucket_of
from lattice.daemons.outside.tiers import FILE, S3, tier_sections
from lattice.daemons.outside.vaults import vault_of
from lattice.integrations.directory.source import DirectorySource
from lattice.mover.making import Answer
from lattice.mover.service import Mover, ServersGone
from lattice.mover.tier import HotTier
from lattice.observe.logging import configure
from lattice.ports.data.sources import Source, SourceError
from lattice.wire.data.moving import CopyProgress, CopyReport, CopyTask, MoverTasks, OldGeneration
from lattice_sdk.client import Client
from lattice_sdk.errors import LatticeError

EXIT_USAGE = 2  # cannot start: invalid options or configuration, or a tier that cannot be used
RETRY_FOR_S = 5.0
_log = logging.getLogger(__name__)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lattice-mover",
        description="copy data to the hot tier for work that waits for it; several movers share the work",
    )
    add = parser.add_argument
    add(
        "--config", required=True, type=Path, metavar="FILE", help="configuration file of the servers; its section data"
    )
    add(
        "--set",
        action="append",
        default=[],
        dest="overrides",
        metavar="KEY=VALUE",
        help="override one setting of the file; may be repeated",
    )
    add("--servers", required=True, metavar="URL,...", help="addresses of the servers' REST API")
    add("--token-file", required=True, type=Path, metavar="FILE", help="file with a token of the scope data:move")
    add("--ca-file", type=Path, metavar="FILE", help="PEM file with authorities of the servers (default: the system's)")
    add("--name", default="", metavar="NAME", help="name of this mover (default: host and process number)")
    add(
        "--concurrency", type=int, default=4, metavar="COUNT", help="copies that are made at the same time (default: 4)"
    )
    return parser


def main(words: Sequence[str] | None = None) -> int:
    options = build_parser().parse_args(words)
    try:
        config = load(options.config, ServerConfig, options.overrides)
        sources = SourceTable(config)
    except (ConfigError, SecretError) as error:
        print(f"lattice-mover: {error}", file=sys.stderr)  # noqa: T201 - no log yet
        return EXIT_USAGE
    configure("mover", config.log_level)
    hot = config.data.tiers.hot.directory
    if not hot or not 1 <= options.concurrency <= 64:
        what = "data.tiers.hot.directory is not set" if not hot else "--concurrency: from 1 to 64"
        print(f"lattice-mover: {what}", file=sys.stderr)  # noqa: T201
        return EXIT_USAGE
    tier = HotTier(Path(hot))
    try:
        tier.prepare()
    except OSError as error:
        print(f"lattice-mover: cannot use {hot}: {error.strerror}", file=sys.stderr)  # noqa: T201
        return EXIT_USAGE
    name = options.name or f"{socket.gethostname().split('.')[0]}-{os.getpid()}"
    mover = Mover(tier, sources.open, _connector(options, name), options.concurrency)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: mover.end())
    _log.info("mover %s copies to %s", name, hot)
    mover.run()
    return 0


class SourceTable:
    """The sources of a configuration. Raises ConfigError and SecretError where one cannot be."""

    def __init__(self, config: ServerConfig) -> None:
        self._folders: list[tuple[str, tuple[str, ...]]] = []
        self._buckets: dict[str, Callable[[str], Source]] = {}
        for key, tier in tier_sections(config):
            if tier.url.startswith(S3):
                self._buckets[tier.url.removeprefix(S3)] = _bucket(config, key, tier)
            else:
                recall = tuple(tier.recall) if isinstance(tier, ColdTierSection) else ()
                self._folders.append((tier.url.removeprefix(FILE), recall))
        self._folders.sort(key=lambda folder: -len(folder[0]))

    def open(self, source: str) -> Source:
        """Raises SourceError for one that no tier has."""
        if source.startswith(FILE):
            path = source.removeprefix(FILE)
            for root, recall in self._folders:
                if path == root or path.startswith(f"{root}/"):
                    return DirectorySource(root, path, recall)
        elif source.startswith(S3):
            name, _, prefix = source.removeprefix(S3).partition("/")
            if name in self._buckets:
                return self._buckets[name](prefix)
        raise SourceError(f"{source} is in no tier of this mover")


def _bucket(config: ServerConfig, key: str, tier: WarmTierSection) -> Callable[[str], Source]:
    bucket = bucket_of(key, tier, config.mode, vault_of(config))
    from lattice.integrations.s3.archive import Archive
    from lattice.integrations.s3.source import BucketSource

    if isinstance(tier, ColdTierSection):
        archive = Archive(bucket, days=tier.restore_days, speed=tier.restore_speed)
        return lambda prefix: BucketSource(bucket, prefix, archive)
    return lambda prefix: BucketSource(bucket, prefix)


def _connector(options: argparse.Namespace, name: str) -> Callable[[], "RestServers"]:
    def connect() -> RestServers:
        client = Client(
            options.servers,
            token_file=options.token_file,
            ca_file=options.ca_file,
            retry_for=RETRY_FOR_S,
        )
        return RestServers(client, name)

    return connect


class RestServers:
    """Implements `Servers` over the REST API."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self._name = client, name

    def ask(
        self, *, slots: int, wait_s: float, progress: list[CopyProgress], hot_total: int, hot_free: int
    ) -> MoverTasks:
        try:
            told = self._client.ask_for_data_work(
                self._name,
                slots=slots,
                wait_s=wait_s,
                progress=[{name: getattr(each, name) for name in each.__struct_fields__} for each in progress],
                hot_total=hot_total,
                hot_free=hot_free,
            )
        except LatticeError as error:
            raise ServersGone(str(error)) from error
        return MoverTasks(
            tasks=tuple(
                CopyTask(**{name: getattr(each, name) for name in CopyTask.__struct_fields__}) for each in told.tasks
            ),
            remove=tuple(OldGeneration(key=each.key, generation=each.generation) for each in told.remove),
            stop=tuple(told.stop),
            bytes_per_s=told.bytes_per_s,
        )

    def report(self, *reports: CopyReport) -> Answer:
        said = [{name: getattr(each, name) for name in each.__struct_fields__} for each in reports]
        try:
            told = self._client.report_data_work(self._name, said)
        except LatticeError as error:
            raise ServersGone(str(error)) from error
        return Answer(told.answers[-1].go_on, told.answers[-1].reason)
