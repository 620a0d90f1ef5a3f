"""Which protocol version a client of the API speaks: said in a header by those that know versions, checked before anything else."""

from functools import cache, lru_cache

from msgspec import Struct

from lattice.api.errors import ApiError
from lattice.config.release import installed_release
from lattice.core.machine.levels import NEWEST, OLDEST
from lattice.core.model.site.protocols import OURS, Border, NoCommonVersion, header, negotiate, parse_offer


class ProtocolRange(Struct, frozen=True, kw_only=True):
    oldest: int
    newest: int
    features: tuple[str, ...]


class ServerVersion(Struct, frozen=True, kw_only=True):
    """What a client may want to know before it asks for anything; `levels` are those that this server supports."""

    release: str
    protocol: ProtocolRange
    oldest_level: int
    newest_level: int


HEADER = "x-lattice-protocol"
ANSWER = header(OURS[Border.CLIENT])


@lru_cache(maxsize=64)
def check_client(said: str) -> None:
    """Raises ApiError when the client and this server have no version in common. All clients of a release say the same."""
    try:
        negotiate(OURS[Border.CLIENT], parse_offer(said), them="this client")
    except ValueError as error:
        raise ApiError("invalid", f"{HEADER}: {error}") from error
    except NoCommonVersion as error:
        raise ApiError("unsupported_version", str(error), requested=said[:40], current=ANSWER) from error


@cache
def server_version() -> ServerVersion:
    """The same for everybody: needs no token."""
    ours = OURS[Border.CLIENT]
    protocol = ProtocolRange(oldest=ours.oldest, newest=ours.newest, features=ours.features)
    return ServerVersion(release=installed_release(), protocol=protocol, oldest_level=OLDEST, newest_level=NEWEST)
