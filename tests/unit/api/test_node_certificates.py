"""Which node a certificate stands for, and what the cluster's own authority issues."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from lattice.api.auth.node_certificates import NodeAuthority, NodeNames, NotANode

SECRET = b"0123456789abcdef0123456789abcdef"
NOW = datetime(2026, 3, 5, tzinfo=UTC)
SPIFFE = NodeNames(spiffe_id="spiffe://site/lattice/agent/{node}")


def request(name: str, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None) -> bytes:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    used = key or ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(used, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize(
    ("names", "common_name", "uris", "node"),
    [
        (NodeNames(domain="alps.lattice.internal"), "x1000c0s0b0n0.alps.lattice.internal", [], "x1000c0s0b0n0"),
        (NodeNames(domain="hpc.example.org"), "n1.hpc.example.org", [], "n1"),
        (NodeNames(domain="hpc.example.org"), "rack1.n1.hpc.example.org", [], "rack1.n1"),
        (SPIFFE, "", ["spiffe://site/lattice/agent/n1"], "n1"),
    ],
)
def test_names_that_stand_for_a_node(names: NodeNames, common_name: str, uris: list[str], node: str) -> None:
    assert names.node_of(common_name, uris) == node


@pytest.mark.parametrize(
    ("names", "common_name", "uris"),
    [
        (NodeNames(), "", []),
        (NodeNames(), "n1", []),  # the same authority vouches for others, too
        (NodeNames(), "n1.alps.lattice.internal", []),
        (SPIFFE, "n1", []),
        (NodeNames(domain="hpc.example.org"), "a b.hpc.example.org", []),
        (NodeNames(domain="hpc.example.org"), "n1", []),
        (NodeNames(domain="hpc.example.org"), "n1.evil.org", []),
        (NodeNames(domain="hpc.example.org"), ".hpc.example.org", []),
        (NodeNames(), "n1", ["spiffe://site/lattice/agent/n1"]),
        (SPIFFE, "n1", ["spiffe://site/database/n1"]),
        (SPIFFE, "n1", ["spiffe://other/lattice/agent/n1"]),
        (SPIFFE, "n1", ["spiffe://site/lattice/agent/"]),
        (SPIFFE, "n1", ["spiffe://site/lattice/agent/a/b"]),
    ],
)
def test_names_that_do_not(names: NodeNames, common_name: str, uris: list[str]) -> None:
    with pytest.raises(NotANode):
        names.node_of(common_name, uris)


def test_every_server_of_one_secret_issues_for_the_same_authority() -> None:
    first, second = (NodeAuthority(SECRET, NodeNames(), 3600) for _ in range(2))
    other = NodeAuthority(SECRET[::-1], NodeNames(), 3600)
    certificate = x509.load_pem_x509_certificate(first.sign("n1", request("n1"), NOW))
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(second.pem))
    with pytest.raises(InvalidSignature):
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(other.pem))


def test_what_is_issued_is_for_that_node_for_a_time_and_issues_nothing_itself() -> None:
    names = NodeNames(domain="hpc.example.org")
    authority = NodeAuthority(SECRET, names, 3600)
    pem = authority.sign("n1", request("n1"), NOW)
    certificate = x509.load_pem_x509_certificate(pem)
    assert certificate.not_valid_after_utc == NOW + timedelta(hours=1)
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    shown = authority.shown({"x509_pem_cert": [pem]})
    assert (shown.node, shown.expires_at) == ("n1", int((NOW + timedelta(hours=1)).timestamp()))
    with pytest.raises(NotANode, match="no certificate"):
        authority.shown({})


USES = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]


def of_the_site(name: str, uses: list[x509.ObjectIdentifier] | None) -> dict[str, list[bytes]]:
    """What a connection shows whose certificate is of another authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "site")]))
        .public_key(key.public_key())
        .serial_number(5)
        .not_valid_before(NOW)
        .not_valid_after(NOW + timedelta(hours=1))
    )
    if uses is not None:
        made = made.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    pem = made.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return {"x509_pem_cert": [pem]}


def test_a_certificate_of_the_site_is_one_for_clients_with_a_name_of_the_node_domain() -> None:
    authority = NodeAuthority(SECRET, NodeNames(domain="hpc.example.org"), 3600)
    shown = authority.shown(of_the_site("n1.hpc.example.org", USES))
    assert (shown.node, shown.begins_at) == ("n1", int(NOW.timestamp()))
    for uses in (None, [ExtendedKeyUsageOID.SERVER_AUTH]):
        with pytest.raises(NotANode, match="clientAuth"):
            authority.shown(of_the_site("n1.hpc.example.org", uses))
    with pytest.raises(NotANode, match="idp"):
        authority.shown(of_the_site("idp", USES))


def test_without_a_node_domain_only_the_own_authority_names_nodes() -> None:
    authority = NodeAuthority(SECRET, NodeNames(), 3600)
    own = authority.sign("n1", request("n1"), NOW)
    assert authority.shown({"x509_pem_cert": [own]}).node == "n1"
    with pytest.raises(NotANode, match="node_domain"):
        authority.shown(of_the_site("n1", USES))


@pytest.mark.parametrize(
    ("node", "asked", "complaint"),
    [
        ("n1", request("n2"), "not for node n1"),
        ("n1", b"rubbish", "cannot be read"),
        ("n1", request("n1")[:-3] + b"abc", "signed by its own key|cannot be read"),
        ("n1", b"x" * 20_000, "too large"),
        ("n1", request("n1", rsa.generate_private_key(public_exponent=65537, key_size=2048)), "P-256"),
        ("a/b", request("a/b"), "cannot be the name"),
    ],
)
def test_requests_that_are_refused(node: str, asked: bytes, complaint: str) -> None:
    with pytest.raises(NotANode, match=complaint):
        NodeAuthority(SECRET, NodeNames(), 3600).sign(node, asked, NOW)
