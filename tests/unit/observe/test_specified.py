"""Every metric of the specification exists, or the feature that it waits for does not."""

import pytest

from lattice.agent.figures.figures import FAMILIES
from lattice.api.operations.table import OPERATIONS
from lattice.config.schema import ServerConfig
from lattice.core.machine import commands, events
from lattice.observe.figures.specified import AGENT, SPECIFIED, Renamed, Waits
from tools.code_reference import metric_families

SIGNS = frozenset(
    [
        *(f"command:{name}" for name in vars(commands)),
        *(f"event:{name}" for name in vars(events)),
        *(f"operation:{operation.name}" for operation in OPERATIONS),
        *(f"config:{name}" for name in ServerConfig.__struct_fields__),
    ]
)


def test_the_specification_names_45_metrics() -> None:
    assert len(SPECIFIED) == 45


@pytest.mark.parametrize("name", SPECIFIED)
def test_a_metric_exists_once_its_feature_does(name: str) -> None:
    place = SPECIFIED[name]
    shown = metric_families().keys() | FAMILIES.keys()
    if isinstance(place, Renamed):
        assert name not in shown
        assert place.to in SPECIFIED
    elif isinstance(place, Waits):
        found = sorted(sign for sign in SIGNS if sign.startswith(place.signs))
        assert name in shown or not found, f"{place.feature} is there ({', '.join(found[:3])}): add {name} to observe/"
    else:
        assert name in (FAMILIES if place == AGENT else metric_families())
