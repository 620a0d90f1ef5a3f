"""The addresses of the servers: every server writes its own to etcd when it starts, and follows those of the others.

Only servers that are members of etcd are shown. One that has not started yet is shown as in the configuration. A file caches the
last state, so that a server whose own member is down finds the others.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from lattice.quorum.durable import sync_folder, write_private
from lattice.quorum.etcd.client import EtcdClient, EtcdError
from lattice.wire.pb import etcd_pb2 as pb

PREFIX = b"lattice/servers/"
_BEHIND = b"lattice/servers0"
_RETRY_S = 0.5
# Members come and go without a change of the keys.
_REFRESH_S = 10.0

_log = logging.getLogger(__name__)


class ServerEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One server. `internal` and `relay` are for other servers only: mutual TLS, HTTP and gRPC. Addresses are host:port."""

    name: str
    rest: str
    grpc: str
    client: str
    peer: str
    internal: str = ""
    relay: str = ""


class ServerDirectory:
    """Open it, `publish` this server's addresses, and read `entries`; `close` it at the end."""

    def __init__(self, client: EtcdClient, configured: Sequence[ServerEntry], cache: Path) -> None:
        self._client = client
        self._configured = {entry.name: entry for entry in configured}
        self._cache = cache
        self._entries = {**self._configured, **_read_cache(cache)}
        self._changes: list[Callable[[], None]] = []
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def entries(self) -> Mapping[str, ServerEntry]:
        """By name, in the order of the names."""
        return self._entries

    def get(self, name: str) -> ServerEntry | None:
        return self._entries.get(name)

    def on_change(self, callback: Callable[[], None]) -> None:
        """Calls back when `entries` change. The callback must be short and must not raise."""
        self._changes.append(callback)

    def learn(self, entries: Sequence[ServerEntry]) -> None:
        """Uses the entries of another server until they can be read here."""
        self._show({entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name)})

    async def open(self) -> None:
        """Reads the current entries, if etcd answers, then follows changes."""
        with contextlib.suppress(EtcdError):
            await self.look()
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._refresh())]

    async def close(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def publish(self, entry: ServerEntry) -> None:
        """Publishes this server's addresses."""
        await self._client.put(pb.PutRequest(key=PREFIX + entry.name.encode(), value=msgspec.json.encode(entry)))
        await self.look()

    async def forget(self, name: str) -> None:
        """Removes a server that is no longer a member."""
        gone = pb.DeleteRangeRequest(key=PREFIX + name.encode())
        await self._client.txn(pb.TxnRequest(success=[pb.RequestOp(request_delete_range=gone)]))
        await self.look()

    async def look(self) -> int:
        """Reads the current entries; returns the revision of that answer."""
        members = await self._client.members()
        answer = await self._client.range(pb.RangeRequest(key=PREFIX, range_end=_BEHIND))
        found = {entry.name: entry for kv in answer.kvs if (entry := _decoded(kv.value)) is not None}
        self._show(_of_members(found, self._configured, members))
        return int(answer.header.revision)

    def _show(self, entries: dict[str, ServerEntry]) -> None:
        if entries == self._entries:
            return
        self._entries = entries
        try:
            _write_cache(self._cache, entries)
        except OSError as error:
            _log.warning("cannot write %s: %s", self._cache, error)
        for callback in self._changes:
            callback()

    async def _follow(self) -> None:
        while True:
            try:
                revision = await self.look()
                request = pb.WatchCreateRequest(key=PREFIX, range_end=_BEHIND, start_revision=revision + 1)
                async with contextlib.aclosing(self._client.watch(request)) as watch:
                    async for response in watch:
                        if response.events:
                            await self.look()
            except EtcdError as error:
                _log.debug("cannot follow the servers' addresses: %s", error)
            await asyncio.sleep(_RETRY_S)

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(_REFRESH_S)
            with contextlib.suppress(EtcdError):
                await self.look()


def _of_members(
    found: Mapping[str, ServerEntry], configured: Mapping[str, ServerEntry], members: Sequence[pb.Member]
) -> dict[str, ServerEntry]:
    names = {member.name for member in members if member.name}
    urls = {url for member in members for url in member.peerURLs}
    # A member has no name before its first start, but its address.
    for entry in (*configured.values(), *found.values()):
        if f"https://{entry.peer}" in urls:
            names.add(entry.name)
    everybody = {**configured, **found}
    return {name: everybody[name] for name in sorted(names) if name in everybody}


def _decoded(value: bytes) -> ServerEntry | None:
    try:
        return msgspec.json.decode(value, type=ServerEntry)
    except msgspec.MsgspecError as error:
        _log.error("cannot read a server's address: %s", error)
        return None


def _read_cache(path: Path) -> dict[str, ServerEntry]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, ServerEntry])
    except (OSError, msgspec.MsgspecError):
        return {}


def _write_cache(path: Path, entries: Mapping[str, ServerEntry]) -> None:
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    write_private(draft, msgspec.json.encode(entries))
    draft.replace(path)
    sync_folder(path.parent)
