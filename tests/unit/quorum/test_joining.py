"""Certificates for a new server: its keys stay with it, an invitation is checked, the answer fits what was asked."""

import asyncio
import ssl
import time
from pathlib import Path

import msgspec
import pytest

from lattice.ports.quorum.peers import PeerLost, PeerRefused
from lattice.quorum.peers import enrolment
from lattice.quorum.peers.directory import ServerEntry
from lattice.quorum.peers.invitations import Invitation, InvitationError, JoinToken, decode_token, encode_token
from lattice.quorum.peers.joining import JoinRequest, accept, admit, ask, check
from lattice.quorum.trust.certificates import CertificateFolder, create_authority, install, issue
from lattice.quorum.trust.tls import PeerTls, server_of

SECRET = b"a secret of the cluster"
NEW = ServerEntry(
    name="s4", rest="http://h4:1", grpc="h4:2", client="h4:3", peer="10.0.0.4:4", internal="h4.internal:5"
)


@pytest.fixture
def cluster(tmp_path: Path) -> CertificateFolder:
    folder = CertificateFolder(tmp_path / "cluster")
    create_authority(folder)
    install(folder, issue(folder, ["127.0.0.1"], name="s1"))
    return folder


def token_of(cluster: CertificateFolder) -> JoinToken:
    trusted = cluster.trusted.read_text()
    return JoinToken(id="1", secret="s", name="s4", trusted=trusted, servers=["127.0.0.1:1"], expires_at_ms=1)


def invitation(name: str = "s4") -> Invitation:
    return Invitation(id="1", name=name, secret_hash="", expires_at_ms=0)


def test_a_new_server_gets_certificates_for_the_keys_it_made(cluster: CertificateFolder, tmp_path: Path) -> None:
    fresh = CertificateFolder(tmp_path / "fresh")
    question = ask(fresh, token_of(cluster), NEW, SECRET)
    assert not fresh.exists()
    check(question, invitation(), SECRET)
    answer = admit(cluster, question, "s4:01", [NEW])
    accept(fresh, answer)
    assert fresh.exists()
    assert fresh.authority_key.read_bytes() == cluster.authority_key.read_bytes()
    assert not (fresh.path / "joining").exists()
    assert b"PRIVATE" not in msgspec.msgpack.encode(question)
    assert answer.servers == [NEW]
    PeerTls(fresh)  # key and certificate belong together


def test_the_same_question_is_asked_again_after_an_interruption(cluster: CertificateFolder, tmp_path: Path) -> None:
    fresh = CertificateFolder(tmp_path / "fresh")
    first, second = (ask(fresh, token_of(cluster), NEW, SECRET) for _ in range(2))
    assert first.keys == second.keys
    other = ask(CertificateFolder(tmp_path / "other"), token_of(cluster), NEW, SECRET)
    assert other.keys != first.keys


def test_another_name_and_another_secret_are_refused(cluster: CertificateFolder, tmp_path: Path) -> None:
    question = ask(CertificateFolder(tmp_path / "fresh"), token_of(cluster), NEW, SECRET)
    with pytest.raises(InvitationError, match='for server "s5", not for "s4"'):
        check(question, invitation("s5"), SECRET)
    with pytest.raises(InvitationError, match=r"api\.hmac_secret"):
        check(question, invitation(), b"another")


def test_a_request_that_is_not_signed_with_its_own_key_is_refused(cluster: CertificateFolder, tmp_path: Path) -> None:
    question = ask(CertificateFolder(tmp_path / "fresh"), token_of(cluster), NEW, SECRET)
    forged = msgspec.structs.replace(question, member_request=b"-----BEGIN CERTIFICATE REQUEST-----\n")
    with pytest.raises(InvitationError, match="invalid certificate request"):
        admit(cluster, forged, "s4:01", [])


def test_a_token_survives_being_copied_and_nothing_else_is_taken_for_one(cluster: CertificateFolder) -> None:
    token = token_of(cluster)
    assert decode_token(f"  {encode_token(token)}\n") == token
    for text in ("", "eyJhbGciOiJIUzI1NiJ9", encode_token(token)[:-9], "lattice-join-1:%%%"):
        with pytest.raises(InvitationError, match=r"copy it completely|damaged"):
            decode_token(text)


def test_a_certificate_says_which_server_it_is_for(cluster: CertificateFolder) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cluster.trusted)
    assert server_of(None) is None
    assert server_of({}) is None
    assert server_of({"subject": ((("commonName", "lattice-member"),),)}) == ""
    assert server_of({"subject": ((("organizationalUnitName", "s1"),), (("commonName", "x"),))}) == "s1"


class Busy:
    """Servers of the cluster: no answer at first, then what `last` says."""

    def __init__(self, cluster: CertificateFolder, last: Exception | None = None) -> None:
        self._cluster = cluster
        self._last = last
        self.asked: list[str] = []

    async def show(self, url: str, question: bytes, trust: ssl.SSLContext) -> bytes:
        self.asked.append(url)
        if len(self.asked) < 3:
            raise PeerLost("no answer in time")
        if self._last is not None:
            raise self._last
        request = msgspec.msgpack.decode(question, type=JoinRequest)
        return msgspec.msgpack.encode(admit(self._cluster, request, "s4:01", [NEW]))


def show_token(cluster: CertificateFolder, folder: Path, busy: Busy) -> list[ServerEntry]:
    expires_at_ms = int(time.time() * 1000) + 60_000
    token = msgspec.structs.replace(token_of(cluster), servers=["a:1", "b:1"], expires_at_ms=expires_at_ms)
    (folder / "token").write_text(encode_token(token))
    fresh = CertificateFolder(folder / "fresh")
    return asyncio.run(enrolment.fetch_certificates(fresh, folder / "token", NEW, SECRET, busy.show))


def test_servers_that_give_no_answer_in_time_are_asked_again(
    cluster: CertificateFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enrolment, "_PAUSE_S", 0)
    busy = Busy(cluster)
    assert show_token(cluster, tmp_path, busy) == [NEW]
    assert busy.asked == ["https://a:1", "https://b:1", "https://a:1"]
    with pytest.raises(InvitationError, match="was already used"):
        show_token(cluster, tmp_path, Busy(cluster, PeerRefused("it was already used")))
    monkeypatch.setattr(enrolment, "ASK_WITHIN_S", 0)
    with pytest.raises(InvitationError, match="a:1: no answer in time; b:1: no answer in time"):
        show_token(cluster, tmp_path, Busy(cluster))
