"""Logins that are kept: one file for all clusters, readable by its owner alone, shared by all programs of that person.

A token is renewed shortly before its end, by one program at a time: providers that give a new refresh token with each use take the
old one for stolen when it is used twice.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import time

import msgspec

from lattice_sdk.errors import LoginFailed, NoToken
from lattice_sdk.transport import parse_endpoint

RENEW_BEFORE_S = 60.0
FILE = "tokens.json"
LOG_IN = "run `lattice login`"


class Login(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who one is at one cluster, and how to stay it. `kind` is which of the provider's tokens is shown."""

    issuer: str
    client_id: str
    token: str
    kind: str = "access_token"
    expires_at: float = 0.0
    refresh_token: str = ""
    client_secret: str = ""
    ca_file: str = ""


def cache_path(environment: Mapping[str, str] = os.environ) -> str:
    """Where logins are kept: LATTICE_TOKEN_CACHE, or beside the configuration."""
    named = environment.get("LATTICE_TOKEN_CACHE")
    if named:
        return named
    home = environment.get("HOME") or os.path.expanduser("~")
    folder = environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    return os.path.join(folder, "lattice", FILE)


def addresses(endpoints: str | Sequence[str]) -> list[str]:
    """The servers of a cluster, each as it is written in the file."""
    texts = endpoints.split(",") if isinstance(endpoints, str) else endpoints
    return [str(parse_endpoint(text)) for text in texts if text.strip()]


class TokenCache:
    """`warn` is called for a file that others could read; its mode is fixed."""

    def __init__(self, path: str, warn: Callable[[str], None] = lambda _text: None) -> None:
        self.path = path
        self._warn = warn

    def find(self, endpoints: str | Sequence[str]) -> Login | None:
        """The login at one of these servers."""
        known = self._read()
        return next((known[each] for each in addresses(endpoints) if each in known), None)

    def keep(self, endpoints: str | Sequence[str], login: Login) -> None:
        with self.locked():
            self._write({**self._read(), **dict.fromkeys(addresses(endpoints), login)})

    def forget(self, endpoints: str | Sequence[str]) -> Login | None:
        """Takes the login out and returns it."""
        with self.locked():
            known = self._read()
            gone = [login for each in addresses(endpoints) if (login := known.pop(each, None)) is not None]
            if gone:
                self._write(known)
        return gone[0] if gone else None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        import fcntl

        folder = os.path.dirname(self.path) or "."
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise NoToken(f"cannot keep logins in {folder}: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _read(self) -> dict[str, Login]:
        try:
            with open(self.path, "rb") as file:
                mode = os.fstat(file.fileno()).st_mode & 0o777
                data = file.read()
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise NoToken(f"cannot read {self.path}: {error.strerror}") from None
        if mode & 0o077:
            self._warn(f"{self.path} could be read by others (mode {mode:04o}); fixed")
            with contextlib.suppress(OSError):
                os.chmod(self.path, 0o600)
        try:
            return msgspec.json.decode(data, type=dict[str, Login])
        except msgspec.MsgspecError:
            raise NoToken(f"{self.path} is damaged; remove it and {LOG_IN}") from None

    def _write(self, known: dict[str, Login]) -> None:
        draft = f"{self.path}.{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        try:
            file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(file, "wb") as opened:
                opened.write(msgspec.json.format(msgspec.json.encode(known), indent=1))
            os.replace(draft, self.path)
        except OSError as error:
            raise NoToken(f"cannot write {self.path}: {error.strerror}") from None


class CachedToken:
    """A token source: the kept login at one of these servers, renewed before it ends; an empty text without one."""

    def __init__(self, cache: TokenCache, endpoints: Sequence[str], now: Callable[[], float] = time) -> None:
        self._cache = cache
        self._endpoints = tuple(endpoints)
        self._now = now
        self._login: Login | None = None

    def __call__(self) -> str:
        if self._login is None or self._is_ending(self._login):
            self._login = self._cache.find(self._endpoints)
        if self._login is not None and self._is_ending(self._login):
            self._login = self._renewed()
        return "" if self._login is None else self._login.token

    def _is_ending(self, login: Login) -> bool:
        return bool(login.expires_at) and login.expires_at - self._now() < RENEW_BEFORE_S

    def _renewed(self) -> Login | None:
        with self._cache.locked():
            login = self._cache.find(self._endpoints)
            if login is None or not self._is_ending(login):
                return login  # another process was faster
            try:
                fresh = renew(login, self._now)
            except LoginFailed as error:
                if login.expires_at > self._now():
                    return login
                raise NoToken(f"the login has ended and was not renewed ({error}); {LOG_IN}") from None
            known = self._cache._read()
            self._cache._write({**known, **{each: fresh for each in known if known[each] == login}})
            return fresh


def renew(login: Login, now: Callable[[], float] = time) -> Login:
    """The same person with a new token; LoginFailed when the provider gives none."""
    from lattice_sdk.provider import as_client, ask_for_tokens, find_provider

    if not login.refresh_token:
        raise LoginFailed("it has no refresh token")
    provider = find_provider(login.issuer, login.ca_file)
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token}
    tokens = ask_for_tokens(provider, as_client(form, login.client_id, login.client_secret), login.ca_file)
    token = getattr(tokens, login.kind)
    if not token:
        raise LoginFailed(f"the identity provider gave no {login.kind} this time")
    return msgspec.structs.replace(
        login,
        token=token,
        expires_at=ends_at(token, tokens.expires_in, now),
        refresh_token=tokens.refresh_token or login.refresh_token,
    )


def ends_at(token: str, expires_in: float, now: Callable[[], float]) -> float:
    """When the token ends: as it says itself, else as the provider said."""
    from lattice_sdk.provider import expiry_of

    return expiry_of(token) or (now() + expires_in if expires_in else 0.0)
