"""The machine status: ask for chosen fields of nodes, import a site's files."""

from collections.abc import Sequence

from lattice_sdk.models.machine_status import ConfFile, NodeImportReport, NodeStatus, NodeSummary
from lattice_sdk.models.records import Page
from lattice_sdk.operation import Steps, everything, given, items_of, operation, read, write
from lattice_sdk.session import Query

IMPORT_S = 120.0


class MachineStatusCalls:
    @operation
    def node_status(
        self, *, fields: str = "", sort: str = "", filter: Sequence[str] = (), nodes: str = "", limit: int | None = None
    ) -> Steps[list[NodeStatus]]:
        """Chosen fields of nodes: `fields` and `sort` are names joined by commas (`-Name` sorts downwards), each of `filter` a
        condition such as `State=DOWN`, `nodes` a folded set."""
        query = [*given(fields=fields, sort=sort, nodes=nodes, limit=limit), *_conditions(filter)]
        if limit is not None:
            return items_of(read("/node-status", Page[NodeStatus], query))
        return everything("/node-status", Page[NodeStatus], query)

    @operation
    def node_summary(self, *, filter: Sequence[str] = (), nodes: str = "") -> Steps[list[NodeSummary]]:
        """Count nodes by state, with their names."""
        return items_of(read("/node-summary", Page[NodeSummary], [*given(nodes=nodes), *_conditions(filter)]))

    @operation
    def import_nodes(
        self, files: Sequence[ConfFile], *, dry_run: bool = False, request_id: str = ""
    ) -> Steps[NodeImportReport]:
        """Declare the nodes of a SlurmConf and the files that it names, or of a NodeSpecConf, with what each must have."""
        fields = {"files": list(files), "dry_run": dry_run}
        return write("POST", "/nodes/import", NodeImportReport, fields, request_id, timeout_s=IMPORT_S)


def _conditions(filter: Sequence[str]) -> Query:
    return [("filter", condition) for condition in filter]
