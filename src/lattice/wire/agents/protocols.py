"""Protocol versions of agents and servers as messages."""

from lattice.core.model.site.protocols import OURS, Agreed, Border, NoCommonVersion, negotiate, offer_of
from lattice.wire.pb import agent_pb2 as pb


def agent_protocol() -> pb.Protocol:
    """What this release speaks between agents and servers."""
    ours = OURS[Border.AGENT]
    return pb.Protocol(oldest=ours.oldest, newest=ours.newest, features=ours.features)


def agree(said: pb.Protocol, *, us: str, them: str) -> Agreed:
    """What both sides speak, given what the other one said; raises NoCommonVersion."""
    try:
        theirs = offer_of(said.oldest, said.newest, said.features)
    except ValueError as error:
        raise NoCommonVersion(f"{them}: {error}") from error
    return negotiate(OURS[Border.AGENT], theirs, us=us, them=them)
