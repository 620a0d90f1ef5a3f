"""The share arithmetic that plan and rules have in common."""

import pytest

from lattice.core.model.nodes.nodes import Hardware, Node, Share, Tenure
from lattice.core.model.site.tenants import NodeSharing
from lattice.core.model.work.allocations import Request
from lattice.core.model.work.shares import fits, matches, share_of

HARDWARE = Hardware(cpus=8, memory_mb=10_001, gpus=2, gpu_type="H100", features=("nvme", "ib"))
FREE = Node(id="n1", hardware=HARDWARE)
EXCLUSIVE, SHARED = NodeSharing.EXCLUSIVE, NodeSharing.SHARED


@pytest.mark.parametrize(
    ("request_", "sharing", "share"),
    [
        (Request(cpus=2), EXCLUSIVE, Share(node="n1")),
        (Request(cpus=2, exclusive=True), SHARED, Share(node="n1")),
        (Request(), SHARED, Share(node="n1", whole=False, cpus=1, memory_mb=1250)),
        (Request(cpus=3, gpus=1), SHARED, Share(node="n1", whole=False, cpus=3, memory_mb=3750, gpus=1)),
        (Request(memory_mb=7), SHARED, Share(node="n1", whole=False, cpus=1, memory_mb=7)),
    ],
)
def test_what_a_request_takes_of_a_node(request_: Request, sharing: NodeSharing, share: Share) -> None:
    assert share_of(request_, FREE, sharing) == share


def shared_node(cpus: int) -> Node:
    tenure = Tenure(number=3, tenant="t", cpus=cpus, memory_mb=1000, gpus=1)
    return Node(id="n1", hardware=HARDWARE, vcluster="v", tenures=(tenure,))


@pytest.mark.parametrize(
    ("node", "share", "vcluster", "expected"),
    [
        (FREE, Share(node="n1"), "v", True),
        (Node(id="n1", hardware=HARDWARE, holder=4, vcluster="v"), Share(node="n1"), "v", False),
        (Node(id="n1", hardware=HARDWARE, claimant="u"), Share(node="n1"), "v", False),
        (shared_node(1), Share(node="n1"), "v", False),
        (shared_node(4), Share(node="n1", whole=False, cpus=4, memory_mb=9001, gpus=1), "v", True),
        (shared_node(4), Share(node="n1", whole=False, cpus=4, memory_mb=9001, gpus=1), "w", False),
        (shared_node(5), Share(node="n1", whole=False, cpus=4), "v", False),
        (shared_node(4), Share(node="n1", whole=False, cpus=4, memory_mb=9002), "v", False),
        (shared_node(4), Share(node="n1", whole=False, cpus=4, gpus=2), "v", False),
    ],
)
def test_whether_a_share_fits(node: Node, share: Share, vcluster: str, expected: bool) -> None:
    assert fits(node, share, vcluster) is expected


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Request(), True),
        (Request(cpus=8, memory_mb=10_001, gpus=2, gpu_type="H100", features=("ib",)), True),
        (Request(cpus=9), False),
        (Request(memory_mb=10_002), False),
        (Request(min_memory_mb=10_002), False),
        (Request(gpus=3), False),
        (Request(gpu_type="GH200"), False),
        (Request(features=("ib", "big")), False),
        (Request(node_list=("n1", "n2")), True),
        (Request(node_list=("n2",)), False),
        (Request(exclude=("n1",)), False),
    ],
)
def test_whether_a_node_matches(request_: Request, expected: bool) -> None:
    assert matches(request_, HARDWARE, "n1") is expected
