"""An import of nodes on the wire: the files of a site, and what they change."""

from typing import Annotated

from msgspec import Meta, Struct

from lattice.wire.bounds import WholeText


class ConfFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file with its text, or the reason why it could not be read."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    text: WholeText | None = None
    problem: str = ""


class NodeImport(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A SlurmConf with the files it includes, or a NodeSpecConf alone. Reading starts with the first file."""

    files: list[ConfFile]
    dry_run: bool = False
    request_id: str = ""


class ImportChange(Struct, frozen=True, kw_only=True):
    """One change to one object, or to several nodes that change alike."""

    what: str  # "node", "vcluster" or "setting"
    name: str
    change: str


class NodeImportView(Struct, frozen=True, kw_only=True):
    """`needs` lists included files that are missing; while there are any, nothing was changed."""

    needs: tuple[str, ...]
    dry_run: bool
    nodes: int
    added: int
    changed: int
    unchanged: int
    changes: tuple[ImportChange, ...]
    unfit: tuple[ImportChange, ...]
    warnings: tuple[str, ...]
