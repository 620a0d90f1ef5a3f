"""What lattice-server --check-config looks at beyond the file."""

import asyncio
import importlib
import os
import socket
import sys
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from msgspec import structs
from msgspec.structs import replace

from lattice.config.load import ConfigError
from lattice.config.redaction import redacted
from lattice.config.release import installed_release
from lattice.config.schema import ServerConfig
from lattice.config.secrets import SecretError
from lattice.config.sections.front import ApiSection
from lattice.config.sections.keeping import LogSection, ObjectStoreSection
from lattice.config.sections.quorum import PeerSection, QuorumSection
from lattice.config.sections.work import SlurmSection
from lattice.daemons.outside import local_disk
from lattice.daemons.outside.objects import object_store_of
from lattice.daemons.programs import server
from lattice.daemons.programs.server_check import check_peers, check_surroundings, connect_outcomes
from lattice.daemons.server.lost_data import note_begun
from lattice.quorum.owner import Owner, owner_of
from tests.s3_server import running_s3


def config(data_dir: Path, rest: str = "127.0.0.1:0", peers: list[PeerSection] | None = None) -> ServerConfig:
    api = ApiSection(hmac_secret="env://SECRET", rest_listen=rest, grpc_listen="127.0.0.1:0")
    return ServerConfig(data_dir=str(data_dir), api=api, name="s1", quorum=QuorumSection(peers=peers or []))


def test_a_directory_that_does_not_exist_yet_is_fine_and_stays_absent(tmp_path: Path) -> None:
    check_surroundings(config(tmp_path / "a" / "b"))
    assert not (tmp_path / "a").exists()


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"data_dir: .*/file is not a directory"):
        check_surroundings(config(tmp_path / "file" / "data"))


def test_a_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(ConfigError, match=r"data_dir: .* belongs to .*; run as its owner, or change the owner"):
        check_surroundings(config(tmp_path))


def test_data_of_another_cluster_or_server_is_refused_by_name(tmp_path: Path) -> None:
    ours = config(tmp_path)

    def named(cluster: str, server: str = "s1", kind: Literal["sqlite", "etcd"] = "sqlite") -> ServerConfig:
        return replace(
            ours, name=server, slurm=SlurmSection(cluster_name=cluster), quorum=replace(ours.quorum, kind=kind)
        )

    note_begun(ours)  # a cluster without a name, which gets one
    check_surroundings(named("alps"))
    note_begun(named("alps"))
    check_surroundings(named("alps", "renamed"))
    told = rf"data_dir: {tmp_path} has the data of cluster alps, and "
    with pytest.raises(ConfigError, match=rf"{told}this is cluster daint .*remove {tmp_path}/owner.json if .* renamed"):
        check_surroundings(named("daint"))
    with pytest.raises(ConfigError, match=f"{told}the configuration names no cluster"):
        check_surroundings(ours)
    with pytest.raises(ConfigError, match=f"data_dir: {tmp_path} has the data of server s1, and this is s2"):
        check_surroundings(named("alps", "s2", "etcd"))
    (tmp_path / "owner.json").unlink()
    check_surroundings(named("daint"))
    (tmp_path / "owner.json").write_text("{")
    check_surroundings(named("daint"))
    note_begun(named("daint"))
    assert owner_of(tmp_path) == Owner(cluster="daint", server="s1")


def test_data_of_one_server_is_not_begun_anew_as_that_of_several(tmp_path: Path) -> None:
    alone = config(tmp_path)
    several = replace(alone, quorum=replace(alone.quorum, kind="etcd"))
    (tmp_path / "log.db").write_bytes(b"log")
    check_surroundings(alone)
    with pytest.raises(ConfigError, match=r"data_dir: .*a server that was alone .*--bootstrap --recover-from"):
        check_surroundings(several)
    (tmp_path / "etcd").mkdir()
    (tmp_path / "etcd" / "member.json").write_text("{}")
    check_surroundings(several)
    (tmp_path / "log.db").unlink()
    check_surroundings(several)
    with pytest.raises(ConfigError, match=r"data_dir: .*a server that has others \(quorum.kind: etcd\)"):
        check_surroundings(alone)


def test_the_log_needs_a_local_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_disk, "file_system", lambda *_: "nfs4")
    with pytest.raises(ConfigError, match=r"is on nfs4, .*; it needs a local disk"):
        check_surroundings(config(tmp_path))


def test_a_server_does_not_start_where_its_check_would_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `--check-config` says it, and before anything is written."""
    (tmp_path / "secret").write_bytes(b"s" * 32)
    (tmp_path / "secret").chmod(0o600)
    file = tmp_path / "server.yaml"
    file.write_text(f"mode: dev\ndata_dir: {tmp_path / 'data'}\napi: {{hmac_secret: 'file://{tmp_path / 'secret'}'}}\n")
    monkeypatch.setattr(local_disk, "file_system", lambda *_: "nfs4")
    monkeypatch.setattr(server, "_leave", sys.exit)
    with pytest.raises(SystemExit) as ended:
        server.main(["--config", str(file)])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith(f"lattice-server: {file}:2:11: data_dir: {tmp_path / 'data'} is on nfs4")
    assert not (tmp_path / "data").exists()


def test_the_file_system_is_that_of_the_innermost_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"/dev/vda / ext4 rw 0 0\nfs:/x {tmp_path} nfs4 rw 0 0\ntmpfs {tmp_path}/in\\040memory tmpfs rw 0 0\n"
    )
    assert local_disk.file_system(tmp_path / "data", mounts) == "nfs4"
    assert local_disk.file_system(tmp_path / "in memory" / "data", mounts) == "tmpfs"
    assert local_disk.file_system(Path("/"), mounts) == "ext4"
    assert local_disk.file_system(tmp_path, tmp_path / "none") == ""


def test_a_port_in_use_is_named_with_its_key(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=r"api.rest_listen: cannot listen on .* in use"):
            check_surroundings(config(tmp_path, address))


def test_the_other_servers_are_tried(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        here = f"127.0.0.1:{there.getsockname()[1]}"
        with socket.create_server(("127.0.0.1", 0)) as closed:
            away = f"127.0.0.1:{closed.getsockname()[1]}"
        peers = [
            PeerSection(name=name, rest="http://h:1", grpc="h:2", client=client, peer=here)
            for name, client in (("s1", away), ("s2", away))
        ]
        outcomes = list(connect_outcomes(config(tmp_path, peers=peers)))
    assert outcomes == [
        (f"server s2, etcd client port {away}", "Connection refused"),
        (f"server s2, etcd peer port {here}", ""),
    ]


def with_store(tmp_path: Path, **keys: object) -> ServerConfig:
    section = msgspec.convert(keys, ObjectStoreSection)
    return structs.replace(config(tmp_path / "data"), object_store=section, mode=str(keys.get("mode", "dev")))


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"bucket": "b-1", "directory": "/srv"}, "give either `directory` or `bucket`"),
        ({"bucket": "Not A Bucket"}, "is not the name of a bucket"),
        ({"endpoint": "https://s3"}, "object_store.endpoint needs object_store.bucket"),
        ({"key_secret": "env://X"}, "object_store.key_secret needs object_store.bucket"),
        ({"bucket": "b-1", "endpoint": "s3.example.org"}, "begins with https://"),
        ({"bucket": "b-1", "mode": "production", "endpoint": "http://s3"}, "must be https in production"),
        ({"bucket": "b-1", "key_id": "k", "key_secret": "k", "mode": "production"}, "may not stand in the file itself"),
        ({"bucket": "b-1", "key_id": "k", "key_secret": "env://NOT_SET"}, "variable NOT_SET is not set"),
        ({"bucket": "b-1", "key_secret": "s"}, "object_store.key_id: empty"),
        ({"bucket": "b-1", "key_id": "k", "key_secret": "s", "ca_file": "/not/there"}, "cannot read /not/there"),
        ({"tenants": {"bio": "b-2"}}, "object_store.tenants needs object_store.bucket"),
        ({"bucket": "b-1", "tenants": {"bio": "B"}}, "object_store.tenants.bio: 'B' is not the name of a bucket"),
        ({"bucket": "b-1", "tenants": {"bio": "b-1"}}, "'b-1' is the bucket of object_store.bucket already"),
    ],
)
def test_a_store_that_cannot_be_is_refused_by_its_key(tmp_path: Path, keys: dict[str, object], why: str) -> None:
    with pytest.raises((ConfigError, SecretError), match=why):
        object_store_of(with_store(tmp_path, **keys))


def test_a_log_file_in_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    log = LogSection(file=str(tmp_path / "none" / "server.log"))
    with pytest.raises(ConfigError, match=r"log\.file: .*none, or it does not exist"):
        check_surroundings(replace(config(tmp_path), log=log))


def test_a_bucket_without_its_library_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lattice.integrations.s3.store", None)
    with pytest.raises(ConfigError, match=r"install lattice-hpc\[s3\]"):
        object_store_of(with_store(tmp_path, bucket="b-1", key_id="k", key_secret="s"))


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert list(connect_outcomes(with_store(tmp_path, directory=str(tmp_path / "made" / "later")))) == [
        (f"object store {tmp_path}/made/later", "")
    ]
    ((_, why),) = connect_outcomes(with_store(tmp_path, directory=str(tmp_path / "file")))
    assert why == f"this user may not write to {tmp_path}/file"


def test_a_bucket_is_tried_and_nothing_is_left_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_SECRET", "hidden-2")
    with running_s3() as server:
        bucket = server.make_bucket("lattice-objects")
        keys = {"bucket": bucket.name, "endpoint": bucket.endpoint, "key_id": "k", "key_secret": "env://STORE_SECRET"}
        there = with_store(tmp_path, **keys)
        assert list(connect_outcomes(there)) == [("object store bucket lattice-objects", "")]

        async def left() -> list[str]:
            return [name async for name in object_store_of(there).names("")]

        assert asyncio.run(left()) == []
        ((_, why),) = connect_outcomes(with_store(tmp_path, **{**keys, "bucket": "another"}))
        assert "another" in why
        _, (what, why) = connect_outcomes(with_store(tmp_path, **keys, tenants={"bio": "bio-objects"}))
        assert what == "object store bucket bio-objects of tenant bio"
        assert "bio-objects" in why
    ((_, why),) = connect_outcomes(with_store(tmp_path, **keys, timeout=2.0))
    assert bucket.endpoint in why
    assert "hidden-2" not in f"{why}{redacted(there)}"


@pytest.mark.parametrize("module", ["server", "agent", "replay"])
def test_a_program_prints_its_version_before_it_asks_for_anything(
    module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = importlib.import_module(f"lattice.daemons.programs.{module}").build_parser()
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["--version"])
    assert ended.value.code in (0, None)
    assert capsys.readouterr().out == f"{parser.prog} {installed_release()}\n"


def peer_at(name: str, port: int) -> PeerSection:
    client, between = f"10.0.0.1:{port}", f"10.0.0.1:{port + 1}"
    return PeerSection(name=name, rest="http://s:8080", grpc="s:50051", client=client, peer=between)


@pytest.mark.parametrize(
    ("peers", "says"),
    [
        ([peer_at("s1", 1), peer_at("s1", 3)], "name s1 is used twice"),
        ([peer_at("s1", 1), peer_at("s2", 2)], "address 10.0.0.1:2 is used twice"),
        ([peer_at("s2", 1)], 'server "s1" is not listed (listed: s2)'),
    ],
)
def test_servers_that_would_take_each_others_place_are_refused(
    tmp_path: Path, peers: list[PeerSection], says: str
) -> None:
    several = replace(config(tmp_path), quorum=QuorumSection(kind="etcd", peers=peers))
    with pytest.raises(ConfigError) as refused:
        check_peers(several)
    assert says in str(refused.value)
