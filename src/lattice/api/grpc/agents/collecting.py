"""Orders and shares of collectors between the wire and the port."""

from lattice.api.grpc.agents.values import BadMessage
from lattice.ports.nodes.collecting import CollectingOrder, CollectOrder, Share
from lattice.wire.pb import agent_pb2 as pb

MAX_SHARES = 4096


def collecting_message(order: CollectingOrder) -> pb.ServerMessage:
    if isinstance(order, CollectOrder):
        return pb.ServerMessage(
            collect=pb.Collect(
                generation=order.generation,
                interval_s=order.interval_s,
                limit_s=order.limit_s,
                members=order.members,
                tickets=order.tickets,
            )
        )
    return pb.ServerMessage(
        report_to=pb.ReportTo(
            generation=order.generation,
            collector=order.collector,
            address=order.address,
            member=order.member,
            ticket=order.ticket,
            key=order.key,
            interval_s=order.interval_s,
        )
    )


def shares_of(message: pb.CollectedBeats) -> list[Share]:
    """What a collector brings; raises BadMessage when its columns are not alike."""
    if len(message.shares) > MAX_SHARES:
        raise BadMessage(f"{len(message.shares):,} shares in one message; the limit is {MAX_SHARES:,}")
    found = []
    for share in message.shares:
        if not len(share.members) == len(share.ages_ms) == len(share.beats):
            raise BadMessage("columns of different lengths")
        found.append(Share(collector=share.collector, members=share.members, ages_ms=share.ages_ms, beats=share.beats))
    return found
