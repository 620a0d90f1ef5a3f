"""What a shown configuration says, and what it keeps to itself."""

from lattice.config.redaction import HIDDEN, is_reference, is_secret_key, redacted
from lattice.config.schema import ServerConfig
from lattice.config.sections.front import ApiSection
from lattice.config.sections.outside import MailSection, NotificationsSection
from lattice.config.sections.work import SchedulingSection


def test_secrets_are_struck_out_and_references_are_left() -> None:
    config = ServerConfig(
        data_dir="/srv/lattice",
        api=ApiSection(hmac_secret="hunter2"),
        notifications=NotificationsSection(mail=MailSection(user="lattice", password="file:///etc/lattice/mail")),
        scheduling=SchedulingSection(energy_prices="https://me:hunter2@prices.example.org/day.csv"),
    )
    shown = redacted(config)
    assert "hunter2" not in str(shown)
    assert shown["api"]["hmac_secret"] == HIDDEN  # type: ignore[index]
    assert shown["notifications"]["mail"]["password"] == "file:///etc/lattice/mail"  # type: ignore[index]
    assert shown["data_dir"] == "/srv/lattice"


def test_keys_that_hold_secrets_are_known_by_their_names() -> None:
    for key in ("api.hmac_secret", "vault.token", "notifications.mail.password", "quorum.token"):
        assert is_secret_key(key), key
    for key in ("api.token_revalidation_interval", "audit.signing_key", "name"):
        assert not is_secret_key(key), key
    assert is_reference("vault://lattice/x")
    assert not is_reference("https://lattice/x")
