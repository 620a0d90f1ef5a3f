"""cluster.json: which processes the cluster consists of at this moment."""

import logging
from importlib.metadata import version

import msgspec

from lattice.cli.local_cluster import ClusterFile, ClusterProcess
from lattice.daemons.local.layout import Layout, write_private
from lattice.daemons.local.processes import boot_id, process_of

_log = logging.getLogger(__name__)

ORDER = ("supervisor", "server", "etcd", "agent", "shim")


class Record:
    """Every change is on disk when the call returns; a write that failed is repeated by `flush`."""

    def __init__(self, layout: Layout, *, api_url: str, grpc: str) -> None:
        self._layout = layout
        self._frame = ClusterFile(
            api_url=api_url, grpc=grpc, dir=str(layout.root), version=version("lattice"), boot_id=boot_id()
        )
        self._entries: dict[tuple[int, str], ClusterProcess] = {}
        self._dirty = False

    def put(self, role: str, name: str, pid: int, addresses: tuple[str, ...] = ()) -> None:
        process = process_of(pid)
        if process is None:
            return
        self._entries[ORDER.index(role), name] = ClusterProcess(
            role=role, name=name, pid=pid, addresses=addresses, started=process.started
        )
        self._dirty = True
        self.flush()

    def drop(self, role: str, name: str) -> None:
        if self._entries.pop((ORDER.index(role), name), None) is not None:
            self._dirty = True
            self.flush()

    def flush(self) -> None:
        if not self._dirty:
            return
        processes = tuple(self._entries[key] for key in sorted(self._entries, key=_natural))
        content = msgspec.structs.replace(self._frame, processes=processes)
        try:
            write_private(self._layout.cluster_file, msgspec.json.format(msgspec.json.encode(content)) + b"\n")
        except OSError as error:
            _log.error("cannot write %s: %s", self._layout.cluster_file, error.strerror or error)
            return
        self._dirty = False


def _natural(key: tuple[int, str]) -> tuple[int, int, str]:
    """n2 before n10."""
    order, name = key
    return order, len(name), name
