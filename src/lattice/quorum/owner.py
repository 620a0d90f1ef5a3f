"""Whose data a directory has: the cluster and the server that served from it, by the names in their configuration.

The state itself has no name of its cluster. So the names are noted beside it when a server serves from it, and compared when one starts:
a disk of another cluster is refused, although the server there has the same name. A cluster that was given no name cannot be
told from another one without a name.
"""

import logging
from pathlib import Path

import msgspec

from lattice.quorum.durable import sync_folder, write_private

FILE = "owner.json"
LOG, ETCD = "log.db", "etcd"

_log = logging.getLogger(__name__)


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Empty = not known."""

    cluster: str = ""
    server: str = ""


def owner_of(folder: Path) -> Owner:
    """What is noted there. Blocks."""
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=Owner)
    except FileNotFoundError:
        return Owner()
    except (OSError, msgspec.DecodeError) as error:
        _log.warning("cannot read %s: %s", folder / FILE, error)
        return Owner()


def why_foreign(folder: Path, owner: Owner, *, is_server_fixed: bool) -> str:
    """Why this server may not serve from there; empty when it may. With `is_server_fixed` no other server may take its place."""
    noted = owner_of(folder)
    if noted.cluster and noted.cluster != owner.cluster:
        here = f"this is cluster {owner.cluster}" if owner.cluster else "the configuration names no cluster"
        return (
            f"{folder} has the data of cluster {noted.cluster}, and {here} (slurm.cluster_name); "
            f"correct one of them, or remove {folder / FILE} if the cluster was renamed"
        )
    if is_server_fixed and noted.server and noted.server != owner.server:
        return (
            f"{folder} has the data of server {noted.server}, and this is {owner.server}; "
            "correct `name` or `data_dir` in the configuration"
        )
    return ""


def why_other_kind(folder: Path, kind: str) -> str:
    """Why data of one server alone cannot be served as that of several, or the other way round; empty when it is of this kind."""
    has_own_log, has_member = (folder / LOG).exists(), (folder / ETCD / "member.json").exists()
    if kind == "etcd" and has_own_log and not has_member:
        return (
            f"{folder} has the log of a server that was alone (quorum.kind: sqlite), and several would begin without it; "
            "make a backup while it runs so, and start with --bootstrap --recover-from PATH and an empty data_dir"
        )
    if kind == "sqlite" and has_member and not has_own_log:
        return (
            f"{folder} has the data of a server that has others (quorum.kind: etcd); "
            "correct quorum.kind or data_dir, or restore a backup into an empty data_dir"
        )
    return ""


def note_owner(folder: Path, owner: Owner) -> None:
    """From now on the directory belongs to it. Blocks."""
    if not folder.is_dir() or owner_of(folder) == owner:
        return
    draft = folder / f"{FILE}.new"
    draft.unlink(missing_ok=True)
    write_private(draft, msgspec.json.encode(owner))
    draft.replace(folder / FILE)
    sync_folder(folder)
