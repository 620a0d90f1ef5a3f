"""Which version of a protocol two sides speak: the highest that both know, with the features that both have.

Each border (agents, servers among themselves, clients, the shim) counts its own versions. A side that says nothing is of release 0.1.0
and speaks version 1. A release speaks the version of the release before as well, so that neighbours in an upgrade understand each
other; beyond that they part with a sentence that names both. docs/architecture/upgrades.md.
"""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

MAX_VERSION = 1_000
MAX_FEATURES = 64
MAX_FEATURE = 64


class Border(StrEnum):
    AGENT = "agent"
    SERVER = "server"
    CLIENT = "client"
    SHIM = "shim"


class Offer(Struct, frozen=True, kw_only=True):
    """What one side speaks: all versions from `oldest` to `newest`."""

    oldest: int = 1
    newest: int = 1
    features: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"version {self.newest}" if self.oldest == self.newest else f"versions {self.oldest} to {self.newest}"


class Agreed(Struct, frozen=True, kw_only=True):
    """What both sides speak from now on."""

    version: int = 1
    features: tuple[str, ...] = ()


class NoCommonVersion(Exception):
    """The sides cannot speak with each other; the text names both and the remedy."""


SILENT = Offer()  # what 0.1.0 speaks, which says nothing of versions
MEASURE = "measure"  # the agent says what runs use while they run
IMAGES = "images"  # the agent says which images it has, and takes orders about them
TUNNELS = "tunnels"  # the agent opens bulk streams for tunnels
LOGS = "logs"  # the agent says what it logged lately
PINGS = "pings"  # the server answers pings, so that agents know how far away it is
AT_HAND = "at_hand"  # the server considers which images and free GPUs nodes have, and the agent says it
TELEMETRY = "telemetry"  # the agent measures itself and its runs, and takes modes
# What this release speaks at each border.
OURS: dict[Border, Offer] = {
    Border.AGENT: Offer(oldest=1, newest=2, features=(MEASURE, IMAGES, TUNNELS, PINGS, LOGS, TELEMETRY, AT_HAND)),
    Border.SERVER: Offer(oldest=1, newest=2),
    Border.CLIENT: Offer(oldest=1, newest=2),
    Border.SHIM: Offer(oldest=1, newest=2),
}


def offer_of(oldest: int, newest: int, features: Iterable[str] = ()) -> Offer:
    """What the other side said; 0 = nothing. Raises ValueError for what makes no sense."""
    if not oldest and not newest:
        return SILENT
    if not 1 <= oldest <= newest <= MAX_VERSION:
        raise ValueError(f"protocol versions {oldest} to {newest} make no sense")
    said = tuple(sorted(set(features)))
    if len(said) > MAX_FEATURES or any(len(name) > MAX_FEATURE for name in said):
        raise ValueError(f"more than {MAX_FEATURES} protocol features, or one of more than {MAX_FEATURE} characters")
    return Offer(oldest=oldest, newest=newest, features=said)


def parse_offer(text: str) -> Offer:
    """An offer as a header carries it, `1-2` or `1-2; feature, feature`; empty = nothing. Raises ValueError."""
    versions, _, features = text.partition(";")
    if not versions.strip():
        return SILENT
    oldest, _, newest = versions.partition("-")
    if not (oldest.strip().isdecimal() and newest.strip().isdecimal() and len(versions) < 12):
        raise ValueError(f'"{text[:40]}" is no range of protocol versions, as in 1-2')
    return offer_of(int(oldest), int(newest), (name.strip() for name in features.split(",") if name.strip()))


def header(offer: Offer) -> str:
    features = f"; {', '.join(offer.features)}" if offer.features else ""
    return f"{offer.oldest}-{offer.newest}{features}"


def negotiate(ours: Offer, theirs: Offer, *, us: str = "this server", them: str = "the other side") -> Agreed:
    """The highest version of both and the features of both; raises NoCommonVersion."""
    version = min(ours.newest, theirs.newest)
    if version < max(ours.oldest, theirs.oldest):
        older = them if theirs.newest < ours.oldest else us
        raise NoCommonVersion(
            f"{them} speaks protocol {theirs}, {us} {ours}: they have none in common; upgrade {older}, one release at a time"
        )
    return Agreed(version=version, features=tuple(name for name in ours.features if name in theirs.features))
