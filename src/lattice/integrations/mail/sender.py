"""Mail through the site's own server, one connection for each message."""

import asyncio
import smtplib
import ssl
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from email.utils import formatdate, parseaddr
from typing import Literal

from lattice.core.model.ids import allocation_id
from lattice.core.model.work.notifications import Notification
from lattice.ports.site.notifications import DeliveryFailed, Undeliverable
from lattice.wire.work.notifications import address_of, is_mail_address, notice_text

TIMEOUT_S = 20.0
CONCURRENCY = 4

Security = Literal["none", "starttls", "tls"]


class MailSender:
    """Implements `Sender`. `sender` is `NAME <ADDRESS>` or an address; messages are recognised by their Message-ID."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        sender: str,
        security: Security = "starttls",
        user: str = "",
        password: str = "",
        timeout_s: float = TIMEOUT_S,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._sender = sender
        self._security = security
        self._user = user
        self._password = password
        self._timeout_s = timeout_s
        self._trust = trust
        # Threads of its own: a slow server does not delay the others.
        self._threads = ThreadPoolExecutor(CONCURRENCY, thread_name_prefix="mail")

    async def send(self, notification: Notification) -> None:
        message = self._message(notification)
        await asyncio.get_running_loop().run_in_executor(self._threads, self._deliver, message)

    def _message(self, notification: Notification) -> EmailMessage:
        subject, body = notice_text(notification)
        domain = parseaddr(self._sender)[1].rpartition("@")[2] or "localhost"
        address = address_of(notification.to)
        if not is_mail_address(address):
            raise Undeliverable(f'"{address[:80]}" is no mail address')
        message = EmailMessage()
        message["From"] = self._sender
        message["To"] = address
        message["Subject"] = " ".join(subject.split())
        message["Date"] = formatdate(notification.at / 1000)
        message["Message-ID"] = f"<{notification.id}.lattice@{domain}>"
        message["Auto-Submitted"] = "auto-generated"
        message["X-Lattice-Allocation"] = allocation_id(notification.allocation)
        message["X-Lattice-Event"] = str(notification.occasion)
        message.set_content(body)
        return message

    def _deliver(self, message: EmailMessage) -> None:
        try:
            with self._connected() as server:
                server.send_message(message)
        except smtplib.SMTPRecipientsRefused as error:
            codes = [code for code, _ in error.recipients.values()]
            raise _failure(min(codes, default=450), f"recipient refused: {error}") from error
        except (smtplib.SMTPSenderRefused, smtplib.SMTPDataError) as error:
            raise _failure(error.smtp_code, f"refused: {error}") from error
        except (smtplib.SMTPException, OSError) as error:
            raise DeliveryFailed(f"{self._host}:{self._port}: {type(error).__name__}: {error}") from error

    def _connected(self) -> smtplib.SMTP:
        trust = self._trust or ssl.create_default_context()
        if self._security == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(self._host, self._port, timeout=self._timeout_s, context=trust)
        else:
            server = smtplib.SMTP(self._host, self._port, timeout=self._timeout_s)
        try:
            if self._security == "starttls":
                server.starttls(context=trust)
            if self._user:
                server.login(self._user, self._password)
        except BaseException:
            server.close()
            raise
        return server


def _failure(code: int, why: str) -> DeliveryFailed:
    return Undeliverable(why) if code >= 500 else DeliveryFailed(why)
