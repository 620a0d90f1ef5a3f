"""The command line of a member: what must be on, and what differs between versions."""

from pathlib import Path

import pytest

from lattice.quorum.etcd.settings import MemberSettings, Origin, member_arguments
from lattice.quorum.etcd.version import Version
from lattice.quorum.trust.certificates import CertificateFolder

SETTINGS = MemberSettings(
    name="quorum-1",
    folder=Path("/var/lib/lattice/quorum"),
    certificates=CertificateFolder(Path("/etc/lattice/quorum")),
    client_listen="0.0.0.0:2379",
    peer_listen="0.0.0.0:2380",
    client_advertised="quorum-1.example:2379",
    peer_advertised="quorum-1.example:2380",
    quota_bytes=123,
)
CLUSTER = {"quorum-2": "https://quorum-2.example:2380", "quorum-1": "https://quorum-1.example:2380"}


def arguments(version: Version = (3, 4, 23), *, is_joining: bool = False) -> set[str]:
    origin = Origin(name="quorum-1", token="" if is_joining else "token", cluster=CLUSTER, is_joining=is_joining)
    return set(member_arguments(SETTINGS, origin, version))


@pytest.mark.parametrize(
    "wanted",
    [
        "--pre-vote=true",
        "--client-cert-auth=true",
        "--peer-client-cert-auth=true",
        "--peer-cert-allowed-cn=lattice-member",
        "--quota-backend-bytes=123",
        "--listen-client-urls=https://0.0.0.0:2379",
        "--advertise-client-urls=https://quorum-1.example:2379",
        "--initial-advertise-peer-urls=https://quorum-1.example:2380",
        "--initial-cluster-token=token",
        "--initial-cluster-state=new",
        "--data-dir=/var/lib/lattice/quorum/data",
        "--key-file=/etc/lattice/quorum/current/member.key",
        "--initial-cluster=quorum-1=https://quorum-1.example:2380,quorum-2=https://quorum-2.example:2380",
    ],
)
def test_a_member_is_started_with(wanted: str) -> None:
    assert wanted in arguments()


def test_nothing_listens_without_encryption() -> None:
    assert not [argument for argument in arguments() if "http://" in argument]


def test_a_joining_member_begins_no_cluster() -> None:
    joining = arguments(is_joining=True)
    assert "--initial-cluster-state=existing" in joining
    assert not [argument for argument in joining if argument.startswith("--initial-cluster-token")]


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        ((3, 4, 23), "--experimental-initial-corrupt-check=true"),
        ((3, 5, 21), "--experimental-initial-corrupt-check=true"),
        ((3, 6, 0), "--feature-gates=InitialCorruptCheck=true"),
    ],
)
def test_the_corruption_check_is_on_in_every_version(version: Version, wanted: str) -> None:
    assert wanted in arguments(version)
