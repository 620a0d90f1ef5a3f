"""What every way out for notifications has to do: deliver under a stable id, and tell what may be tried again from what may not."""

import asyncio
import datetime
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from msgspec.structs import replace

from lattice.core.model.work.notifications import Notification, Occasion
from lattice.integrations.mail.sender import MailSender
from lattice.integrations.webhook.sender import WebhookSender, is_public
from lattice.ports.clock import SystemClock
from lattice.ports.site.notifications import DeliveryFailed, Sender, Undeliverable
from lattice.wire.work.notifications import webhook_key
from tests.hooks import Hooks
from tests.mailbox import Mailbox

SECRET = b"the site's own"


def notification(to: str, **changes: object) -> Notification:
    told = Notification(
        number=7,
        at=1_772_700_000_000,
        occasion=Occasion.FAIL,
        to=to,
        user="ada",
        tenant="physics",
        vcluster="default",
        allocation=17,
        name="träning <b>",
        state="Failed",
        cause="exit",
        exit_code=3,
        nodes=("n1", "n2"),
        node_count=40,
    )
    return replace(told, **changes)


class Way(NamedTuple):
    """One way out with the other side of it."""

    sender: Sender
    to: str
    receiver: Mailbox | Hooks
    taken: Callable[[], list[str]]  # ids of what arrived
    later: int  # an answer that means: not now
    never: int  # one that means: never


@pytest.fixture(params=["mail", "webhook"])
def way(request: pytest.FixtureRequest) -> Iterator[Way]:
    if request.param == "mail":
        with Mailbox() as box:
            sender = MailSender("127.0.0.1", box.port, sender="Lattice <lattice@site.test>", security="none")
            yield Way(sender, "mail:ada@site.test", box, lambda: [letter.id for letter in box.letters], 451, 554)
    else:
        with Hooks() as hooks:
            hook = WebhookSender(SECRET, SystemClock(), allow_http=True, allow_private=True, timeout_s=5)
            to = f"webhook:{hooks.url}"
            yield Way(hook, to, hooks, lambda: [call.id for call in hooks.calls], 503, 410)


def send(way: Way, **changes: object) -> None:
    asyncio.run(way.sender.send(notification(way.to, **changes)))


def test_it_arrives_and_a_repeat_is_recognised_by_its_id(way: Way) -> None:
    send(way)
    send(way)
    send(way, number=8)
    first, again, other = way.taken()
    assert first == again != other


def test_what_is_refused_for_now_may_be_tried_again(way: Way) -> None:
    way.receiver.answer = lambda: way.later
    with pytest.raises(DeliveryFailed) as failed:
        send(way)
    assert not isinstance(failed.value, Undeliverable)
    way.receiver.answer = lambda: 250
    send(way)
    assert (len(way.taken()), way.receiver.tries) == (1, 2)


def test_what_is_refused_for_good_is_not(way: Way) -> None:
    way.receiver.answer = lambda: way.never
    with pytest.raises(Undeliverable):
        send(way)


def test_nobody_listening_may_be_tried_again() -> None:
    with Mailbox() as box, Hooks() as hooks:
        mail_port, url = box.port, hooks.url
    mail = MailSender("127.0.0.1", mail_port, sender="l@site.test", security="none", timeout_s=2)
    hook = WebhookSender(SECRET, SystemClock(), allow_http=True, allow_private=True, timeout_s=2)
    for sender, to in ((mail, "mail:ada@site.test"), (hook, f"webhook:{url}")):
        with pytest.raises(DeliveryFailed) as failed:
            asyncio.run(sender.send(notification(to)))
        assert not isinstance(failed.value, Undeliverable)


# mail


def test_a_mail_says_what_happened_in_plain_words() -> None:
    with Mailbox() as box:
        sender = MailSender("127.0.0.1", box.port, sender="Lattice <lattice@site.test>", security="none")
        asyncio.run(sender.send(notification("mail:ada@site.test")))
        letter = box.letters[0]
    assert letter.sender == "lattice@site.test"
    assert letter.recipients == ("ada@site.test",)
    assert letter.message["Subject"] == "Lattice: a17 träning <b> failed (exit code 3)"
    assert letter.message["Auto-Submitted"] == "auto-generated"
    assert letter.id == "<n7-1772700000000.lattice@site.test>"
    assert "Nodes:" in letter.text
    assert "n1,n2 and 38 more" in letter.text


def test_a_recipient_that_does_not_exist_is_given_up() -> None:
    with Mailbox(refused={"ada@site.test"}) as box:
        sender = MailSender("127.0.0.1", box.port, sender="l@site.test", security="none")
        with pytest.raises(Undeliverable, match="recipient refused"):
            asyncio.run(sender.send(notification("mail:ada@site.test")))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for localhost that nobody but the test trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


def serving(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_mail_goes_encrypted_and_with_a_password(security: str, certificate: Path) -> None:
    trust = ssl.create_default_context(cafile=certificate)
    with Mailbox(trust=serving(certificate), is_tls=security == "tls", password="secret") as box:
        sender = MailSender(
            "localhost",
            box.port,
            sender="l@site.test",
            security=security,  # type: ignore[arg-type]
            user="lattice",
            password="secret",
            trust=trust,
        )
        asyncio.run(sender.send(notification("mail:ada@site.test")))
        assert (box.letters[0].is_encrypted, box.letters[0].login) == (True, "lattice")


def test_a_mail_server_that_nobody_vouches_for_gets_no_password(certificate: Path) -> None:
    with Mailbox(trust=serving(certificate), password="secret") as box:
        sender = MailSender("localhost", box.port, sender="l@site.test", user="lattice", password="secret")
        with pytest.raises(DeliveryFailed, match="certificate"):
            asyncio.run(sender.send(notification("mail:ada@site.test")))
        assert box.letters == []


# webhooks


def test_a_webhook_is_signed_with_the_key_of_its_user(certificate: Path) -> None:
    with Hooks(trust=serving(certificate)) as hooks:
        trust = ssl.create_default_context(cafile=certificate)
        sender = WebhookSender(SECRET, SystemClock(), allow_private=True, trust=trust)
        asyncio.run(sender.send(notification(f"webhook:{hooks.url}?a=b")))
        call = hooks.calls[0]
    assert call.path == "/hook?a=b"
    assert call.is_signed_with(webhook_key(SECRET, "ada"))
    assert not call.is_signed_with(webhook_key(SECRET, "bob"))
    assert call.headers["x-lattice-event"] == "fail"
    assert (call.json["allocation"], call.json["exit_code"], call.json["node_count"]) == ("a17", 3, 40)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/",
        "http://[::1]:1/",
        "http://10.1.2.3/",
        "http://169.254.169.254/x",
        "http://[::ffff:10.0.0.1]/",
        "http://[64:ff9b::a00:1]/",
        "http://[2002:a00:1::]/",
        "http://0.0.0.0/",
    ],
)
def test_addresses_inside_the_site_are_not_called_unless_it_allows_that(url: str) -> None:
    sender = WebhookSender(SECRET, SystemClock(), allow_http=True)
    with pytest.raises(Undeliverable, match="not a public address"):
        asyncio.run(sender.send(notification(f"webhook:{url}")))


def test_a_name_that_leads_inside_the_site_is_not_called_either() -> None:
    with Hooks() as hooks:
        sender = WebhookSender(SECRET, SystemClock(), allow_http=True)
        with pytest.raises(Undeliverable, match="not a public address"):
            asyncio.run(sender.send(notification(f"webhook:{hooks.url}")))
        assert hooks.tries == 0


def test_http_is_not_used_unless_the_site_allows_it_and_redirects_are_not_followed() -> None:
    with Hooks(answer=lambda: 302) as hooks:
        strict = WebhookSender(SECRET, SystemClock(), allow_private=True)
        with pytest.raises(Undeliverable, match="https"):
            asyncio.run(strict.send(notification(f"webhook:{hooks.url}")))
        sender = WebhookSender(SECRET, SystemClock(), allow_http=True, allow_private=True)
        with pytest.raises(Undeliverable, match="302"):
            asyncio.run(sender.send(notification(f"webhook:{hooks.url}")))
        assert hooks.tries == 1


def against(said: bytes, timeout_s: float) -> DeliveryFailed:
    """How sending fails against a server that says this and nothing else."""

    async def scenario() -> DeliveryFailed:
        kept: list[asyncio.StreamWriter] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            kept.append(writer)
            writer.write(said)
            await writer.drain()
            await reader.read()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        sender = WebhookSender(SECRET, SystemClock(), allow_http=True, allow_private=True, timeout_s=timeout_s)
        async with server:
            with pytest.raises(DeliveryFailed) as failed:
                await sender.send(notification(f"webhook:http://127.0.0.1:{port}/"))
            for writer in kept:
                writer.transport.abort()
            await asyncio.sleep(0)
        return failed.value

    return asyncio.run(scenario())


def test_a_server_that_does_not_answer_is_left_in_time() -> None:
    assert "within 0.2 s" in str(against(b"", 0.2))


def test_an_answer_that_is_no_http_is_a_failure() -> None:
    assert "not HTTP" in str(against(b"hello there\r\n", 5))


def test_an_endless_line_is_a_failure() -> None:
    assert not isinstance(against(b"H" * 100_000, 5), Undeliverable)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("9.9.9.9", True),
        ("2620:fe::fe", True),
        ("::ffff:9.9.9.9", True),
        ("64:ff9b::909:909", True),
        ("127.0.0.1", False),
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b:1::909:909", False),
        ("::127.0.0.1", False),
        ("::9.9.9.9", False),
        ("fec0::1", False),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(address) is public
