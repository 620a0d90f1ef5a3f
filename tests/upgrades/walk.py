"""A long log of random commands, accepted and refused: what a release makes of it must never change.

Two servers of different releases apply the same log while a cluster is upgraded, so a rule that judges an old command anew
would let their states differ. The log is recorded with the digest that its release came to.
"""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from lattice.core.machine.apply import apply
from lattice.core.machine.codec import decode_batch, encode_batch
from lattice.core.machine.commands import Envelope
from lattice.core.machine.levels import NEWEST
from lattice.core.machine.state import State
from lattice.quorum.backup.service import BackupService
from lattice.quorum.logs.sqlite import SqliteLog
from tests.properties.commands_generator import CommandGenerator
from tests.upgrades.replicas import remove_locks, replica_of

SEED = 8
COMMANDS = 1_500
PER_ENTRY = 12
PAUSE_MS = 3_600_000
WALK = "walk"
EXPECTED = "walk.json"


def summary_of(state: State) -> dict[str, Any]:
    """What listings would show, in a form that can be kept."""
    return {
        "digest": state.digest(),
        "allocations": {str(number): record.state.value for number, record in sorted(state.allocations.items())},
        "groups": {str(number): group.size for number, group in sorted(state.groups.items())},
        "dags": sorted(state.dependencies.dags),
        "nodes": {name: node.state.value for name, node in sorted(state.nodes.items())},
        "tenants": sorted(state.tenants),
        "vclusters": sorted(state.vclusters),
        "reservations": sorted(state.reservations),
        "settings": dict(sorted(state.settings.items())),
        "drifts": sorted(state.drift.drifts),
        "baselines": sorted(state.drift.baselines),
        "notifications": len(state.notifications.waiting),
        "audit": [state.audit.head.last, state.audit.head.sealed, state.audit.head.archived],
        "next_number": state.next_number,
    }


def commands() -> list[Envelope]:
    """The same commands at each call, as long as the generator stays the same."""
    state = State.empty()
    generator = CommandGenerator(SEED, state)
    sent = generator.founding()
    for envelope in sent:
        apply(state, envelope)
    while len(sent) < COMMANDS:
        envelope = generator.next()
        apply(state, envelope)
        sent.append(envelope)
    return sent


async def append(data: Path, envelopes: list[Envelope]) -> None:
    data.mkdir(parents=True, exist_ok=True)
    log = SqliteLog(data / "log.db")
    await log.open()
    _, last = await log.bounds()
    for first in range(0, len(envelopes), PER_ENTRY):
        last = await log.append(last, encode_batch(f"walk-{last}", envelopes[first : first + PER_ENTRY], NEWEST))
    await log.close()


async def record_walk(target: Path) -> None:
    """The log in `target/walk`, with a snapshot in its middle, and what it leads to in `target/walk.json`."""
    data, everything = target / WALK, commands()
    half = len(everything) // 2
    await append(data, everything[:half])
    replica = replica_of(data, now_ms=0)
    await replica.start()
    await BackupService(replica, data, target, "server", "sqlite").create(str(target / "unused"))
    await replica.stop()
    shutil.rmtree(target / "unused")
    # The replica's own entry, the pointer to its snapshot, has a time of its own.
    await append(data, [replace(envelope, at=envelope.at + PAUSE_MS) for envelope in everything[half:]])
    replica = replica_of(data, now_ms=0)
    await replica.start()
    expected = summary_of(replica.state)
    await replica.stop()
    remove_locks(data)
    kinds = Counter(type(envelope.command).__struct_config__.tag for envelope in everything)
    expected["commands"] = {str(kind): count for kind, count in sorted(kinds.items(), key=str)}
    (target / EXPECTED).write_text(json.dumps(expected, indent=1) + "\n")


async def logged_kinds(data: Path) -> Counter[str]:
    """How many commands of each kind the log holds."""
    log = SqliteLog(data / "log.db")
    await log.open()
    first, last = await log.bounds()
    found: Counter[str] = Counter()
    for entry in await log.read(first, last):
        found.update(str(type(each.command).__struct_config__.tag) for each in decode_batch(entry.payload).envelopes)
    await log.close()
    return found
