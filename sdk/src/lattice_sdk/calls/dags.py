"""DAGs: allocations that are submitted together and wait for one another."""

from collections.abc import Mapping
from os import PathLike
from time import monotonic

from lattice_sdk.calls.allocations import LONGEST_POLL_S, poll
from lattice_sdk.dags import normalised, read_dag_file
from lattice_sdk.errors import WaitTimedOut
from lattice_sdk.models.dags import Dag, DagGraph
from lattice_sdk.models.records import TERMINAL_STATES, Page
from lattice_sdk.operation import Steps, at, everything, given, operation, operation_named, read, write


class DagCalls:
    @operation
    def submit_dag(self, dag: str | PathLike[str] | Mapping[str, object], *, request_id: str = "") -> Steps[Dag]:
        """The new DAG, from a file (YAML or JSON) or a document of the same form: all its allocations, or none."""
        document = normalised(dag) if isinstance(dag, Mapping) else read_dag_file(dag)
        return write("POST", "/dags", Dag, document, request_id)

    @operation
    def get_dag(self, dag_id: str) -> Steps[Dag]:
        """Get one DAG with its allocations, active or archived."""
        return read(at("dags", dag_id), Dag)

    @operation_named("get_dag")
    def wait_dag(self, dag_id: str, *, timeout: float | None = None) -> Steps[Dag]:
        """The DAG once all of it has ended; WaitTimedOut when that takes longer than `timeout`."""
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            dag = yield from read(at("dags", dag_id), Dag)
            if dag.is_ended:
                return dag
            left = LONGEST_POLL_S if deadline is None else max(0.0, deadline - monotonic())
            if not left:
                raise WaitTimedOut(f"{dag.id} is still {dag.state}")
            # It ends together with the last of them, in whatever order they do.
            waited = next((member.id for member in dag.allocations if member.state not in TERMINAL_STATES), "")
            if waited:
                yield poll(waited, min(left, LONGEST_POLL_S))

    @operation
    def list_dags(self, *, user: str = "", tenant: str = "", state: str = "") -> Steps[list[Dag]]:
        """All DAGs, newest first, without their allocations."""
        return everything("/dags", Page[Dag], given(user=user, tenant=tenant, state=state))

    @operation
    def get_dag_graph(self, dag_id: str) -> Steps[DagGraph]:
        """Its allocations and edges, and a drawing of them for a terminal."""
        return read(at("dags", dag_id, "graph"), DagGraph)

    @operation
    def cancel_dag(self, dag_id: str, *, request_id: str = "") -> Steps[Dag]:
        """Cancel every allocation of the DAG that has not ended."""
        return write("DELETE", at("dags", dag_id), Dag, None, request_id)
