"""Where a token comes from. A file is read again for each call, because tokens are renewed in place."""

import os
from collections.abc import Callable, Sequence

from lattice_sdk.errors import NoToken

TokenSource = Callable[[], str]

MAX_TOKEN = 16384


def given_token(token: str) -> TokenSource:
    """The token itself; NoToken when it could not stand in a header."""
    checked = _checked(token, "the token")
    return lambda: checked


def token_file(path: str | os.PathLike[str]) -> TokenSource:
    """The token in a file; NoToken when the file cannot be read or holds none."""

    def read() -> str:
        try:
            with open(path, encoding="ascii") as file:
                text = file.read(MAX_TOKEN + 1)
        except OSError as error:
            raise NoToken(f"cannot read the token file {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise NoToken(f"the token file {path} does not hold a token") from None
        return _checked(text, f"the token file {path}")

    return read


class KeptLogin:
    """The login that `lattice login` keeps for one of these servers; looked for with the first call, renewed before it ends.

    Renewing asks the identity provider: an event loop calls it in a thread.
    """

    may_wait = True

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = tuple(addresses)
        self._source: TokenSource | None = None

    def __call__(self) -> str:
        if self._source is None:
            from lattice_sdk.token_cache import CachedToken, TokenCache, cache_path

            self._source = CachedToken(TokenCache(cache_path()), self._addresses)
        return self._source()


def no_token() -> str:
    """For calls that need none; everything else will be refused by the server."""
    return ""


def _checked(text: str, source: str) -> str:
    token = text.strip()
    if not token:
        raise NoToken(f"{source} is empty")
    if len(token) > MAX_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise NoToken(f"{source} does not hold a token")
    return token
