"""The listener for servers only, with real certificates: who is let in, what they may ask, and whose clock is wrong."""

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

import pytest
from msgspec import structs
from starlette.types import Receive, Scope, Send

from lattice.api.rest.exchange import LeaderLost, Pool
from lattice.api.rest.peer_client import PeerClient
from lattice.api.rest.peer_listener import PeerListener
from lattice.api.rest.peers import PEER, PeerApp
from lattice.daemons.server.listening import Address, bind
from lattice.ports.clock import Clock, SystemClock
from lattice.ports.quorum.backups import BackupRecord
from lattice.ports.quorum.leadership import Leadership
from lattice.ports.quorum.peers import PeerLost, PeerRefused
from lattice.ports.quorum.servers import CertificateState, MembershipRefused, ReplicaAt
from lattice.quorum.peers.clock_skew import SkewWatch
from lattice.quorum.peers.directory import ServerDirectory, ServerEntry
from lattice.quorum.peers.servers import QuorumServers
from lattice.quorum.replica import LogReplica
from lattice.quorum.trust.certificates import CertificateFolder, create_authority, install, issue, rotate
from lattice.quorum.trust.tls import PeerTls, joining_context, server_of

HOUR_MS = 3_600_000
BACKUP = BackupRecord(
    path="/b/one two", created_at="2030-01-01T00:00:00Z", server="s2", index=1, epoch=1, digest="d", size_bytes=1
)


class LateClock(SystemClock):
    """A clock that is an hour ahead."""

    def now_ms(self) -> int:
        return super().now_ms() + HOUR_MS


class Desk:
    """Implements `PeerService`."""

    async def is_member(self, name: str) -> bool:
        return name in ("s1", "s2")

    async def admit(self, request: bytes) -> bytes:
        if request != b"please":
            raise MembershipRefused("conflict", "the invitation is not known", "make a new one")
        return b"welcome"

    def replica_at(self, index: int | None) -> ReplicaAt:
        return ReplicaAt(name="s2", leads=False, applied_index=index or 7, digest="d")

    async def hand_over(self) -> AsyncIterator[bytes]:
        for piece in (b"one ", b"two"):
            yield piece

    async def backups(self) -> list[BackupRecord]:
        return [BACKUP]

    async def verify_backup(self, path: str) -> BackupRecord:
        if path != BACKUP.path:
            raise MembershipRefused("not_found", f"{path}: no such backup")
        return BACKUP

    async def backup_file(self, path: str, name: str, offset: int) -> AsyncIterator[bytes]:
        if path != BACKUP.path:
            raise MembershipRefused("not_found", f"{path}: no such backup")
        yield f"{name} from {offset}".encode()
        if name == "broken":
            raise RuntimeError("the disk is gone")

    async def fetch_backup(self, path: str, server: str) -> BackupRecord:
        return structs.replace(BACKUP, server=server, path=path)

    async def renew(self) -> CertificateState:
        return CertificateState(serial="2", expires_at_ms=1)


async def users(scope: Scope, receive: Receive, send: Send) -> None:
    """Says who handed the request on."""
    body = json.dumps({"peer": scope[PEER]}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


def certificates(folder: Path, *names: str) -> dict[str, CertificateFolder]:
    authority = CertificateFolder(folder / "authority")
    create_authority(authority)
    made = {name: CertificateFolder(folder / name) for name in names}
    for name, target in made.items():
        install(target, issue(authority, ["127.0.0.1"], name=name))
    return {"authority": authority, **made}


@asynccontextmanager
async def listening(folder: CertificateFolder, clock: Clock | None = None) -> AsyncIterator[tuple[str, PeerTls]]:
    app = PeerApp(users, clock or SystemClock())
    app.service = Desk()
    tls = PeerTls(folder)
    listener = PeerListener(app, tls.server, server_of)
    bound = bind(Address("127.0.0.1", 0), "test")
    await listener.start(bound)
    try:
        yield f"https://127.0.0.1:{bound.getsockname()[1]}", tls
    finally:
        await listener.stop()


async def ask(context: ssl.SSLContext, url: str, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    pool = Pool(context)
    try:
        head = f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
        exchange = await pool.begin(url, head.encode() + body)
        return exchange.status, await exchange.body()
    finally:
        pool.close()


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 30))


def test_servers_are_known_by_their_certificates_and_others_may_only_show_an_invitation(tmp_path: Path) -> None:
    made = certificates(tmp_path / "ours", "s1", "s2", "removed")
    strangers = certificates(tmp_path / "theirs", "s1")

    async def scenario() -> None:
        async with listening(made["s2"]) as (url, _):
            peer = PeerTls(made["s1"]).client
            assert await ask(peer, url, "GET", "/v1/nodes") == (200, b'{"peer": "s1"}')
            status, body = await ask(peer, url, "GET", "/peer/replica?index=5")
            assert (status, json.loads(body)["applied_index"]) == (200, 5)
            assert await ask(peer, url, "GET", "/peer/snapshot") == (200, b"one two")
            assert (await ask(peer, url, "POST", "/peer/certificates"))[0] == 200
            assert (await ask(peer, url, "GET", "/peer/other"))[0] == 404
            status, body = await ask(peer, url, "GET", "/peer/backups")
            assert (status, json.loads(body)[0]["path"]) == (200, BACKUP.path)
            assert (await ask(peer, url, "POST", "/peer/backups/verify?path=%2Fb%2Fone%20two"))[0] == 200
            assert (await ask(peer, url, "POST", "/peer/backups/verify?path=%2Fb"))[0] == 404
            status, body = await ask(PeerTls(made["removed"]).client, url, "GET", "/peer/snapshot")
            assert (status, b"does not belong" in body) == (403, True)
            # What a user asked of a server that was removed a moment ago is asked again elsewhere.
            status, body = await ask(PeerTls(made["removed"]).client, url, "GET", "/v1/nodes")
            assert (status, b"does not belong" in body) == (503, True)
            nobody = joining_context(made["authority"].trusted.read_bytes())
            for path in ("/v1/nodes", "/peer/replica", "/peer/snapshot"):
                status, body = await ask(nobody, url, "GET", path)
                assert (status, b"certificate of theirs is needed" in body) == (403, True)
            assert await ask(nobody, url, "POST", "/peer/join", b"please") == (200, b"welcome")
            status, body = await ask(nobody, url, "POST", "/peer/join", b"let me in")
            assert (status, b"not known" in body) == (409, True)
            # A certificate of another authority, and a listener of another authority: no connection at all.
            theirs = PeerTls(strangers["s1"]).client
            with pytest.raises(LeaderLost, match="certificate"):
                await ask(theirs, url, "GET", "/v1/nodes")
            theirs.load_verify_locations(made["authority"].trusted)
            with pytest.raises(LeaderLost):
                await ask(theirs, url, "GET", "/v1/nodes")

    run(scenario())


def test_files_of_backups_travel_between_servers_and_a_broken_answer_is_noticed(tmp_path: Path) -> None:
    made = certificates(tmp_path / "ours", "s1", "s2", "removed")

    async def scenario() -> None:
        async with listening(made["s2"]) as (url, _):
            pool = Pool(PeerTls(made["s1"]).client)
            calls = PeerClient(pool)
            got = [piece async for piece in calls.backup_file(url, BACKUP.path, "archive.db&offset=9", 7)]
            assert got == [b"archive.db&offset=9 from 7"]
            assert (await calls.fetch_backup(url, "a b", "s3")).server == "s3"
            with pytest.raises(PeerRefused, match="no such backup"):
                [piece async for piece in calls.backup_file(url, "/etc", "passwd", 0)]
            with pytest.raises(PeerLost) as broken:
                [piece async for piece in calls.backup_file(url, BACKUP.path, "broken", 0)]
            assert not isinstance(broken.value, PeerRefused)
            pool.close()
            asked = "/peer/backups/file?path=%2Fb%2Fone%20two&name=n&offset="
            for offset in ("-1", "1" * 5000, "x", "\u00b2"):
                status, body = await ask(PeerTls(made["s1"]).client, url, "GET", asked + quote(offset))
                assert (status, body) == (200, b"n from 0")
            for context in (PeerTls(made["removed"]).client, joining_context(made["authority"].trusted.read_bytes())):
                assert (await ask(context, url, "GET", f"{asked}0"))[0] == 403
                assert (await ask(context, url, "POST", "/peer/backups/fetch?path=x"))[0] == 403

    run(scenario())


def test_a_rotation_is_taken_up_without_closing_anything(tmp_path: Path) -> None:
    made = certificates(tmp_path, "s1", "s2")
    made["s2"].authority_key.write_bytes(made["authority"].authority_key.read_bytes())

    async def scenario() -> None:
        async with listening(made["s2"]) as (url, tls):
            pool = Pool(PeerTls(made["s1"]).client)
            request = b"GET /peer/replica HTTP/1.1\r\nhost: x\r\n\r\n"
            await (await pool.begin(url, request)).body()
            rotate(made["s2"], ["127.0.0.1"], name="s2")
            renewed: list[bool] = []
            tls.on_reload(lambda: renewed.append(True))
            tls.reload()
            assert renewed == [True]
            kept = await pool.begin(url, request)
            assert (kept.status, b"s2" in await kept.body()) == (200, True)
            pool.renew()
            fresh = await pool.begin(url, request)
            assert (fresh.status, b"s2" in await fresh.body()) == (200, True)
            pool.close()

    run(scenario())


def test_a_clock_that_is_wrong_shows_in_the_status_and_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = certificates(tmp_path, "s1", "s2")
    leadership = cast("Leadership", SimpleNamespace(on_change=lambda callback: None, leader_name="s1", is_leader=True))
    here = cast("LogReplica", SimpleNamespace(is_leader=True, applied_index=7, digest_at=lambda index: "d", trouble=""))

    async def scenario() -> None:
        async with listening(made["s2"], LateClock()) as (url, _):
            entries = {
                "s1": ServerEntry(name="s1", rest="", grpc="", client="", peer=""),
                "s2": ServerEntry(name="s2", rest="", grpc="", client="", peer="", internal=url[8:]),
            }
            directory = cast(
                "ServerDirectory", SimpleNamespace(entries=entries, get=entries.get, on_change=lambda callback: None)
            )
            skew = SkewWatch(0.5)
            clock = SystemClock()
            pool = Pool(PeerTls(made["s1"]).client)
            nothing = cast("Callable[[], str]", str)
            servers = QuorumServers(
                *("s1", directory, leadership, here, made["s1"], tmp_path, clock, skew, PeerClient(pool)),
                problem=nothing,
                warning=nothing,
            )
            with caplog.at_level(logging.WARNING):
                await servers.measure_clocks()
                mine, theirs = await servers.ask_all(None)
            assert (mine.clock_skew_ms, mine.warning) == (None, "")
            assert theirs.clock_skew_ms is not None
            assert abs(theirs.clock_skew_ms - HOUR_MS) < 5_000
            assert "3600.0 s ahead" in theirs.warning
            assert [record.getMessage() for record in caplog.records] == [f"server s2: {theirs.warning}"]
            assert abs(skew.skews_s["s2"] - 3600) < 5
            pool.close()

    run(scenario())
