"""DAGs: the list, and one of them with its graph and its members."""

from lattice.cli.context import Clock
from lattice.cli.times import local_text
from lattice.cli.tui.lines import DIM, Line, line, printable_lines
from lattice.cli.tui.listing import Column, Row, order_of
from lattice.cli.tui.views.view import ListView
from lattice.slurm.text.hostlists import fold
from lattice_sdk.client import Client
from lattice_sdk.models.changes import Event
from lattice_sdk.models.dags import Dag, DagGraph
from lattice_sdk.models.records import GAP


class Dags(ListView[list[Dag]]):
    word = "dags"
    columns = (
        Column("ID", 5),
        Column("NAME", 10, most=30),
        Column("STATE", 9),
        Column("USER", 6, most=14),
        Column("DONE", 7, is_right=True),
        Column("SUBMITTED", 16, grows=True),
    )
    nothing = "No DAGs. `lattice dag submit FILE` makes one."
    keys = "Enter open  x cancel  <> sort  Esc back"

    def __init__(self, address: str, clock: Clock) -> None:
        super().__init__(address)
        self._clock = clock

    def heading(self) -> str:
        return "DAGs"

    def command(self, who: str) -> str:
        return "lattice dag list"

    def read(self, client: Client) -> list[Dag]:
        return client.list_dags()

    def take(self, answer: list[Dag]) -> None:
        self.listing.show(self._row(dag) for dag in answer)

    def hears(self, event: Event) -> bool:
        return event.kind == GAP or event.what == "dag" or bool(event.dag_id)

    def _row(self, dag: Dag) -> Row:
        done = dag.counts.completed + dag.counts.failed + dag.counts.cancelled
        when = local_text(dag.submitted_at, self._clock.now())
        return Row(
            key=dag.id,
            cells=(dag.id, dag.name, dag.state, dag.user, f"{done}/{dag.counts.size}", when),
            values=tuple(map(order_of, (dag.number, dag.name, dag.state, dag.user, done, dag.submitted_at))),
            state=dag.state,
            opens=f"dags/{dag.id}",
        )


class OneDag(ListView[tuple[Dag, DagGraph]]):
    word = "dags"
    columns = (
        Column("REF", 6, most=20),
        Column("ID", 6),
        Column("STATE", 9),
        Column("NODES", 6, most=16),
        Column("DEPENDS ON", 10, most=30),
        Column("WHY", 8, grows=True),
    )
    keys = "Enter open  x cancel the DAG  Esc back"

    def __init__(self, address: str, dag_id: str) -> None:
        super().__init__(address)
        self.id = dag_id
        self.drawing: list[str] = []
        self.dag: Dag | None = None

    def heading(self) -> str:
        return f"{self.id}  {self.dag.name}".rstrip() if self.dag else self.id

    def remark(self) -> str:
        return self.dag.state if self.dag else ""

    def command(self, who: str) -> str:
        return f"lattice dag status {self.id}"

    def read(self, client: Client) -> tuple[Dag, DagGraph]:
        return client.get_dag(self.id), client.get_dag_graph(self.id)

    def take(self, answer: tuple[Dag, DagGraph]) -> None:
        self.dag, graph = answer
        self.drawing = printable_lines(graph.text.rstrip("\n"))
        rows = []
        for each in self.dag.allocations:
            why = each.message or each.reason
            cells = (each.ref, each.id, each.state, fold(each.nodes), each.depends_on, why)
            rows.append(
                Row(
                    key=each.id,
                    cells=cells,
                    values=(order_of(each.ref), order_of(each.number), *map(order_of, cells[2:])),
                    state=each.state,
                    opens=f"allocations/{each.id}",
                )
            )
        self.listing.show(rows)

    def hears(self, event: Event) -> bool:
        return event.kind == GAP or event.dag_id == self.id or event.id == self.id

    def preface(self, width: int, height: int) -> list[Line]:
        room = max(0, height // 2)
        if len(self.drawing) <= room:
            return [*(line(each) for each in self.drawing), ()]
        return [
            *(line(each) for each in self.drawing[: room - 1]),
            line("... `lattice dag status` shows all of it", DIM),
        ]
