"""What this release writes at the level of an earlier one, that one reads; what it would not read has a level."""

import json
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lattice.agent.shim.table import PROTOCOL
from lattice.core.machine import levels
from lattice.core.machine.apply import apply
from lattice.core.machine.codec import encode_state_chunks
from lattice.core.machine.levels import NEWEST, OLDEST, refusal
from lattice.core.machine.state import State
from lattice.core.model.site.protocols import OURS, Border
from lattice_sdk import protocol as sdk_protocol
from tests.properties.commands_generator import CommandGenerator
from tests.upgrades.record import EXPECTED, HERE
from tests.upgrades.schema import SCHEMA, differences, schema_of_this_release, unreadable

RELEASES = sorted(path.parent.name for path in HERE.glob(f"*/{SCHEMA}"))
COMMANDS = 3_000


def schema_of(release: str) -> dict[str, Any]:
    return dict(json.loads((HERE / release / SCHEMA).read_text()))


def level_of(release: str) -> int:
    return int(json.loads((HERE / release / EXPECTED).read_text()).get("level", OLDEST))


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("seed", range(3))
def test_random_work_at_the_level_of_a_release_writes_nothing_that_it_cannot_read(release: str, seed: int) -> None:
    schema, state = schema_of(release), State.empty()
    generator = CommandGenerator(seed, state, level=level_of(release))
    envelopes = generator.founding()
    for envelope in envelopes:
        apply(state, envelope)
    for _ in range(COMMANDS):
        envelope = generator.next()
        if refusal(envelope.command, state.level) is not None:
            continue  # is not written
        assert unreadable(msgspec.msgpack.encode(envelope), "log", schema) == []
        apply(state, envelope)
    for name, data in encode_state_chunks(state.frozen_view()):
        assert unreadable(data, name.rpartition("-")[0] or name, schema) == [], name


def is_harmless(thing: object) -> bool:
    """A field of the state that is not written while it has its default, or a kind of records that there are none of."""
    if thing is None:
        return True
    if not isinstance(thing, tuple):
        return False
    record, name = thing
    config = record.__struct_config__
    (field,) = (each for each in msgspec.structs.fields(record) if each.name == name)
    return config.omit_defaults and not config.array_like and not field.required


def is_declared(thing: object, above: int) -> bool:
    key = (type(thing), thing.name) if isinstance(thing, Enum) else thing
    level = levels._SINCE.get(key)  # type: ignore[call-overload, unused-ignore]
    return level is not None and level > above


@pytest.mark.parametrize("release", RELEASES)
def test_what_an_earlier_release_cannot_read_has_a_level(release: str) -> None:
    """Commands, and everything in them, are declared in levels.ADDED; fields of the state may be left out when unused."""
    missing = [
        where
        for where, thing in differences(schema_of(release))
        if not is_declared(thing, level_of(release)) and (where.startswith("log") or not is_harmless(thing))
    ]
    assert missing == [], "declare them in core/machine/levels.py: docs/architecture/upgrades.md"


def test_a_command_a_field_and_a_value_that_are_new_are_noticed() -> None:
    schema = schema_of_this_release()
    assert list(differences(schema)) == []
    commands = schema["records"]["commands.Envelope"]["fields"]["command"]
    commands["one_of"] = [kind for kind in commands["one_of"] if not kind["record"].endswith(".DrainNode")]
    del schema["records"]["commands.SubmitAllocation"]["fields"]["mutex"]
    schema["records"]["commands.SubmitAllocation"]["fields"]["hold"]["enum"].remove("user")
    found = [where for where, _ in differences(schema)]
    assert any(where.endswith("drain_node") for where in found)
    assert any(where.endswith(".mutex") for where in found)
    assert any(where.endswith(".hold user") for where in found)


def test_unknown_fields_and_values_are_found_in_bytes() -> None:
    schema = schema_of(RELEASES[0])
    command = {"do": "drain_node", "node": "n1", "colour": "red"}
    assert unreadable(msgspec.msgpack.encode({"at": 1, "command": command}), "log", schema) == [
        "log.command.colour is unknown"
    ]
    raised = {"at": 1, "command": {"do": "raise_level", "level": 2}}
    assert unreadable(msgspec.msgpack.encode(raised), "log", schema)


def test_every_border_says_the_same_versions_on_both_sides() -> None:
    shim, client = OURS[Border.SHIM], OURS[Border.CLIENT]
    assert (shim.oldest, shim.newest) == PROTOCOL
    assert (client.oldest, client.newest) == (sdk_protocol.OLDEST, sdk_protocol.NEWEST)


def test_every_level_up_to_the_newest_has_something_in_it() -> None:
    assert set(levels.ADDED) == set(range(OLDEST + 1, NEWEST + 1))


def test_a_schema_was_recorded(tmp_path: Path) -> None:
    assert RELEASES
