"""What a level allows, what it refuses by name, and what older servers can still read."""

from enum import StrEnum

import msgspec
import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine import levels
from lattice.core.machine.codec import (
    LevelTooHigh,
    decode_batch,
    decode_state_chunks,
    encode_batch,
    encode_state_chunks,
)
from lattice.core.machine.levels import NEWEST, OLDEST, Need, Setting, needed, refusal
from lattice.core.model.nodes.nodes import Hardware
from lattice.core.model.work.allocations import Request, RequeuePolicy
from tests.unit.core.machine.world import World


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that brought, with level 2, one of each kind."""
    added: dict[int, tuple[levels.Item, ...]] = {
        2: (
            cmd.RaiseLevel,
            cmd.LosePart,
            (cmd.SubmitAllocation, "mutex"),
            (Request, "exclude"),
            RequeuePolicy.ALWAYS,
            Setting("archive.after_s"),
        )
    }
    index = levels._index(added)
    monkeypatch.setattr(levels, "_SINCE", index)
    monkeypatch.setattr(levels, "_PLANS", levels._plans(index))


@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"mutex": "m"}, "mutex of submit allocation"),
        ({"request": Request(exclude=("n1",))}, "exclude of request"),
        ({"requeue": RequeuePolicy.ALWAYS}, f'requeue policy "{RequeuePolicy.ALWAYS.value}"'),
    ],
)
def test_a_field_or_value_of_a_later_level_is_refused_by_name(change: dict[str, object], what: str) -> None:
    world = World(level=OLDEST)
    submission = world.submission(**change)
    assert needed(submission) == Need(2, what)
    for command in (
        submission,
        cmd.SubmitDag(name="d", user="ada", tenant="physics", members=(cmd.DagMember(ref="a", submission=submission),)),
    ):
        refused = world.refused(command)
        assert refused.code == "conflict"
        assert refused.message == f"this needs level 2 of the cluster, which still runs at level 1 ({what})"
        assert "lattice admin upgrade finalize" in refused.hint
    world.must(cmd.RaiseLevel(level=2))
    world.must(submission)


@pytest.mark.usefixtures("declared")
def test_a_command_or_setting_of_a_later_level_is_refused_by_name() -> None:
    world = World(level=OLDEST)
    assert world.refused(cmd.LosePart(number=1, run=1, node="n1")).message.endswith("(lose part)")
    setting = cmd.SetSetting(key="archive.after_s", value="5")
    assert world.refused(setting).message.endswith('(the setting "archive.after_s")')
    world.must(cmd.SetSetting(key="agent.grace_s", value="5"))
    world.must(cmd.RaiseLevel(level=2))
    world.must(setting)


@pytest.mark.usefixtures("declared")
def test_what_is_left_at_its_default_needs_no_level() -> None:
    world = World(level=OLDEST)
    assert needed(world.submission()).level == OLDEST
    world.must(world.submission())


def test_members_of_two_enums_with_the_same_text_are_told_apart() -> None:
    class Other(StrEnum):
        ALWAYS = RequeuePolicy.ALWAYS.value

    assert levels._index({2: (Other.ALWAYS,)}).get((RequeuePolicy, "ALWAYS")) is None


def test_everything_that_is_declared_exists_and_has_a_default() -> None:
    assert set(levels.ADDED) <= set(range(OLDEST + 1, NEWEST + 1))
    for item in (each for items in levels.ADDED.values() for each in items):
        if isinstance(item, tuple) and not isinstance(item, Setting):
            record, name = item
            (field,) = (each for each in msgspec.structs.fields(record) if each.name == name)
            assert not field.required, f"{record.__name__}.{name}"


def test_the_level_rises_by_one_and_never_falls() -> None:
    world = World(level=OLDEST)
    assert world.refused(cmd.RaiseLevel(level=3)).code == "invalid"
    digest = world.state.digest()
    world.must(cmd.RaiseLevel(level=2))
    assert world.state.level == 2
    assert world.state.digest() != digest
    assert world.must(cmd.RaiseLevel(level=1)) == ()
    assert world.must(cmd.RaiseLevel(level=2)) == ()
    assert world.state.level == 2


def test_a_state_keeps_its_level() -> None:
    for level in range(OLDEST, NEWEST + 1):
        state = World(level=level).state
        assert decode_state_chunks(encode_state_chunks(state.frozen_view())).level == level


def test_what_a_raised_cluster_writes_is_refused_by_a_server_that_supports_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = encode_batch("b", [cmd.Envelope(at=1, command=cmd.RaiseLevel(level=2))], 2)
    chunks = list(encode_state_chunks(World(level=2).state.frozen_view()))
    monkeypatch.setattr("lattice.core.machine.codec.NEWEST", 1)
    with pytest.raises(LevelTooHigh, match=r"needs level 2.*supports levels 1 to 1.*upgrade this server"):
        decode_batch(entry)
    with pytest.raises(LevelTooHigh, match="the snapshot needs level 2"):
        decode_state_chunks(chunks)


def test_a_level_that_is_raised_is_in_the_audit_chain() -> None:
    from tests.properties.commands_generator import AUDIT_KEY

    world = World(level=OLDEST)
    world.must(cmd.AddAuditKey(key=AUDIT_KEY))
    world.must(cmd.RaiseLevel(level=2), actor="root")
    last = list(world.state.audit.entries.values())[-1].entry
    assert (last.kind, last.actor, last.subject) == ("upgrade.finalize", "root", "level 2")


def test_nothing_is_looked_at_in_commands_that_need_no_level() -> None:
    assert refusal(cmd.ConfirmNode(node="n1"), OLDEST) is None
    assert cmd.ConfirmNode not in levels._PLANS


@pytest.mark.usefixtures("declared")
def test_what_needs_a_level_is_found_wherever_it_is_held() -> None:
    assert needed(cmd.RaiseLevel(level=3)) == Need(3, "level 3")
    held = {"a": [Request(exclude=("n1",))], "b": (RequeuePolicy.ALWAYS, Request(), "text", 7)}
    assert [need.what for need in levels._needs(held)] == ["exclude of request", 'requeue policy "always"']
    assert list(levels._needs(Hardware(cpus=1, memory_mb=1))) == []


def test_a_field_that_came_later_has_a_default_of_its_own() -> None:
    class Record(msgspec.Struct, kw_only=True):
        names: list[str] = msgspec.field(default_factory=list)
        number: int

    names, number = msgspec.structs.fields(Record)
    assert levels._default(names) == []
    with pytest.raises(AssertionError, match="number came later and has no default"):
        levels._default(number)
