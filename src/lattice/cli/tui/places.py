"""Which view an address shows. Addresses are those of the web page: allocations/a17, nodes/n1, admin/audit."""

from collections.abc import Sequence
from typing import Any

from lattice.cli.context import Clock
from lattice.cli.errors import UsageError
from lattice.cli.tui.views.allocation import OneAllocation
from lattice.cli.tui.views.allocations import search_view
from lattice.cli.tui.views.dags import Dags, OneDag
from lattice.cli.tui.views.log import Log
from lattice.cli.tui.views.nodes import Nodes, OneNode
from lattice.cli.tui.views.services import OneService, Services
from lattice.cli.tui.views.site import Admin, UsageView
from lattice.cli.tui.views.timeline import TimelineView
from lattice.cli.tui.views.view import View

VIEWS = ("allocations", "timeline", "nodes", "dags", "services", "usage", "admin")
TITLES = {word: "DAGs" if word == "dags" else word.capitalize() for word in VIEWS}


def view_at(address: str, clock: Clock) -> View[Any]:
    """Raises UsageError for an address that shows nothing."""
    path, _, query = address.strip().strip("/").partition("?")
    first, *rest = path.split("/")
    if first not in VIEWS:
        raise UsageError(f'"{first}" is not a view', hint=f"views: {', '.join(VIEWS)}")
    if rest and all(rest):
        found = _one(address, first, rest, clock)
        if found is None:
            raise UsageError(f'there is no view at "{address}"', hint="for example allocations/a17 or nodes/n1")
        return found
    match first:
        case "allocations":
            return search_view(query, clock)
        case "nodes":
            return Nodes(address, query)
        case "timeline":
            return TimelineView(address, query, clock)
        case "dags":
            return Dags(address, clock)
        case "services":
            return Services(address)
        case "usage":
            return UsageView(address, clock)
        case _:
            return Admin(address, "", clock)


def _one(address: str, first: str, rest: Sequence[str], clock: Clock) -> View[Any] | None:
    match first, *rest:
        case "allocations", name:
            return OneAllocation(address, name, clock)
        case "allocations", name, "log":
            return Log(address, name)
        case "nodes", name:
            return OneNode(address, name)
        case "dags", name:
            return OneDag(address, name)
        case "services", tenant, name:
            return OneService(address, tenant, name)
        case "admin", part:
            return Admin(address, part, clock)
        case _:
            return None
