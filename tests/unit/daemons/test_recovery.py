"""A data directory from a backup, before any server runs: what is refused, and what is said."""

import json
from pathlib import Path

import pytest

from lattice.config.load import load
from lattice.config.schema import ServerConfig
from lattice.daemons.programs import backup, server
from lattice.daemons.server.recovery import check, recover
from lattice.ports.quorum.backups import BackupError
from lattice.quorum.backup.objects import pack
from tests.integration.quorum.test_backup import backed_up
from tests.unit.quorum.world import run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup folder, and beside it the same as one file."""
    folder = tmp_path_factory.mktemp("made")
    run(backed_up(folder / "data", folder / "backup"))
    pack(folder / "backup", folder / "packed.bin")
    return folder / "backup"


def config_at(folder: Path, *more: str) -> Path:
    path = folder / "server.yaml"
    lines = [f"data_dir: {folder / 'data'}", "api: {hmac_secret: env://SECRET}", "mode: dev", *more]
    path.write_text("\n".join(lines) + "\n")
    return path


def settings(folder: Path, *more: str) -> ServerConfig:
    return load(config_at(folder, *more), ServerConfig)


def test_a_packed_snapshot_is_as_good_as_a_folder(made: Path, tmp_path: Path) -> None:
    name, manifest = check(None, made)
    packed = made.with_name("packed.bin")
    assert check(None, packed) == (str(packed), manifest)
    done = recover(settings(tmp_path), packed)
    assert (done.source, done.start.index) == (str(packed), manifest.index)
    assert name == str(made)


def test_the_object_store_is_asked_when_no_backup_is_named(made: Path, tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="no object store is configured"):
        recover(settings(tmp_path), None)
    with pytest.raises(BackupError, match="name a backup"):
        check(None, None)
    stored = tmp_path / "store" / "raft" / "snap-20260305T120000Z.bin"
    stored.parent.mkdir(parents=True)
    stored.write_bytes(made.with_name("packed.bin").read_bytes())
    config = settings(tmp_path, f"object_store: {{directory: {tmp_path / 'store'}}}")
    assert check(config, None)[0] == "raft/snap-20260305T120000Z.bin"
    assert recover(config, None).source == "raft/snap-20260305T120000Z.bin"
    with pytest.raises(BackupError, match="already contains a cluster"):
        recover(config, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "server.yaml", "store"]


def said(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [dict(json.loads(line)) for line in capsys.readouterr().out.splitlines()]


def test_the_program_tells_its_progress_and_its_result(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert backup.main(["verify", str(made)]) == 0
    *steps, last = said(capsys)
    assert {"progress", "done", "total"} == set(steps[0])
    assert last["result"]
    assert backup.main(["restore", str(made), "--config", str(config_at(tmp_path))]) == 0
    result = said(capsys)[-1]["result"]
    assert isinstance(result, dict)
    assert result["next"] == "start the server"
    assert backup.main(["restore", str(made), "--config", str(config_at(tmp_path))]) == 1
    assert "already contains a cluster" in str(said(capsys)[-1]["failed"])
    assert backup.main(["restore", str(made), "--config", str(tmp_path / "none.yaml")]) == 1


def test_recovery_is_for_the_first_start_only(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = server.build_parser().parse_args(["--config", "x", "--recover-from", "y"])
    with pytest.raises(Exception, match="need --bootstrap"):
        server._start_mode(options, settings(tmp_path))
    options = server.build_parser().parse_args(["--config", "x", "--bootstrap", "--from-object-store"])
    assert server._start_mode(options, settings(tmp_path)) == "restart"
