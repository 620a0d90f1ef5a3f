"""Names of nodes, folded and plain."""

import pytest

from lattice.wire.text.node_names import node_names
from lattice.wire.text.problems import BadField


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("", ()),
        ([], ()),
        ("n1", ("n1",)),
        ("n1,n[3-5,7]", ("n1", "n3", "n4", "n5", "n7")),
        (["n1", "n[1-2]"], ("n1", "n2")),
        ("x[08-11]", ("x08", "x09", "x10", "x11")),
        ("r[1-2]c[1-2]", ("r1c1", "r1c2", "r2c1", "r2c2")),
        ("a, b", ("a", "b")),
    ],
)
def test_names_are_unfolded_in_the_order_written(given: str | list[str], names: tuple[str, ...]) -> None:
    assert node_names(given, "nodes") == names


@pytest.mark.parametrize("given", ["n[", "n]", "n[1-", "n[5-3]", "n[a]", "n[1-99999999]", "r[1-999]c[1-999]", [""]])
def test_what_cannot_be_read_is_refused(given: str | list[str]) -> None:
    with pytest.raises(BadField):
        node_names(given, "nodes")
