"""The log of a cluster applied again from its first entry, with every invariant checked at every index."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from lattice.core.machine.apply import apply
from lattice.core.machine.checks.invariants import check
from lattice.core.machine.codec import decode_batch
from lattice.core.machine.parts.services import ServiceKey
from lattice.core.machine.state import State
from lattice.core.model.work.allocations import Lifecycle
from lattice.ports.quorum.log import Entry
from lattice.quorum.etcd.client import EtcdClient
from lattice.quorum.logs.etcd import EtcdLog
from lattice.quorum.logs.sqlite import read_file
from lattice.quorum.trust.certificates import CertificateFolder
from lattice.testing import LocalCluster

# Nothing is trimmed, so that the first entry is there at the end.
WHOLE_LOG = {"snapshots.every_commands": "1000000"}
_PAGE = 500


class Walked(NamedTuple):
    entries: int
    violations: list[str]
    registered: int  # how often a service came into the registry or left it; several may in one entry
    digest: str


def walk(cluster: LocalCluster) -> Walked:
    """Of a cluster that runs, and whose log begins at 1."""
    state, entries, registered, violations = State(), 0, 0, list[str]()
    before: set[tuple[ServiceKey, int]] = set()
    for entry in _read(cluster):
        if entry.index != entries + 1:
            violations.append(f"entry {entry.index} follows {entries}")
        entries = entry.index
        for envelope in decode_batch(entry.payload).envelopes:
            apply(state, envelope)
            violations += [f"at {entries}: {each}" for each in check(state)]
            violations += [f"at {entries}: {each}" for each in _judge_registry(state)]
        now = {(key, each.number) for key, found in state.services.registered() for each in found}
        registered += len(now ^ before)
        before = now
        if len(violations) > 20:
            break
    return Walked(entries, violations, registered, state.digest())


def _judge_registry(state: State) -> Iterator[str]:
    """Invariant 12 from the records alone, without the registry's own bookkeeping."""
    expected = {
        (ServiceKey(record.tenant, exposed.name), record.number)
        for record in state.allocations.values()
        if record.is_running and record.lifecycle is not Lifecycle.BOUNDED
        for exposed in record.exposes
    }
    found = {(key, each.number) for key, several in state.services.registered() for each in several}
    for key, number in sorted(expected ^ found):
        yield f"service {key.name} of {key.tenant} and allocation {number}: in only one of registry and records"
    for record in state.allocations.values():
        nodes = [part.node for part in record.parts]
        if record.has_instances and len(nodes) != len(set(nodes)):
            yield f"allocation {record.number} has two instances on one node"


def _read(cluster: LocalCluster) -> list[Entry]:
    several = cluster.directory / "servers"
    if several.exists():
        return asyncio.run(_read_etcd(several / "s1"))
    (database,) = cluster.directory.rglob("log.db")
    with tempfile.TemporaryDirectory() as folder:
        for file in database.parent.glob("log.db*"):
            shutil.copy(file, folder)
        return list(read_file(Path(folder) / "log.db", 1))


async def _read_etcd(server: Path) -> list[Entry]:
    settings = yaml.safe_load((server / "server.yaml").read_text())
    places = [peer["client"] for peer in settings["quorum"]["peers"]]
    log = EtcdLog(EtcdClient(places, CertificateFolder(server / "data" / "certificates")))
    await log.open()
    try:
        found: list[Entry] = []
        while page := await log.read(len(found) + 1, _PAGE):
            found += page
    finally:
        await log.close()
    return found
