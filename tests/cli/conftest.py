from collections.abc import Iterator

import pytest

from lattice.testing import LocalCluster
from tests.mailbox import Mailbox


@pytest.fixture(scope="session")
def mails() -> Iterator[Mailbox]:
    with Mailbox() as box:
        yield box


@pytest.fixture(scope="session")
def cli_cluster(mails: Mailbox) -> Iterator[LocalCluster]:
    """Its administrator, the administrator bob, the user ada, and mail."""
    settings = {
        "notifications.mail.host": "127.0.0.1",
        "notifications.mail.port": str(mails.port),
        "notifications.mail.security": "none",
        "notifications.mail.sender": "Lattice <lattice@site.test>",
        "notifications.retry": "200ms",
    }
    with LocalCluster(nodes=2, settings=settings, arguments=["--users", "ada,bob:admin"]) as started:
        yield started


@pytest.fixture
def cluster(cli_cluster: LocalCluster) -> Iterator[LocalCluster]:
    """A cluster on which nothing runs and every node is Ready, before and after."""
    yield cli_cluster
    cli_cluster.cli("cancel", "--all-mine", "-q")
    for node in cli_cluster.nodes():
        cli_cluster.wait_node(node, "Ready")
