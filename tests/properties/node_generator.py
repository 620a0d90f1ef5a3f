"""Random troubles, orders and wipes of nodes, mostly ones that fit their state."""

from random import Random

from lattice.core.machine import commands as cmd
from lattice.core.machine.state import State
from lattice.core.model.nodes.admission import AdmissionStatus, Enrolment
from lattice.core.model.nodes.nodes import DegradeCause, DownCause, Hardware, NodeState

AWAY = (NodeState.DOWN, NodeState.DRAINED, NodeState.FAILED)


def draw_trouble(rnd: Random, state: State, node: str) -> cmd.AnyCommand:
    """What happens to a node by itself."""
    record = state.nodes.get(node)
    if record is not None and record.wipe is not None and rnd.random() < 0.9:
        since = rnd.choice((record.wipe.since,) * 5 + (0,))
        return cmd.FinishWipe(node=node, since=since, is_wiped=rnd.random() < 0.8, reason="says the wiper")
    if record is not None and record.state is NodeState.BOOTING and rnd.random() < 0.5:
        return cmd.FailBoot(node=node, reason="no agent")
    cause = rnd.choice(tuple(DegradeCause))
    return rnd.choice(
        (
            cmd.DegradeNode(node=node, reason="trouble", cause=cause),
            cmd.RecoverNode(node=node, cause=cause),
            cmd.RecoverNode(node=node),
            cmd.DownNode(node=node),
            cmd.DownNode(node=node, cause=rnd.choice(tuple(DownCause)), reason="fan"),
            cmd.FailBoot(node=node),
        )
    )


def draw_judgement(rnd: Random, state: State, node: str) -> cmd.AnyCommand:
    """What is decided about who may be a node."""
    name = rnd.choice((node, f"new{rnd.randrange(4)}"))
    used = Enrolment(
        token=f"token{rnd.randrange(6)}",
        node=name,
        key=f"key{rnd.randrange(3)}",
        expires_at=state.last_at + rnd.randrange(-1000, 60_000),
    )
    return rnd.choice(
        (
            cmd.SetSetting(key="node.admission", value=rnd.choice(("open", "approve"))),
            cmd.RegisterNode(node=name, hardware=Hardware(cpus=4, memory_mb=4096), boot_id="b1"),
            cmd.ConfirmNode(node=name),
            cmd.RevokeNode(node=name, reason="lost"),
            cmd.AdmitNode(node=name),
            cmd.EnrolNode(enrolment=used, is_named=rnd.random() < 0.5),
        )
    )


def draw_order(rnd: Random, state: State, node: str) -> cmd.AnyCommand:
    """What an operator does with a node; mostly something that brings it back when it is away."""
    record = state.nodes.get(node)
    standing = state.admission.standing(node)
    if standing in (AdmissionStatus.WAITING, AdmissionStatus.REVOKED) and rnd.random() < 0.6:
        return cmd.AdmitNode(node=node, reason="is ours")
    if rnd.random() < 0.05:
        return draw_judgement(rnd, state, node)
    if record is not None and record.state is NodeState.QUARANTINE and rnd.random() < 0.7:
        return cmd.WipeNode(node=node, force=rnd.random() < 0.5)
    if record is not None and record.state in AWAY:
        back: tuple[cmd.AnyCommand, ...] = (
            cmd.EnableNode(node=node),
            cmd.UndrainNode(node=node, is_heard=True),
            cmd.RebootNode(node=node, reason="hangs"),
        )
        if rnd.random() < 0.8:
            return rnd.choice(back)
    return rnd.choice(
        (
            cmd.DrainNode(node=node, reason="fan", urgent=rnd.random() < 0.3),
            cmd.UndrainNode(node=node, is_heard=rnd.random() < 0.7),
            cmd.UndrainNode(node=node, is_heard=True),
            cmd.DisableNode(node=node, reason="broken"),
            cmd.EnableNode(node=node),
            cmd.RebootNode(node=node),
            cmd.WipeNode(node=node, reason="to be safe") if rnd.random() < 0.3 else cmd.EnableNode(node=node),
        )
    )
