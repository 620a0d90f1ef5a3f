"""Who may be a node, on the command line."""

import pytest

from tests.unit.cli.runner import Cli
from tests.unit.sdk.fake_api import FakeApi

REVOKED_AT = "2026-11-16T06:00:00Z"


@pytest.mark.parametrize(
    ("order", "answer", "told"),
    [
        ("admit", {"standing": "admitted"}, "n1 is admitted, not seen yet"),
        ("admit", {"standing": "admitted", "state": "Ready"}, "n1 is admitted, Ready"),
        (
            "admit",
            {"standing": "admitted", "state": "Booting", "valid_from": REVOKED_AT},
            f"n1 is admitted, Booting; its agent needs credentials issued after {REVOKED_AT}",
        ),
        (
            "revoke",
            {"standing": "revoked", "state": "Down", "valid_from": REVOKED_AT},
            f"n1 is revoked, Down; its agent needs credentials issued after {REVOKED_AT}",
        ),
    ],
)
def test_an_order_says_how_the_name_stands_and_what_its_node_needs(
    order: str, answer: dict[str, str], told: str, api: FakeApi, cli: Cli
) -> None:
    api.on("POST", f"/nodes/n1/{order}", {"node": "n1", **answer})
    assert cli("admin", "node", order, "n1").lines == [told]
