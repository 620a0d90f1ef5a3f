"""Which nodes are alike."""

from lattice.core.model.nodes.conformance import UNKNOWN_GROUP, fingerprint, group_numbers


def test_the_same_components_give_the_same_fingerprint_in_any_order() -> None:
    one = fingerprint({"kernel": "6.1", "gpu_driver": "550.54"})
    assert one == fingerprint({"gpu_driver": "550.54", "kernel": "6.1"})
    assert one != fingerprint({"gpu_driver": "550.55", "kernel": "6.1"})
    assert one != fingerprint({"gpu_driver": "550.54"})


def test_nodes_with_one_fingerprint_are_one_group() -> None:
    known = {"n1": "x", "n2": "y", "n4": "x", "n5": ""}
    assert group_numbers(["n1", "n2", "n3", "n4", "n5"], known) == [0, 1, UNKNOWN_GROUP, 0, UNKNOWN_GROUP]
