"""cluster.json: the current processes of the cluster."""

import asyncio
import logging

import msgspec

from lattice.config.release import installed_release
from lattice.daemons.local.layout import Layout, write_private
from lattice.daemons.local.processes import boot_id, process_of
from lattice_sdk.site.local_cluster import ClusterFile, ClusterProcess

_log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
ORDER = ("supervisor", "server", "etcd", "agent", "shim", "mover")


class Record:
    """Every change is on disk when the call returns; `keep` repairs failed writes and later damage."""

    def __init__(self, layout: Layout, *, api_url: str, grpc: str) -> None:
        self._layout = layout
        self._frame = ClusterFile(
            api_url=api_url, grpc=grpc, dir=str(layout.root), version=installed_release(), boot_id=boot_id()
        )
        self._entries: dict[tuple[int, str], ClusterProcess] = {}
        self._problem = ""

    def put(self, role: str, name: str, pid: int, addresses: tuple[str, ...] = ()) -> None:
        process = process_of(pid)
        if process is None:
            return
        self._entries[ORDER.index(role), name] = ClusterProcess(
            role=role, name=name, pid=pid, addresses=addresses, started=process.started
        )
        self.write()

    def drop(self, role: str, name: str) -> None:
        if self._entries.pop((ORDER.index(role), name), None) is not None:
            self.write()

    async def keep(self) -> None:
        """Checks the file periodically, and rewrites it if its content is wrong."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            if self._is_false():
                self.write()

    def write(self) -> None:
        path = self._layout.cluster_file
        try:
            write_private(path, self._content())
        except OSError as error:
            problem = error.strerror or str(error)
            if problem != self._problem:
                _log.error("cannot write %s: %s", path, problem)
            self._problem = problem
        else:
            self._problem = ""

    def _is_false(self) -> bool:
        try:
            return self._layout.cluster_file.read_bytes() != self._content()
        except OSError:
            return True

    def _content(self) -> bytes:
        processes = tuple(self._entries[key] for key in sorted(self._entries, key=_natural))
        content = msgspec.structs.replace(self._frame, processes=processes)
        return msgspec.json.format(msgspec.json.encode(content)) + b"\n"


def _natural(key: tuple[int, str]) -> tuple[int, int, str]:
    """n2 before n10."""
    order, name = key
    return order, len(name), name
