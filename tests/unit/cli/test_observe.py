"""Commands for those who watch the cluster, without a cluster."""

import json

from lattice.cli.commands.observe.metrics import COMPONENTS as OFFERED
from lattice.cli.commands.observe.targets import discovery_file
from lattice.observe.figures.ring import COMPONENTS
from lattice_sdk.observing.models import MetricTarget, MetricTargets


def test_the_file_for_prometheus_has_an_entry_for_each_topology_group() -> None:
    found = MetricTargets(
        targets=[
            MetricTarget(node="n2", address="n2:9103", group="g1"),
            MetricTarget(node="n1", address="n1:9103", group="g1"),
            MetricTarget(node="x", address="x:9103"),
        ]
    )
    assert json.loads(discovery_file(found)) == [
        {"targets": ["x:9103"], "labels": {}},
        {"targets": ["n1:9103", "n2:9103"], "labels": {"group": "g1"}},
    ]


def test_the_command_offers_the_components_that_servers_know() -> None:
    assert ("all", *COMPONENTS) == OFFERED
