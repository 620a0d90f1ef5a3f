"""Which page asks. A browser names the origin of the page behind every write and every WebSocket; only our own may use a session."""

from urllib.parse import urlsplit

from starlette.types import Scope

from lattice.web.answers import Refusal

_OTHER_SITES = frozenset({"cross-site", "same-site"})


def check_origin(scope: Scope) -> None:
    """Raises Refusal unless a page of this very server asks."""
    origins = [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"origin"]
    hosts = [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"host"]
    fetched = [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"sec-fetch-site"]
    is_own = len(origins) == 1 and len(hosts) == 1 and urlsplit(origins[0]).netloc == hosts[0]
    if not is_own or _OTHER_SITES.intersection(fetched):
        named = origins[0][:80] if origins else "a page that does not name itself"
        raise Refusal("forbidden", f"{named} may not use a session of this page", "use a token from other programs")
