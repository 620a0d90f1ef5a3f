"""What the leader knows of the nodes' configurations, and for how long."""

import json

import pytest

from lattice.control.nodes.inventories import ASK_AGAIN_S, Inventories
from lattice.core.model.nodes.fitness import GpuFitness
from lattice.core.model.nodes.gpus import GpuLink, GpuVendor
from lattice.core.model.nodes.inventory import (
    MAX_DOCUMENT_BYTES,
    Board,
    Gpu,
    Inventory,
    Software,
    encode_inventory,
    inventory_fingerprint,
)
from lattice.testing import HandClock

STALE_AFTER_S = 100.0


class Links:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def refresh_inventory(self, node: str) -> bool:
        self.asked.append(node)
        return node != "gone"


class Known:
    """The registry, and what it was told."""

    def __init__(self) -> None:
        self.clock, self.links, self.changes = HandClock(), Links(), list[str]()
        self.window_s = STALE_AFTER_S
        self.registry = Inventories(self.links, self.clock, lambda: self.window_s)
        self.registry.subscribe(self.changes.append)

    def tell(self, node: str, kernel: str = "6.1", **more: str) -> str:
        inventory = Inventory(software=Software(kernel=kernel), board=Board(**more))
        assert self.registry.take(node, encode_inventory(inventory), inventory_fingerprint(inventory))
        return inventory_fingerprint(inventory)


@pytest.fixture
def known() -> Known:
    return Known()


def test_nodes_with_the_same_components_have_the_same_fingerprint(known: Known) -> None:
    one = known.tell("n1", vendor="HPE")
    known.tell("n2", vendor="Dell")
    other = known.tell("n3", kernel="6.2")
    assert known.registry.fingerprints() == {"n1": one, "n2": one, "n3": other}
    assert known.registry.components("n3") == {"kernel": "6.2"}
    assert known.registry.components("n9") == {}


def test_the_mapping_is_the_same_object_until_something_changes(known: Known) -> None:
    known.tell("n1")
    before = known.registry.fingerprints()
    known.clock.s += 10
    known.tell("n1", vendor="HPE")
    assert known.registry.fingerprints() is before
    known.tell("n1", kernel="6.2")
    assert known.registry.fingerprints() is not before


def test_who_asks_is_told_of_other_fingerprints_only(known: Known) -> None:
    known.tell("n1")
    known.tell("n1", vendor="HPE")
    known.tell("n1", kernel="6.2")
    assert known.changes == ["n1", "n1"]


def test_what_is_too_old_is_not_known_until_it_is_told_again(known: Known) -> None:
    first = known.tell("n1")
    known.clock.s += STALE_AFTER_S / 2
    known.tell("n2")
    known.clock.s += STALE_AFTER_S / 2 + 1
    assert known.registry.fingerprints() == {"n2": first}
    shown = known.registry.get("n1")
    assert shown is not None
    assert (shown.is_stale, shown.age_s) == (True, STALE_AFTER_S + 1)
    known.tell("n1")
    assert known.registry.fingerprints() == {"n1": first, "n2": first}


def test_the_window_can_be_changed_while_the_cluster_runs(known: Known) -> None:
    known.tell("n1")
    known.clock.s += 50
    assert "n1" in known.registry.fingerprints()
    known.window_s = 20.0
    assert known.registry.fingerprints() == {}


@pytest.mark.parametrize(
    "garbage", [b"", b"\x00\xff", b"[]", b'{"memory_mb": "x"}', b'{"x": "' + b"x" * MAX_DOCUMENT_BYTES + b'"}']
)
def test_garbage_is_refused_and_counted_and_changes_nothing(known: Known, garbage: bytes) -> None:
    before = known.tell("n1")
    assert not known.registry.take("n1", garbage, "f" * 64)
    assert known.registry.fingerprints() == {"n1": before}
    assert known.registry.counts["refused"] == 1


def test_a_node_that_says_nothing_of_what_counts_is_shown_and_has_no_fingerprint(known: Known) -> None:
    assert known.registry.take("n1", b"{}", "")
    assert known.registry.fingerprints() == {}
    shown = known.registry.get("n1")
    assert shown is not None
    assert (shown.fingerprint, json.loads(shown.document)) == ("", {})


def test_a_lost_inventory_is_asked_for_but_not_with_every_heartbeat(known: Known) -> None:
    mark = bytes.fromhex(known.tell("n1"))[:8]
    known.registry.heard("n1", mark)
    known.registry.heard("n1", b"")
    assert known.links.asked == []
    for _ in range(5):
        known.registry.heard("n1", b"otherone")
        known.registry.heard("n2", b"whatever")
    assert known.links.asked == ["n1", "n2"]
    known.clock.s += ASK_AGAIN_S
    known.registry.heard("n1", b"otherone")
    assert known.links.asked == ["n1", "n2", "n1"]


def test_an_agents_own_fingerprint_counts_for_its_heartbeats_alone(known: Known) -> None:
    document = encode_inventory(Inventory(software=Software(kernel="6.1")))
    known.registry.take("n1", document, "ab" * 32)
    known.registry.heard("n1", b"\xab" * 8)
    assert known.links.asked == []
    assert known.registry.fingerprints()["n1"] != "ab" * 32
    known.registry.take("n1", document, "no hexadecimal")
    assert known.registry.fingerprints().keys() == {"n1"}


def test_a_node_that_floods_the_server_is_heard_a_few_times_and_asked_again_later(known: Known) -> None:
    for number in range(1000):
        document = encode_inventory(Inventory(software=Software(kernel=str(number))))
        known.registry.take("n1", document, f"{number:064x}")
    assert known.registry.counts["taken"] + known.registry.counts["surplus"] == 1000
    assert known.registry.counts["taken"] < 50
    known.tell("n2")
    known.clock.s += 60
    known.tell("n1", kernel="last")
    assert known.registry.components("n1") == {"kernel": "last"}


def test_a_refresh_reaches_those_that_are_connected(known: Known) -> None:
    assert known.registry.refresh("n1")
    assert not known.registry.refresh("gone")


def test_what_a_node_said_before_a_reboot_is_not_known_until_it_says_it_again(known: Known) -> None:
    one = known.tell("n1")
    known.tell("n2")
    known.registry.forget("n1")
    known.registry.forget("n9")
    assert (known.registry.fingerprints(), known.registry.get("n1")) == ({"n2": one}, None)
    assert known.changes == ["n1", "n2", "n1"]
    known.tell("n1")
    assert known.registry.fingerprints() == {"n1": one, "n2": one}
    assert len(known.registry.documents) == 1


def test_documents_of_like_nodes_are_kept_once(known: Known) -> None:
    for number in range(100):
        known.tell(f"n{number}")
    assert known.registry.get("n1").document is known.registry.get("n99").document  # type: ignore[union-attr]
    for number in range(100):
        known.tell(f"n{number}", kernel="6.2")
    assert len(known.registry.documents) == 1


def test_how_well_gpus_fit_together_is_the_average_of_their_nodes(known: Known) -> None:
    def node(gbps: float) -> bytes:
        gpus = tuple(Gpu(index=index, vendor=GpuVendor.NVIDIA, model="H100") for index in range(3))
        links = (GpuLink(gpu_a=0, gpu_b=1, bandwidth_gbps=400.0), GpuLink(gpu_a=0, gpu_b=2, bandwidth_gbps=gbps))
        far = GpuLink(gpu_a=1, gpu_b=2, bandwidth_gbps=gbps)
        return encode_inventory(Inventory(gpus=gpus, gpu_links=(*links, far)))

    assert known.registry.gpu_fitness() == {}
    known.registry.take("n1", node(100.0), "")
    assert known.registry.gpu_fitness() == {
        ("H100", 1): GpuFitness(),
        ("H100", 2): GpuFitness(),
        ("H100", 3): GpuFitness(links=0.25),
    }
    known.registry.take("n2", node(200.0), "")
    assert known.registry.gpu_fitness()["H100", 3] == pytest.approx((0.375, 1.0))
    known.tell("n1")
    assert known.registry.gpu_fitness()["H100", 3] == GpuFitness(links=0.5)
