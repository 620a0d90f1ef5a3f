"""Services: how many instances of each are ready, and where they listen."""

from lattice.cli.tui.lines import ACCENT, DIM, Line, line, wrapped
from lattice.cli.tui.listing import Column, Row, order_of
from lattice.cli.tui.views.view import ListView
from lattice_sdk.client import Client
from lattice_sdk.models.changes import Event
from lattice_sdk.models.records import GAP
from lattice_sdk.registry.models import Service, ServiceLookup

READY, NOT_READY = "Ready", "Pending"


class Services(ListView[list[Service]]):
    word = "services"
    columns = (
        Column("SERVICE", 10, most=30),
        Column("TENANT", 6, most=16),
        Column("USER", 6, most=14),
        Column("READY", 5, is_right=True),
        Column("STATE", 8),
        Column("ALLOCATIONS", 11, grows=True),
    )
    nothing = "No services run. `lattice submit --service --expose=web:8000 ...` makes one."
    keys = "Enter open  o address for a browser  <> sort  Esc back"

    def heading(self) -> str:
        return "Services"

    def command(self, who: str) -> str:
        return "lattice service list"

    def read(self, client: Client) -> list[Service]:
        return client.list_services()

    def take(self, answer: list[Service]) -> None:
        rows = []
        for each in answer:
            state = READY if each.size and each.ready == each.size else NOT_READY
            named = ",".join(each.allocations[:8])
            cells = (each.name, each.tenant, each.user, f"{each.ready}/{each.size}", state, named)
            rows.append(
                Row(
                    key=f"{each.tenant}/{each.name}",
                    cells=cells,
                    values=(*map(order_of, cells[:3]), order_of(each.ready), *map(order_of, cells[4:])),
                    state=state,
                    opens=f"services/{each.tenant}/{each.name}",
                )
            )
        self.listing.show(rows)

    def hears(self, event: Event) -> bool:
        return event.kind == GAP or event.what in ("service", "allocation")


class OneService(ListView[ServiceLookup]):
    word = "services"
    columns = (
        Column("NODE", 8, most=24),
        Column("PORT", 6, is_right=True),
        Column("STATE", 8),
        Column("ALLOCATION", 10),
        Column("RUN", 4, is_right=True, grows=True),
    )
    nothing = "No instance runs."
    keys = "Enter open its allocation  o address for a browser  Esc back"

    def __init__(self, address: str, tenant: str, name: str) -> None:
        super().__init__(address)
        self.tenant, self.name = tenant, name
        self.found: ServiceLookup | None = None
        self.link = ""

    def heading(self) -> str:
        return f"Service {self.name} of {self.tenant}"

    def remark(self) -> str:
        return f"{self.found.ready} of {self.found.size} ready" if self.found else ""

    def command(self, who: str) -> str:
        return f"lattice service show {self.name}"

    def read(self, client: Client) -> ServiceLookup:
        return client.lookup_service(self.name, tenant=self.tenant)

    def take(self, answer: ServiceLookup) -> None:
        self.found = answer
        rows = []
        for each in answer.endpoints:
            state = READY if each.ready else NOT_READY
            cells = (each.node, str(each.port) if each.port else "", state, each.id, str(each.run))
            rows.append(
                Row(
                    key=f"{each.id}/{each.node}/{each.port}",
                    cells=cells,
                    values=(order_of(each.node), order_of(each.port), *map(order_of, cells[2:4]), order_of(each.run)),
                    state=state,
                    opens=f"allocations/{each.id}",
                )
            )
        self.listing.show(rows)

    def hears(self, event: Event) -> bool:
        return event.kind == GAP or event.what in ("service", "allocation")

    def preface(self, width: int, height: int) -> list[Line]:
        if self.found is None:
            return []
        shared = "shared with you" if self.found.shared else "for its owner"
        lines = [line(f"User {self.found.user}, {shared}", DIM)]
        if self.link:
            lines += [line("An address for a browser, good once and for a minute:", DIM)]
            lines += wrapped(self.link, width, ACCENT)
        return [*lines, ()]
