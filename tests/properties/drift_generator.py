"""Random drifts, remediations, approvals and baselines."""

from random import Random

from lattice.core.machine import commands as cmd
from lattice.core.machine.rules.nodes.drift import SENSITIVE_TIMEOUT, TIMEOUT
from lattice.core.machine.state import State
from lattice.core.model.nodes.drift import Baseline, Difference

PRINTS = ("a" * 64, "b" * 64, "c" * 64)
DIFFERENCE = Difference(component="kernel", expected="6.1", actual="6.2")


def draw_drift(rnd: Random, state: State, nodes: tuple[str, ...]) -> cmd.AnyCommand:
    """Mostly something that goes on with a drift that is there."""
    drifted = tuple(state.drift.drifts)
    node = rnd.choice((*nodes, *drifted * 6))
    vcluster = rnd.choice((*state.vclusters, "nowhere"))
    baseline = Baseline(vcluster=vcluster, fingerprint=rnd.choice((*PRINTS, "short")))
    return rnd.choice(
        (
            cmd.NoteDrift(
                node=node,
                vcluster=vcluster,
                expected=rnd.choice(PRINTS),
                actual=rnd.choice(PRINTS),
                differences=rnd.choice(((), (DIFFERENCE,))),
            ),
            cmd.ClearDrift(node=node),
            cmd.ClearDrift(node=node),
            cmd.EscalateDrift(node=node),
            cmd.EscalateDrift(node=node),
            cmd.ApproveNode(node=node, is_heard=rnd.random() < 0.8),
            cmd.UndrainNode(node=node, is_heard=True),
            cmd.SetBaseline(baseline=baseline),
            cmd.AcceptFingerprint(node=node, vcluster=vcluster, fingerprint=rnd.choice((*PRINTS, ""))),
            cmd.UnsetBaseline(vcluster=vcluster),
            cmd.SetSetting(key=rnd.choice((TIMEOUT, SENSITIVE_TIMEOUT)), value=rnd.choice(("0", "0.1", "1", "86400"))),
        )
    )
