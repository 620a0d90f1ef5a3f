"""Sealing, archiving and the key: when, and what happens when something is in the way."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from lattice.control.audit.keys import Signer, is_signed
from lattice.control.audit.sealing import MAX_DIFFERENT, SEAL_BATCH, Auditing, AuditSettings, Refusals
from lattice.core.machine.commands import RecordAudit, SealAudit
from lattice.core.model.site.audit import AuditNote, key_id, seal_message
from lattice.integrations.directory.store import DirectoryStore
from lattice.ports.quorum.object_store import ObjectStoreError
from lattice.ports.site.audit import AuditError
from lattice.testing import FakeReplica, HandClock
from lattice.wire.files.audit import SegmentName, in_order, parse_segment


class FullStore(DirectoryStore):
    async def put(self, name: str, data: bytes) -> None:
        raise ObjectStoreError("no room")


class Desk:
    def __init__(self, folder: Path, **settings: Any) -> None:  # noqa: ANN401 - as AuditSettings has them
        self.clock = HandClock()
        self.replica = FakeReplica(self.clock)
        self.folder = folder
        self.settings = AuditSettings(**settings)
        self.auditing = self.of("s1", DirectoryStore(folder / "objects"))

    def of(self, server: str, objects: DirectoryStore) -> Auditing:
        signer = Signer(self.folder / f"{server}.key", server)
        return Auditing(self.replica, self.clock, signer, objects, self.settings)

    async def record(self, count: int) -> None:
        for start in range(0, count, 200):
            notes = tuple(AuditNote(kind=f"k{number}") for number in range(start, min(start + 200, count)))
            await self.replica.propose(RecordAudit(notes=notes), actor="x")


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def test_a_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "audit.key"
    first = Signer(path, "s1")
    assert path.stat().st_mode & 0o777 == 0o600
    again = Signer(path, "s1")
    assert (first.id, first.id) == (again.id, key_id(again.public))
    assert is_signed(again.public, b"x", first.sign(b"x"))
    assert not is_signed(again.public, b"y", first.sign(b"x"))
    assert not is_signed("nonsense", b"y", "?")
    first.renew()
    assert first.id != again.id
    assert Signer(path, "s1").id == first.id


def test_a_key_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    path = tmp_path / "audit.key"
    Signer(path, "s1")
    path.chmod(0o644)
    with pytest.raises(AuditError, match="mode 0644"):
        Signer(path, "s1")
    path.chmod(0o600)
    path.write_bytes(b"nonsense")
    with pytest.raises(AuditError, match="cannot be read"):
        Signer(path, "s1")
    other = generate_private_key(SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(other)
    with pytest.raises(AuditError, match="not of the kind Ed25519"):
        Signer(path, "s1")
    with pytest.raises(AuditError, match="cannot be written"):
        Signer(tmp_path / "audit.key" / "below-a-file", "s1")


def test_seals_are_made_in_time_in_bounded_segments_and_verify(tmp_path: Path) -> None:
    async def scenario() -> None:
        service = Desk(tmp_path, seal_every_s=10)
        await service.auditing.begin()
        await service.auditing.begin()
        assert service.replica.state.audit.head.last == 1
        assert not service.auditing._is_seal_due()
        service.clock.pass_s(10)
        assert service.auditing._is_seal_due()
        await service.record(SEAL_BATCH + 5)
        await service.auditing.seal()
        registry = service.replica.state.audit
        assert list(registry.seals) == [SEAL_BATCH, SEAL_BATCH + 6]
        key = registry.keys[service.auditing._signer.id]
        assert all(is_signed(key.public, seal_message(seal), seal.signature) for seal in registry.seals.values())
        before = len(service.replica.proposed)
        await service.auditing.seal()
        assert len(service.replica.proposed) == before

    run(scenario)


def test_two_servers_seal_with_keys_of_their_own_and_a_retired_key_is_replaced(tmp_path: Path) -> None:
    async def scenario() -> None:
        service = Desk(tmp_path)
        await service.auditing.begin()
        await service.auditing.seal()
        second = service.of("s2", DirectoryStore(tmp_path / "objects"))
        await second.begin()
        await second.seal()
        registry = service.replica.state.audit
        assert len({seal.key for seal in registry.seals.values()}) == 2
        old = (tmp_path / "s1.key").read_bytes()
        new = await service.auditing.rotate("root")
        assert not new.retired_at
        # A folder brought back from an old copy has a key that is retired.
        (tmp_path / "s1.key").write_bytes(old)
        back = service.of("s1", DirectoryStore(tmp_path / "objects"))
        await back.begin()
        await back.seal()
        assert sum(not key.retired_at for key in registry.keys.values() if key.server == "s1") == 1
        await service.record(1)
        with pytest.raises(AuditError, match="does not seal"):
            await service.auditing.seal()

    run(scenario)


def test_what_cannot_be_archived_stays(tmp_path: Path) -> None:
    async def scenario() -> None:
        service = Desk(tmp_path, keep=1)
        service.auditing = service.of("s1", FullStore(tmp_path / "objects"))
        await service.auditing.begin()
        for _ in range(3):
            await service.record(2)
            await service.auditing.seal()
        await service.auditing.archive_due()
        assert service.replica.state.audit.head.archived == 0
        await service.of("s1", DirectoryStore(tmp_path / "objects")).archive_due()
        head = service.replica.state.audit.head
        assert head.archived == 5
        (name,) = [path.name for path in (tmp_path / "objects" / "audit").iterdir()]
        parsed = parse_segment(f"audit/{name}")
        assert parsed is not None
        assert (parsed.first, parsed.last) == (1, 5)
        assert in_order([f"audit/{name}"], 5, head.archived_link) == [(parsed, f"audit/{name}")]

    run(scenario)


def test_segments_of_a_history_that_was_given_up_are_left_out() -> None:
    def name(first: int, last: int, previous: str, head: str) -> str:
        return SegmentName(first, last, 1, 2, previous * 64, head * 64).text()

    kept = [name(1, 5, "0", "a"), name(6, 9, "a", "b"), name(10, 12, "b", "c")]
    lost = [name(6, 12, "a", "d"), name(10, 12, "e", "f"), "audit/notes.txt", "audit/1-2-3-x-a-b.jsonl"]
    assert [text for _, text in in_order([*lost, *kept], 12, "c" * 64)] == kept
    assert in_order(kept, 12, "9" * 64) == []


def test_refusals_are_bounded_whatever_is_tried() -> None:
    refusals = Refusals()
    for number in range(10_000):
        refusals.add(AuditNote(kind="role.denied", actor=f"u{number}"))
    first = refusals.due(0)
    assert len(first) <= MAX_DIFFERENT
    assert sum(note.count for note in first) + sum(note.count for note in refusals.due(61_000)) == 10_000


def test_a_seal_that_comes_too_late_is_no_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        service = Desk(tmp_path)
        await service.auditing.begin()
        made = service.auditing._make_seal()
        assert made is not None
        await service.replica.propose(SealAudit(seal=made), actor="another leader")
        await service.auditing.seal()
        assert service.replica.state.audit.head.sealed == 1

    run(scenario)
