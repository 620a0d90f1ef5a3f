"""`lattice-backup`: verifies and restores backups without a running server; called by `lattice admin backup`.

Writes lines of JSON: {"progress": TEXT, "done": N, "total": N}, then {"result": {...}} or {"failed": TEXT, "hint": TEXT}.
Exit codes: 0 success, 1 refused or damaged, 2 wrong usage.
"""

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from lattice.config.load import ConfigError, load
from lattice.config.schema import ServerConfig
from lattice.config.secrets import SecretError
from lattice.daemons.server.recovery import check, recover
from lattice.ports.quorum.backups import BackupError

EXIT_REFUSED = 1  # the backup is damaged, or cannot be restored here


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lattice-backup", description="verify and restore backups offline")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, text in (
        ("verify", "verify the integrity of a backup"),
        ("restore", "restore a backup into an empty data directory"),
    ):
        one = verbs.add_parser(verb, help=text)
        one.add_argument(
            "path",
            nargs="?",
            type=Path,
            help="backup directory or packed snapshot (default: the newest in the object store)",
        )
        one.add_argument(
            "--config", type=Path, required=verb == "restore", metavar="FILE", help="configuration of the server"
        )
        if verb == "restore":
            one.add_argument(
                "--replaces",
                type=Path,
                metavar="DIR",
                help="former data directory; the part of its audit chain that the backup lacks is kept",
            )
        one.add_argument("--set", action="append", default=[], dest="overrides", metavar="KEY=VALUE")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(message)s")
    path = None if options.path is None else options.path.absolute()
    try:
        config = None if options.config is None else load(options.config, ServerConfig, options.overrides)
        if options.verb == "verify":
            source, manifest = check(config, path, _tell)
            _say(result=_described(source, manifest.index, manifest.epoch, manifest.digest, manifest.size_bytes))
        else:
            assert config is not None  # noqa: S101 - the option is required
            _restore(config, path, None if options.replaces is None else options.replaces.absolute())
    except (BackupError, ConfigError, SecretError) as error:
        _say(failed=str(error), hint="")
        return EXIT_REFUSED
    return 0


def _restore(config: ServerConfig, path: Path | None, replaces: Path | None) -> None:
    done = recover(config, path, _tell, replaces)
    shares_log = config.quorum.kind == "etcd"
    _say(
        result={
            "source": done.source,
            "data_dir": config.data_dir,
            "index": done.start.index,
            "epoch": done.start.epoch,
            "next": "start this server with --bootstrap, the others with --join" if shares_log else "start the server",
        }
    )


def _described(source: str, index: int, epoch: int, digest: str, size_bytes: int) -> dict[str, object]:
    return {"path": source, "index": index, "epoch": epoch, "digest": digest, "size_bytes": size_bytes}


def _tell(done: int, total: int, what: str) -> None:
    _say(progress=what, done=done, total=total)


def _say(**message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
