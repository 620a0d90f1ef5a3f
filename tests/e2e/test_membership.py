"""Servers that come and go: invited, joined, promoted, removed; certificates renewed under load; mistakes told plainly."""

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from lattice.api.auth.tokens import sign_token
from lattice.quorum.etcd.client import EtcdClient, EtcdDenied, EtcdUnavailable
from lattice.quorum.trust.certificates import CLIENT_NAME, CertificateFolder, create_authority, install, issue
from lattice.testing import LocalCluster, NotInTime, eventually
from lattice.wire.pb import etcd_pb2 as pb
from lattice_sdk import Client, LatticeError, Submission
from tests.conftest import require_program
from tests.integration.quorum.etcd_world import free_address

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]

SERVER = Path(sys.executable).with_name("lattice-server")
LATTICE = [str(Path(sys.executable).with_name("lattice"))]
JOIN_WITHIN_S = 120


class NewServer:
    """A server on a "machine" of its own: nothing but a configuration."""

    def __init__(self, name: str, folder: Path, *, secret: Path, objects: Path) -> None:
        self.name = name
        self.data = folder / name / "data"
        self.config = folder / name / "server.yaml"
        self.log = folder / name / "server.log"
        self.token = folder / f"{name}.join"
        self.url = f"http://{free_address()}"
        self.process: subprocess.Popen[bytes] | None = None
        peer = {
            "name": name,
            "rest": self.url,
            "grpc": free_address(),
            "client": free_address(),
            "peer": free_address(),
        }
        self.config.parent.mkdir(parents=True)
        settings = {
            "name": name,
            "mode": "dev",
            "data_dir": str(self.data),
            "api": {
                "rest_listen": self.url.removeprefix("http://"),
                "grpc_listen": peer["grpc"],
                "hmac_secret": f"file://{secret}",
            },
            # By default these ports follow that of the peers, where another server of the test may listen.
            "quorum": {
                "kind": "etcd",
                "peers": [peer],
                "internal_listen": "127.0.0.1:0",
                "relay_listen": "127.0.0.1:0",
            },
            "object_store": {"directory": str(objects)},
        }
        self.config.write_text(yaml.safe_dump(settings))

    def start(self, *words: str) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(SERVER), "--config", str(self.config), *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={name: value for name, value in os.environ.items() if not name.startswith("LATTICE_")},
                cwd="/",
            )

    def run(self, *words: str) -> tuple[int, str]:
        """Until it ends; its code and its last line."""
        self.start(*words)
        code = self.wait_end()
        return code, self.log.read_text().strip().splitlines()[-1]

    def wait_end(self, within_s: float = 120) -> int:
        assert self.process is not None
        return self.process.wait(within_s)

    def wait_serving(self) -> None:
        def serves() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.log.read_text()[-2000:]
            return (self.data / "endpoints.json").exists()

        try:
            eventually(serves, f"{self.name} serves", within_s=JOIN_WITHIN_S)
        except NotInTime as error:
            raise NotInTime(f"{error}; its log ends with {self.log.read_text()[-2000:]}") from None

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def machine(cluster: LocalCluster, name: str, folder: Path, secret: Path | None = None) -> Iterator[NewServer]:
    directory = cluster.directory
    server = NewServer(name, folder, secret=secret or directory / "secret", objects=directory / "objects")
    try:
        yield server
    except BaseException:
        # No member is left behind that does not answer.
        server.end()
        cluster.cli("admin", "raft", "members", "remove", name, check=False)
        raise
    finally:
        server.end()


@pytest.fixture(scope="module")
def servers() -> Iterator[LocalCluster]:
    require_program("etcd")
    # Its node is never lost: a busy machine keeps a heartbeat for longer than usual here.
    lasting = {"node_agent.heartbeat_timeout_s": "30", "node_agent.grace_period_s": "60"}
    settings = {"snapshots.every_commands": "40", "archive.after_s": "0", **lasting}
    with LocalCluster(nodes=1, servers=3, settings=settings) as cluster:
        yield cluster


def members(cluster: LocalCluster) -> dict[str, dict[str, Any]]:
    listed = json.loads(cluster.cli("admin", "raft", "members", "list", "-o", "json").stdout)
    return {member["name"]: member for member in listed}


def invite(cluster: LocalCluster, server: NewServer, *words: str) -> None:
    said = cluster.cli("admin", "raft", "members", "add", server.name, "--out", str(server.token), *words).stdout
    assert f"Invited server {server.name}" in said


def wait_agreeing(cluster: LocalCluster, names: Sequence[str]) -> None:
    def look() -> bool:
        found = cluster.get("/raft/status")["members"]
        digests = {member["digest"] for member in found}
        assert None in digests or len(digests) == 1, found
        return [member["name"] for member in found] == sorted(names) and None not in digests

    eventually(look, f"{names} agree", within_s=120, every_s=0.25)


def test_a_server_joins_by_invitation_serves_and_is_removed_again(servers: LocalCluster, tmp_path: Path) -> None:
    first = servers.run("true", name="before")
    for _ in range(20):
        servers.submit("true")
    eventually(lambda: servers.get("/allocations/count")["total"] == 0, "all is archived", within_s=180)
    with machine(servers, "s4", tmp_path) as fresh:
        invite(servers, fresh)
        assert stat.S_IMODE(fresh.token.stat().st_mode) == 0o600
        assert members(servers)["s4"]["role"] == "invited"
        fresh.start("--join", "--join-token-file", str(fresh.token))
        fresh.wait_serving()
        assert "installed snapshot" in fresh.log.read_text()  # the log does not reach back to its beginning
        wait_agreeing(servers, ["s1", "s2", "s3", "s4"])
        assert members(servers)["s4"]["role"] == "voter"
        with Client(fresh.url, token=servers.token) as client:
            assert client.get_allocation(first["id"]).name == "before"
            done = client.submit(Submission(entrypoint="echo from s4"))
        assert servers.wait_end(done.id)["state"] == "Completed"
        leads = servers.cli("admin", "raft", "members", "transfer-leader", "s4").stdout
        assert leads.split() == ["Leader:", "s4"]
        servers.submit("true")
        # It goes on as a member without a word of how it became one, and keeps finding the others.
        assert fresh.process is not None
        fresh.process.send_signal(signal.SIGTERM)
        assert fresh.wait_end() == 0
        fresh.start()
        fresh.wait_serving()
        wait_agreeing(servers, ["s1", "s2", "s3", "s4"])
        said = servers.cli("admin", "raft", "members", "remove", "s4").stdout
        assert said == "Removed server s4; 3 servers are left, of which 1 may fail\n"
        assert fresh.wait_end() == 3
        assert "was removed from the cluster" in fresh.log.read_text()
        assert fresh.run()[0] == 3
        wait_agreeing(servers, ["s1", "s2", "s3"])
        assert "s4" not in members(servers)


def test_an_invitation_is_good_for_one_server_with_the_right_name_and_secret(
    servers: LocalCluster, tmp_path: Path
) -> None:
    other = tmp_path / "secret"
    other.write_text("another secret that signs other tokens")
    other.chmod(0o600)
    with machine(servers, "s5", tmp_path / "a") as fresh, machine(servers, "s5", tmp_path / "b") as second:
        invite(servers, fresh)
        with machine(servers, "s6", tmp_path / "c") as named:
            code, said = named.run("--join", "--join-token-file", str(fresh.token))
            assert (code, 'an invitation for server "s5"' in said) == (2, True), said
        with machine(servers, "s5", tmp_path / "d", secret=other) as foreign:
            code, said = foreign.run("--join", "--join-token-file", str(fresh.token))
            assert (code, "api.hmac_secret" in said) == (2, True), said
        # The refused one has bound the invitation to its keys: nobody else can use it any more.
        code, said = second.run("--join", "--join-token-file", str(fresh.token))
        assert (code, "was already used" in said) == (2, True), said
        code, said = second.run("--join")
        assert (code, "members add s5" in said) == (2, True), said
        servers.cli("admin", "raft", "members", "remove", "s5")
        code, said = second.run("--join", "--join-token-file", str(fresh.token))
        assert (code, "create a new one" in said) == (2, True), said
    refused = servers.cli("admin", "raft", "members", "add", "s1", check=False)
    assert (refused.returncode, "already" in refused.stderr) == (1, True)
    unknown = servers.cli("admin", "raft", "members", "remove", "s9", check=False)
    assert (unknown.returncode, "known: s1, s2, s3" in unknown.stderr) == (4, True)


def lone_server(folder: Path) -> tuple[NewServer, tuple[str, ...]]:
    """The first server of a new cluster, and the words with which an administrator reaches it."""
    secret, token_file = folder / "secret", folder / "token"
    for path, text in ((secret, b"0123456789abcdef" * 2), (token_file, b"")):
        path.write_bytes(text)
        path.chmod(0o600)
    token_file.write_text(
        sign_token(secret.read_bytes(), user="root", scope="admin", issued_at_s=int(time.time()), lifetime_s=600)
    )
    server = NewServer("s1", folder, secret=secret, objects=folder / "objects")
    return server, ("--api-url", server.url, "--token-file", str(token_file))


def test_a_cluster_grows_from_one_server_as_the_guide_says(tmp_path: Path) -> None:
    require_program("etcd")
    first, reach = lone_server(tmp_path)
    token_file = tmp_path / "token"
    second = NewServer("s2", tmp_path, secret=tmp_path / "secret", objects=tmp_path / "objects")
    program = [*LATTICE, "admin", "raft"]
    try:
        first.start("--bootstrap")
        first.wait_serving()
        subprocess.run([*program, "members", "add", "s2", "--out", str(second.token), *reach], check=True)
        second.start("--join", "--join-token-file", str(second.token))
        second.wait_serving()

        def healthy() -> list[str]:
            done = subprocess.run([*program, "members", "list", "-o", "json", *reach], check=True, capture_output=True)
            return [each["name"] for each in json.loads(done.stdout) if each["healthy"]]

        eventually(lambda: healthy() == ["s1", "s2"], "both are healthy")
        with Client(second.url, token=token_file.read_text()) as client:
            client.submit(Submission(entrypoint="true"))
        again = subprocess.run(
            [str(SERVER), "--config", str(first.config), "--bootstrap", "--set", f"data_dir={first.data}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert again.returncode == 2
    finally:
        first.end()
        second.end()


async def is_allowed(ask: Callable[[], Awaitable[object]], within_s: float = 60) -> bool:
    """A member that has no leader for a moment, or is slow, is asked again: it has neither allowed nor denied anything."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            await ask()
        except EtcdDenied:
            return False
        except EtcdUnavailable:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)
        else:
            return True


def let_in(certificates: CertificateFolder, endpoint: str) -> bool:
    """Whether one member of etcd lets the holder of these certificates read and write; it may not do just one of them."""

    async def ask() -> bool:
        async with EtcdClient([endpoint], certificates) as client:
            for _ in range(2):
                may_read = await is_allowed(
                    lambda: client.range(pb.RangeRequest(key=b"lattice/", range_end=b"lattice0", limit=1))
                )
                may_write = await is_allowed(lambda: client.put(pb.PutRequest(key=b"intruder", value=b"was here")))
                if may_read == may_write:
                    break
                # Its access may have ended between the two; then it may do neither now.
                assert may_read
            assert may_read == may_write
        return may_read

    return asyncio.run(ask())


def endpoints(cluster: LocalCluster) -> dict[str, str]:
    """The client ports of the members, by their servers."""
    configured = (
        yaml.safe_load((cluster.directory / "servers" / name / "server.yaml").read_text()) for name in cluster.urls
    )
    return {peer["name"]: peer["client"] for config in configured for peer in config["quorum"]["peers"]}


def test_a_backup_is_fetched_from_whichever_server_has_it(servers: LocalCluster) -> None:
    def said(*words: str) -> dict[str, Any]:
        return dict(json.loads(servers.cli("admin", "backup", *words, "-o", "json").stdout))

    maker = said("create")["server"]
    made = said("create")
    name = made["path"].rpartition("/")[2]
    assert made["held_by"] == [maker]
    other, third = (each for each in sorted(servers.urls) if each != maker)
    copy = said("fetch", name, "--to", other)
    assert (copy["held_by"], copy["digest"], copy["server"]) == ([other], made["digest"], maker)
    assert copy["path"] != made["path"]
    servers.cli("admin", "raft", "transfer-leader", third)
    fetched = said("fetch", made["path"], "--from", maker)
    assert fetched["held_by"] == [third]
    assert said("fetch", name) == fetched  # a second time: it is there
    # What lies on this machine can be verified and restored without a server.
    assert said("verify", fetched["path"])["digest"] == made["digest"]
    listed = json.loads(servers.cli("admin", "backup", "list", "-o", "json").stdout)
    assert sorted(each["held_by"] for each in listed if each["digest"] == made["digest"]) == [
        [each] for each in sorted(servers.urls)
    ]
    for words, text in (
        (("/etc",), "no server that answers has a backup '/etc'"),
        (("../../etc",), "no server that answers"),
        ((name, "--from", "s9"), "there is no server 's9'"),
        ((name, "--to", "../s1"), "there is no server"),
    ):
        refused = servers.cli("admin", "backup", "fetch", *words, check=False)
        assert (refused.returncode, text in refused.stderr) == (4, True), refused
    status, answer = servers.request("POST", "/admin/backup/fetch", {"path": name}, token=servers.agent_token)
    assert (status, answer["error"]["code"]) == (403, "forbidden")


def test_a_removed_server_reads_and_writes_the_log_no_more(servers: LocalCluster, tmp_path: Path) -> None:
    with machine(servers, "s4", tmp_path) as fresh:
        invite(servers, fresh)
        fresh.start("--join", "--join-token-file", str(fresh.token))
        fresh.wait_serving()
        wait_agreeing(servers, ["s1", "s2", "s3", "s4"])
        own = CertificateFolder(fresh.data / "certificates")
        assert all(let_in(own, endpoint) for endpoint in endpoints(servers).values())
        # Also the one that leads, and that removes itself.
        servers.cli("admin", "raft", "transfer-leader", "s4")
        servers.cli("admin", "raft", "members", "remove", "s4")
        assert [let_in(own, endpoint) for endpoint in endpoints(servers).values()] == [False] * 3
        assert fresh.wait_end() == 3
        kept = CertificateFolder(tmp_path / "kept")
        shutil.copytree(own.path, kept.path, symlinks=True)
        for path in fresh.data.iterdir():
            if path.is_dir() and path != own.path:
                shutil.rmtree(path)
            elif path != own.path:
                path.unlink()
        fresh.token.unlink()
        servers.run("true")
        # Its successor of the same name is let in, with new certificates, though the former ones were left behind.
        invite(servers, fresh)
        fresh.start("--join", "--join-token-file", str(fresh.token))
        fresh.wait_serving()
        wait_agreeing(servers, ["s1", "s2", "s3", "s4"])
        servers.cli("admin", "raft", "rotate-certificates")
        assert all(let_in(own, endpoint) for endpoint in endpoints(servers).values())
        assert not any(let_in(kept, endpoint) for endpoint in endpoints(servers).values())
        servers.cli("admin", "raft", "members", "remove", "s4")
        assert fresh.wait_end() == 3
    servers.run("true")


def spoil_the_end(wal: Path) -> None:
    """As a disk does that lost its last writes. etcd fills the file with zeros beforehand."""
    content = wal.read_bytes()
    end = len(content.rstrip(b"\0"))
    with wal.open("r+b") as file:
        file.seek(end - 1)
        file.write(bytes([content[end - 1] ^ 0x10]))


def test_a_member_whose_log_lost_its_end_says_what_to_do_and_comes_back_that_way(
    servers: LocalCluster, tmp_path: Path
) -> None:
    with machine(servers, "s5", tmp_path) as fresh:
        invite(servers, fresh)
        fresh.start("--join", "--join-token-file", str(fresh.token))
        fresh.wait_serving()
        wait_agreeing(servers, ["s1", "s2", "s3", "s5"])
        done = servers.run("true")
        wait_agreeing(servers, ["s1", "s2", "s3", "s5"])
        fresh.end()
        (wal,) = sorted((fresh.data / "etcd").rglob("*.wal"))[-1:]
        spoil_the_end(wal)
        (fresh.data / "endpoints.json").unlink(missing_ok=True)
        code, said = fresh.run()
        assert (code, "its data is damaged" in said, "members remove s5" in said) == (2, True, True), said
        servers.cli("admin", "raft", "members", "remove", "s5")
        shutil.rmtree(fresh.data)
        fresh.token.unlink()
        invite(servers, fresh)
        fresh.start("--join", "--join-token-file", str(fresh.token))
        fresh.wait_serving()
        wait_agreeing(servers, ["s1", "s2", "s3", "s5"])
        with Client(fresh.url, token=servers.token) as client:
            assert client.get_allocation(done["id"]).state == "Completed"
        servers.cli("admin", "raft", "members", "remove", "s5")
        assert fresh.wait_end() == 3


def test_users_of_etcd_are_required_after_an_upgrade_is_finalized(tmp_path: Path) -> None:
    require_program("etcd")
    server, reach = lone_server(tmp_path)
    # As the release before made them: no certificate names a user.
    folder, former = CertificateFolder(server.data / "certificates"), CertificateFolder(tmp_path / "former")
    server.data.mkdir(mode=0o700)
    create_authority(folder)
    install(folder, issue(folder, ["127.0.0.1"], name="s1", user=CLIENT_NAME))
    install(former, issue(folder, ["127.0.0.1"], name="s1", user=CLIENT_NAME))
    endpoint = yaml.safe_load(server.config.read_text())["quorum"]["peers"][0]["client"]
    try:
        server.start("--bootstrap", "--set", "upgrade.auto_finalize=false")
        server.wait_serving()
        assert folder.user().startswith("s1:")
        assert let_in(former, endpoint)
        subprocess.run([*LATTICE, "admin", "upgrade", "finalize", *reach], check=True)
        eventually(lambda: not let_in(former, endpoint), "certificates without a user are refused", within_s=60)
        assert let_in(folder, endpoint)
        assert server.process is not None
        server.process.send_signal(signal.SIGTERM)
        assert server.wait_end() == 0
        server.start()
        server.wait_serving()
        assert not let_in(former, endpoint)
        subprocess.run([*LATTICE, "submit", *reach, "--", "true"], check=True)
    finally:
        server.end()


class Load:
    """One client after the other, at every server, until told to stop."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._over = threading.Event()
        self.done = 0
        self.problems: list[str] = []
        self._threads = [threading.Thread(target=self._submit, args=(url,)) for url in cluster.urls.values()]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _submit(self, url: str) -> None:
        # Without repeating anything: what fails is seen.
        with Client(url, token=self._cluster.token, retry_for=0) as client:
            while not self._over.wait(0.1):
                try:
                    client.submit(Submission(entrypoint="true"))
                    self.done += 1
                except LatticeError as error:
                    self.problems.append(str(error))

    def wait_for_more(self, count: int) -> None:
        goal = self.done + count
        eventually(lambda: self.done >= goal, f"{count} more submissions", within_s=90)


def test_certificates_are_renewed_without_a_failed_request(servers: LocalCluster) -> None:
    before = {name: member["certificate_serial"] for name, member in members(servers).items()}
    with Load(servers) as load:
        load.wait_for_more(20)
        for _ in range(2):
            said = servers.cli("admin", "raft", "rotate-certificates", "-o", "json").stdout
            assert all(each["renewed"] for each in json.loads(said))
            load.wait_for_more(20)
    assert load.problems == []
    after = {member["name"]: member["certificate_serial"] for member in servers.get("/raft/status")["members"]}
    assert set(after) == set(before)
    assert not set(after.values()) & set(before.values())
    # Fresh connections between all of them, with the new certificates only.
    leader = servers.leader()
    for name in itertools.islice((name for name in servers.urls if name != leader), 1):
        servers.cli("admin", "raft", "transfer-leader", name)
        assert servers.leader() == name
    servers.run("true", within_s=240)  # behind all of the load


def test_a_server_that_the_majority_needs_is_not_removed() -> None:
    require_program("etcd")
    with LocalCluster(nodes=0, servers=3, restart=False) as cluster:
        leader = cluster.leader()
        gone, other = (name for name in cluster.urls if name != leader)
        cluster.kill("etcd", gone)
        cluster.kill("server", gone)
        refused = cluster.cli("admin", "raft", "members", "remove", other, check=False)
        assert refused.returncode == 1
        assert f"without {other} only 1 of 2 members would answer, but 2 are needed" in refused.stderr
        assert cluster.leader() == leader
        # The one that is lost may go, and leadership moves away from one that is removed.
        cluster.cli("admin", "raft", "members", "remove", gone)
        there = ("--api-url", cluster.urls[other], "--token-file", str(cluster.directory / "token"))
        said = cluster.cli("admin", "raft", "members", "remove", leader, *there).stdout
        assert said == f"Removed server {leader}; 1 server is left, of which none may fail\n"
        # Two servers worked on the request: the one that gave up its leadership, and the next leader.
        recorded = json.loads(cluster.cli("audit", "query", "-o", "json", *there).stdout)
        removals = [entry for entry in recorded if (entry["type"], entry["subject"]) == ("server.remove", leader)]
        assert [entry["outcome"] for entry in removals] == ["begun"]
        eventually(
            lambda: cluster.request("POST", "/allocations", {"entrypoint": "true"}, server=other)[0] == 201,
            "the last one serves",
            within_s=90,
        )
        last = cluster.cli("admin", "raft", "members", "remove", other, *there, check=False)
        assert (last.returncode, "cannot be empty" in last.stderr) == (1, True)
        cluster.stop()
        cluster.start()
        assert [name for name, member in members(cluster).items() if member["healthy"]] == [other]


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("/nonexistent/etcd", "is not installed; install etcd 3.4.22 or newer, or 3.5.6 or newer"),
        ("#!/bin/sh\necho 'etcd Version: 3.5.3'\n", "etcd 3.5.3 is known to damage its data"),
        ("#!/bin/sh\necho 'etcd Version: 3.3.27'\n", "etcd 3.3.27 is too old"),
    ],
)
def test_an_etcd_that_cannot_be_used_is_told_at_the_start(program: str, says: str, tmp_path: Path) -> None:
    if program.startswith("#!"):
        path = tmp_path / "etcd"
        path.write_text(program)
        path.chmod(0o755)
        program = str(path)
    peer = {name: free_address() for name in ("grpc", "client", "peer")}
    rest = free_address()
    config = {
        "name": "s1",
        "mode": "dev",
        "data_dir": str(tmp_path / "data"),
        "api": {"rest_listen": rest, "grpc_listen": peer["grpc"], "hmac_secret": "0123456789abcdef0123456789abcdef"},
        "quorum": {
            "kind": "etcd",
            "program": program,
            "internal_listen": "127.0.0.1:0",
            "relay_listen": "127.0.0.1:0",
            "peers": [{"name": "s1", "rest": f"http://{rest}", **peer}],
        },
    }
    (tmp_path / "server.yaml").write_text(yaml.safe_dump(config))
    begin = time.monotonic()
    ended = subprocess.run(
        [str(SERVER), "--config", str(tmp_path / "server.yaml"), "--bootstrap"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    assert says in ended.stderr.strip().splitlines()[-1]
    assert time.monotonic() - begin < 55  # less than a member may take to start
