"""`lattice admin tenant|project|vcluster|node delete`."""

import pytest

from tests.unit.cli.runner import Cli
from tests.unit.sdk.fake_api import FakeApi, Reply


@pytest.mark.parametrize(
    ("line", "path", "told"),
    [
        (("tenant", "delete", "physics"), "/tenants/physics", "Deleted tenant physics"),
        (("project", "delete", "lhc", "--tenant=physics"), "/projects/physics/lhc", "Deleted project lhc"),
        (("vcluster", "delete", "debug"), "/vclusters/debug", "Deleted vCluster debug"),
        (("node", "delete", "n17"), "/nodes/n17", "Deleted node n17"),
    ],
)
def test_each_deletion_calls_its_address_and_says_what_went(
    line: tuple[str, ...], path: str, told: str, api: FakeApi, cli: Cli
) -> None:
    api.on("DELETE", path, {"name": "x"})
    outcome = cli("admin", *line)
    assert (outcome.code, outcome.lines) == (0, [told])


def test_several_nodes_are_deleted_and_a_refusal_does_not_stop_the_others(api: FakeApi, cli: Cli) -> None:
    api.on("DELETE", "/nodes/n1", {"name": "n1"})
    refusal = {"error": {"code": "conflict", "message": "node n2 is in use", "hint": "Drain it first."}}
    api.on("DELETE", "/nodes/n2", Reply(status=409, json=refusal))
    api.on("DELETE", "/nodes/n3", {"name": "n3"})
    outcome = cli("admin", "node", "delete", "n[1-3]")
    assert outcome.code != 0
    assert outcome.lines == ["Deleted node n1", "Deleted node n3"]
    assert "node n2 is in use" in outcome.err
