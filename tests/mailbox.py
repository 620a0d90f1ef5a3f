"""A mail server for tests: real SMTP on a real socket, with STARTTLS and passwords, and told how to answer."""

import socketserver
import ssl
import threading
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from types import TracebackType
from typing import cast


@dataclass(frozen=True)
class Letter:
    """One message as it came: who sent it to whom, and whether it came encrypted and by whom."""

    sender: str
    recipients: tuple[str, ...]
    message: EmailMessage
    is_encrypted: bool = False
    login: str = ""

    @property
    def id(self) -> str:
        return str(self.message["Message-ID"])

    @property
    def text(self) -> str:
        return str(self.message.get_content())


@dataclass
class Mailbox:
    """`answer` is asked for the code at the end of each message (250 takes it); `refused` recipients get 550."""

    trust: ssl.SSLContext | None = None  # with one: STARTTLS is offered
    is_tls: bool = False  # encrypted from the first byte on
    password: str = ""
    answer: Callable[[], int] = lambda: 250
    refused: set[str] = field(default_factory=set)
    letters: list[Letter] = field(default_factory=list)
    tries: int = 0

    def __post_init__(self) -> None:
        self._server = _Server(("127.0.0.1", 0), _Talk)
        self._server.box = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def __enter__(self) -> "Mailbox":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def of(self, recipient: str) -> list[Letter]:
        return [letter for letter in list(self.letters) if recipient in letter.recipients]


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    box: Mailbox

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up in the middle is none of the test's business."""


class _Talk(socketserver.StreamRequestHandler):
    """One connection."""

    def handle(self) -> None:
        self.box = cast("_Server", self.server).box
        self.encrypted, self.login = self.box.is_tls, ""
        self.sender, self.recipients = "", list[str]()
        if self.box.is_tls:
            self._encrypt()
        self._say("220 mailbox ready")
        while line := self.rfile.readline():
            word, _, rest = line.decode().strip().partition(" ")
            if not self._take(word.upper(), rest):
                return

    def finish(self) -> None:
        super().finish()
        self.connection.close()  # an encrypted one is not the one that the library knows

    def _encrypt(self) -> None:
        assert self.box.trust is not None
        self.connection = self.box.trust.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb")
        self.encrypted = True

    def _say(self, text: str) -> None:
        self.wfile.write(text.encode() + b"\r\n")
        self.wfile.flush()

    def _take(self, word: str, rest: str) -> bool:
        match word:
            case "EHLO" | "HELO":
                self._say("250-mailbox")
                if self.box.trust is not None and not self.encrypted:
                    self._say("250-STARTTLS")
                self._say("250 AUTH PLAIN")
            case "STARTTLS":
                self._say("220 go ahead")
                self._encrypt()
            case "AUTH":
                _, user, password = b64decode(rest.split()[1]).decode().split("\0")
                self.login = user if password == self.box.password else ""
                self._say("235 welcome" if self.login else "535 wrong")
            case "MAIL":
                self.sender, self.recipients = _address(rest), []
                self._say("530 who are you" if self.box.password and not self.login else "250 ok")
            case "RCPT":
                is_refused = _address(rest) in self.box.refused
                self.recipients += [] if is_refused else [_address(rest)]
                self._say("550 no such mailbox" if is_refused else "250 ok")
            case "DATA":
                self._data()
            case "QUIT":
                self._say("221 bye")
                return False
            case _:
                self._say("250 ok")
        return True

    def _data(self) -> None:
        self._say("354 go on")
        lines: list[bytes] = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line[1:] if line.startswith(b"..") else line)
        self.box.tries += 1
        code = self.box.answer()
        if code == 250:
            message = message_from_bytes(b"".join(lines), policy=policy.default)
            letter = Letter(self.sender, tuple(self.recipients), message, self.encrypted, self.login)
            self.box.letters.append(letter)
        self._say(f"{code} said the test")


def _address(text: str) -> str:
    return text.partition("<")[2].partition(">")[0]
