"""Bytes: what is written can be read, what cannot be understood is refused."""

import msgspec
import pytest

from lattice.core.machine import codec
from lattice.core.machine import commands as cmd
from lattice.core.machine.codec import (
    UnreadableBatch,
    decode_batch,
    decode_state_chunks,
    encode_batch,
    encode_state_chunks,
)
from lattice.core.machine.levels import NEWEST
from lattice.core.machine.outcomes import Accepted
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.site.tenants import NodeSharing, Project, Vcluster
from tests.unit.core.machine.world import World


def busy_world() -> World:
    world = World(node_sharing=NodeSharing.SHARED)
    world.must(cmd.SetVcluster(vcluster=Vcluster(name="whole"), create=True))
    world.must(cmd.SetProject(project=Project(tenant="physics", name="p"), create=True))
    world.must(cmd.SetSetting(key="archive.after_s", value="1"))
    shared = world.submit(project="p")
    share = Share(node="n1", whole=False, cpus=1, memory_mb=1024)
    world.must(cmd.PlaceAllocation(number=shared, run=1, shares=(share,)))
    world.running("n2", vcluster="whole")
    world.submit(tasks=((0, 4, 1),))
    done = world.do(world.submission(), command_id="ada/1")
    assert isinstance(done, Accepted)
    world.must(cmd.CancelAllocation(number=done.number))
    return world


def test_a_batch_is_read_as_it_was_written() -> None:
    envelopes = (cmd.Envelope(at=5, command=World().submission(), actor="ada", command_id="x"),)
    batch = decode_batch(encode_batch("b1", envelopes))
    assert (batch.batch_id, batch.envelopes) == ("b1", envelopes)


def test_a_batch_of_the_future_stops_the_reader_with_a_clear_message() -> None:
    future = msgspec.msgpack.encode((NEWEST + 2, NEWEST + 1, "b", []))
    with pytest.raises(UnreadableBatch, match="upgrade"):
        decode_batch(future)


def test_an_additive_batch_of_the_future_is_read() -> None:
    assert decode_batch(msgspec.msgpack.encode((NEWEST + 1, NEWEST, "b", []))).envelopes == ()


@pytest.mark.parametrize("damaged", [b"", b"\x00", b"garbage", msgspec.msgpack.encode((1, 1, "b", [{"do": "fly"}]))])
def test_a_damaged_batch_is_refused(damaged: bytes) -> None:
    with pytest.raises(UnreadableBatch):
        decode_batch(damaged)


def test_a_state_is_read_as_it_was_written_with_all_that_is_derived() -> None:
    state = busy_world().state
    loaded = decode_state_chunks(encode_state_chunks(state.frozen_view()))
    assert loaded.digest() == state.digest()
    for name in ("uses", "user_uses", "project_nodes", "state_counts", "hardware_counts", "settings", "recent"):
        assert getattr(loaded, name) == getattr(state, name), name


@pytest.mark.parametrize("kind", ["nodes", "allocations", "groups", "payloads", "recent", "meta"])
def test_a_state_with_a_missing_or_damaged_chunk_is_refused(kind: str) -> None:
    chunks = list(encode_state_chunks(busy_world().state.frozen_view()))
    with pytest.raises(UnreadableBatch):
        decode_state_chunks([(name, data) for name, data in chunks if not name.startswith(kind)])
    with pytest.raises(UnreadableBatch):
        decode_state_chunks([(name, data[:-3] if name.startswith(kind) else data) for name, data in chunks])


def test_a_state_of_the_future_or_with_strange_chunks_is_refused() -> None:
    chunks = dict(encode_state_chunks(busy_world().state.frozen_view()))
    meta = {**msgspec.msgpack.decode(chunks["meta"]), "format": NEWEST + 1, "oldest_reader": NEWEST + 1}
    with pytest.raises(UnreadableBatch, match="upgrade"):
        decode_state_chunks([("meta", msgspec.msgpack.encode(meta))])
    with pytest.raises(UnreadableBatch, match="strange"):
        decode_state_chunks([*chunks.items(), ("strange-000000", b"\x90")])


def test_large_payloads_are_spread_over_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    for number in range(1, 4):
        world.state.put_payload(number, bytes([number]) * 100)
    monkeypatch.setattr(codec, "PAYLOAD_BYTES_PER_CHUNK", 150)
    chunks = list(encode_state_chunks(world.state.frozen_view()))
    assert [name for name, _ in chunks if name.startswith("payloads-")] == ["payloads-000000", "payloads-000001"]
    assert decode_state_chunks(chunks).payloads == world.state.payloads
    world.state.drop_payload(9)  # of none: nothing happens
    world.state.drop_payload(1)
    assert set(world.state.payloads) == {2, 3}
