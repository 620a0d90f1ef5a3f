"""The quorum's certificates: who trusts whom, what a rotation leaves in place, who can read the keys."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509 import verification

from lattice.quorum.trust.certificates import (
    CertificateError,
    CertificateFolder,
    Credentials,
    create_authority,
    install,
    issue,
    rotate,
    with_authority,
)


@pytest.fixture
def folder(tmp_path: Path) -> CertificateFolder:
    folder = CertificateFolder(tmp_path / "certificates")
    create_authority(folder)
    install(folder, issue(folder, ["quorum-1.example", "10.0.0.1"]))
    return folder


def trusts(trusted: bytes, certificate: bytes, host: str) -> bool:
    store = verification.Store(x509.load_pem_x509_certificates(trusted))
    subject = x509.DNSName(host)
    verifier = verification.PolicyBuilder().store(store).build_server_verifier(subject)
    try:
        verifier.verify(x509.load_pem_x509_certificate(certificate), [])
    except verification.VerificationError:
        return False
    return True


def test_what_the_authority_issued_is_trusted_for_its_hosts_alone(folder: CertificateFolder, tmp_path: Path) -> None:
    trusted, certificate = folder.trusted.read_bytes(), folder.member_certificate.read_bytes()
    assert trusts(trusted, certificate, "quorum-1.example")
    assert trusts(trusted, certificate, "localhost")
    assert not trusts(trusted, certificate, "quorum-2.example")
    other = CertificateFolder(tmp_path / "other")
    create_authority(other)
    assert not trusts(other.trusted.read_bytes(), certificate, "quorum-1.example")


def test_nobody_else_can_read_a_key(folder: CertificateFolder) -> None:
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    for key in (folder.authority_key, folder.member_key, folder.client_key):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_a_second_bootstrap_does_not_replace_the_authority(folder: CertificateFolder) -> None:
    before = folder.trusted.read_bytes()
    with pytest.raises(CertificateError, match="already"):
        create_authority(folder)
    assert folder.trusted.read_bytes() == before


def test_a_rotation_changes_keys_and_certificates_under_the_same_paths(folder: CertificateFolder) -> None:
    trusted, key = folder.trusted.read_bytes(), folder.member_key.read_bytes()
    for _ in range(5):
        rotate(folder, ["quorum-1.example"])
        assert folder.member_key.read_bytes() != key
        key = folder.member_key.read_bytes()
        assert trusts(trusted, folder.member_certificate.read_bytes(), "quorum-1.example")
    assert len(list(folder.path.glob("issued-*"))) == 3


def test_a_certificate_asks_to_be_renewed_when_a_third_of_its_time_is_left(folder: CertificateFolder) -> None:
    rotate(folder, ["quorum-1.example"], lifetime=timedelta(days=90))
    now = datetime.now(UTC)
    assert not folder.needs_renewal(now + timedelta(days=59))
    assert folder.needs_renewal(now + timedelta(days=61))
    assert folder.expires_at() - now > timedelta(days=89)


def test_a_joining_server_gets_what_it_needs_and_issues_only_with_the_authority_key(
    folder: CertificateFolder, tmp_path: Path
) -> None:
    joined = CertificateFolder(tmp_path / "joined")
    credentials = issue(folder, ["quorum-2.example"])
    install(joined, credentials)
    assert trusts(folder.trusted.read_bytes(), joined.member_certificate.read_bytes(), "quorum-2.example")
    with pytest.raises(CertificateError, match="cannot issue"):
        issue(joined, ["quorum-3.example"])
    install(joined, with_authority(folder, credentials))
    assert isinstance(issue(joined, ["quorum-3.example"]), Credentials)


def test_a_key_of_another_authority_is_noticed(folder: CertificateFolder, tmp_path: Path) -> None:
    other = CertificateFolder(tmp_path / "other")
    create_authority(other)
    folder.authority_key.write_bytes(other.authority_key.read_bytes())
    with pytest.raises(CertificateError, match="does not belong"):
        issue(folder, ["quorum-1.example"])


def test_a_host_that_is_none_is_refused(folder: CertificateFolder) -> None:
    with pytest.raises(CertificateError, match="invalid host name"):
        issue(folder, ["münchen"])
