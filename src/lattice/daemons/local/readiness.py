"""Whether the cluster is ready, according to its public API."""

import http.client
import json
from typing import Any

from lattice.daemons.local.layout import Layout
from lattice.daemons.local.options import HOST

ASK_TIMEOUT_S = 5.0

# An operator took the node out of service, which persists across restarts: there is nothing to wait for.
PUT_ASIDE = {"Draining", "Drained", "Quarantine"}


class NotYet(Exception):
    """The API does not answer."""


def ask(layout: Layout, port: int, path: str) -> Any:  # noqa: ANN401 - JSON
    token = layout.token.read_text().strip()
    connection = http.client.HTTPConnection(HOST, port, timeout=ASK_TIMEOUT_S)
    try:
        connection.request("GET", f"/api/v1{path}", headers={"Authorization": f"Bearer {token}"})
        with connection.getresponse() as answer:
            body = answer.read()
        if answer.status != 200:
            raise NotYet(f"GET {path}: status {answer.status}: {body[:500].decode(errors='replace')}")
        return json.loads(body)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotYet(f"GET {path}: {error}") from error
    finally:
        connection.close()


def settled_nodes(layout: Layout, port: int) -> dict[str, str]:
    """Nodes that have reached their final state, with that state. After a restart a node is Ready in the state
    before its agent is back, so it counts only once its agent has sent a heartbeat."""
    found = {}
    for node in ask(layout, port, "/nodes?limit=10000")["items"]:
        state = node["state"]
        heard = node.get("last_heartbeat_s") is not None
        disabled = state == "Down" and node.get("down_cause") == "operator"
        if (state == "Ready" and heard) or state in PUT_ASIDE or disabled:
            found[node["id"]] = state
    return found


def page_of(port: int) -> str:
    """What is at the address of the web page: `served`, `missing` (its libraries) or `off`."""
    connection = http.client.HTTPConnection(HOST, port, timeout=ASK_TIMEOUT_S)
    try:
        connection.request("GET", "/")
        with connection.getresponse() as answer:
            body = answer.read()
    except (OSError, http.client.HTTPException):
        return "off"
    finally:
        connection.close()
    if answer.status == 200:
        return "served"
    return "missing" if b"make web" in body else "off"


def next_number(layout: Layout, port: int) -> int:
    """The number that the next submission will probably get."""
    items = ask(layout, port, "/allocations?limit=1&all=true&tasks=true")["items"]
    return int(items[0]["number"]) + 1 if items else 1
