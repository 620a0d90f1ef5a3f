"""The configuration a node should have, and how it differs from that. Decides the baseline of each vCluster and which nodes differ from it.

A declared baseline counts for every node of its vCluster. Without one, the majority counts, among nodes of the same kind (processors and
GPUs): a group becomes the baseline when it has at least 55 of 100 of those in service, and stays it until another one has. So a
rolling update turns the baseline once, and two halves that differ leave it where it was. If no group ever had that many, no node differs.
A node in sensitive use without a declared baseline is compared with what it was when it came, or with what an operator approved since.
See docs/architecture/nodes.md.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from lattice.core.model.nodes.nodes import Hardware, Node, NodeState
from lattice.core.model.site.tenants import SENSITIVE, Vcluster

ACTOR = "conformance"  # who drains a node that differs, unless a person does
MAX_DIFFERENCES = 64
MAX_VALUE = 256
_MAJORITY = (
    11,
    20,
)  # 55 of 100: enough above half that nodes coming and going do not flip the baseline
_OUT_OF_SERVICE = frozenset({NodeState.UNKNOWN, NodeState.DOWN, NodeState.FAILED, NodeState.QUARANTINE})


class Difference(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One component that is not as it should be; an empty text = it is not there."""

    component: str
    expected: str = ""
    actual: str = ""


class Baseline(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the nodes of a vCluster should be, as an operator declared it; `components` and `node` as known at that time."""

    vcluster: str
    fingerprint: str
    components: tuple[tuple[str, str], ...] = ()
    node: str = ""
    set_by: str = ""
    set_at: int = 0


class AcceptedFingerprint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a node in sensitive use has to stay, where no baseline is declared; `by` is who approved a change, empty = as it came."""

    node: str
    vcluster: str
    fingerprint: str
    components: tuple[tuple[str, str], ...] = ()
    by: str = ""
    at: int = 0


class Drift(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node that differs from its baseline, since when, and how far the response has come.

    `verified_at`: its fingerprint is right again, and it waits for an operator's approval. `boot_id`: the boot of its machine in which
    it was last found to differ; `is_persistent`: it was found so after a boot that should have remedied it.
    """

    node: str
    vcluster: str
    expected: str
    actual: str
    since: int
    differences: tuple[Difference, ...] = ()
    is_sensitive: bool = False
    escalated_at: int = 0
    verified_at: int = 0
    boot_id: str = ""
    is_persistent: bool = False

    @property
    def is_strict(self) -> bool:
        """Whether only an operator brings the node back."""
        return self.is_sensitive or self.escalated_at > 0


def differences(expected: Mapping[str, str], actual: Mapping[str, str]) -> tuple[Difference, ...]:
    """The components that differ, by name; long values and long lists are cut."""
    names = sorted(expected.keys() | actual.keys())
    found = (
        Difference(component=name, expected=expected.get(name, "")[:MAX_VALUE], actual=actual.get(name, "")[:MAX_VALUE])
        for name in names
        if expected.get(name) != actual.get(name)
    )
    return tuple(found)[:MAX_DIFFERENCES]


def describe(found: Iterable[Difference], most: int = 4) -> str:
    """The differences in one line."""
    all_of_them = tuple(found)
    texts = [f"{each.component} {each.actual or 'none'} (expected {each.expected or 'none'})" for each in all_of_them]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def described(drift: Drift) -> str:
    """In what the node differs, in one line."""
    return describe(drift.differences) or f"expected {drift.expected[:12]}, found {drift.actual[:12]}"


def is_sensitive(node: Node, vclusters: Mapping[str, Vcluster]) -> bool:
    """Whether the node is claimed, in sensitive use, or given to a sensitive vCluster by name."""
    if node.claimant:
        return True
    sensitive = [vcluster for vcluster in vclusters.values() if vcluster.scheduler == SENSITIVE]
    return any(node.vcluster == vcluster.name or node.id in vcluster.nodes for vcluster in sensitive)


def sensitive_vcluster(node: Node, vclusters: Mapping[str, Vcluster]) -> str:
    """The sensitive vCluster that a node serves or is given to, by whose baseline it is judged; empty = none."""
    if not is_sensitive(node, vclusters):
        return ""
    sensitive = {name: vcluster for name, vcluster in sorted(vclusters.items()) if vcluster.scheduler == SENSITIVE}
    if node.vcluster in sensitive:
        return node.vcluster
    named = [name for name, vcluster in sensitive.items() if node.id in vcluster.nodes]
    general = [name for name, vcluster in sensitive.items() if not vcluster.nodes]
    return next(iter(named + general), "")


class Peers(NamedTuple):
    """Nodes that are compared with one another."""

    vcluster: str
    kind: str


class Verdict(NamedTuple):
    """What a node should be by the vCluster that decides; `differs` says whether it is something else."""

    vcluster: str
    expected: str
    differs: bool


class Judgement(NamedTuple):
    majorities: Mapping[Peers, str]  # to be remembered for the next time
    verdicts: Mapping[str, Verdict]  # of nodes with a fingerprint and something to compare it with


_NONE_ACCEPTED: Mapping[str, AcceptedFingerprint] = {}


@lru_cache(maxsize=1024)
def kind_of(hardware: Hardware) -> str:
    """Which nodes may be expected to be alike."""
    memory = " unified" if hardware.unified_memory else ""
    return f"{hardware.cpus} CPUs, {hardware.gpus} {hardware.gpu_type or 'GPUs'}{memory}"


def judge(
    nodes: Mapping[str, Node],
    vclusters: Mapping[str, Vcluster],
    baselines: Mapping[str, Baseline],
    fingerprints: Mapping[str, str],
    remembered: Mapping[Peers, str],
    accepted: Mapping[str, AcceptedFingerprint] = _NONE_ACCEPTED,
) -> Judgement:
    """Who differs from what. A node given to vClusters by name is judged by those, others by the vClusters that have no list."""
    named: dict[str, tuple[str, ...]] = {}
    for vcluster in sorted(vclusters.values(), key=lambda each: (each.scheduler != SENSITIVE, each.name)):
        for member in vcluster.nodes:
            named[member] = (*named.get(member, ()), vcluster.name)
    general = tuple(sorted(vcluster.name for vcluster in vclusters.values() if not vcluster.nodes))
    sorts: dict[str, _Sort] = {}
    sizes: Counter[_Sort] = Counter()
    for name, node in nodes.items():
        sort = sorts[name] = (named.get(name, general), kind_of(node.hardware), fingerprints.get(name, ""))
        if node.state not in _OUT_OF_SERVICE:
            sizes[sort] += 1
    majorities = _majorities(sizes, remembered)
    verdicts = {sort: _verdict(sort, baselines, majorities) for sort in set(sorts.values())}
    found = ((name, verdicts[sort]) for name, sort in sorts.items())
    judged = {name: verdict for name, verdict in found if verdict is not None}
    for name, own in accepted.items():
        actual, verdict = fingerprints.get(name, ""), judged.get(name)
        by_order = verdict is not None and verdict.differs and verdict.vcluster in baselines
        if actual and name in nodes and own.vcluster not in baselines and not by_order:
            judged[name] = Verdict(own.vcluster, own.fingerprint, own.fingerprint != actual)
    return Judgement(majorities, judged)


# Nodes of which the same is to be said: who judges them, their kind, their fingerprint (empty = not known).
_Sort = tuple[tuple[str, ...], str, str]


def _verdict(sort: _Sort, baselines: Mapping[str, Baseline], majorities: Mapping[Peers, str]) -> Verdict | None:
    judges, kind, actual = sort
    verdict = None
    for vcluster in judges if actual else ():
        declared = baselines.get(vcluster)
        expected = declared.fingerprint if declared is not None else majorities.get(Peers(vcluster, kind), "")
        if expected and expected != actual:
            return Verdict(vcluster, expected, True)
        if expected and verdict is None:
            verdict = Verdict(vcluster, expected, False)
    return verdict


def _majorities(sizes: Mapping[_Sort, int], remembered: Mapping[Peers, str]) -> dict[Peers, str]:
    there: dict[Peers, Counter[str]] = {}
    for (judges, kind, fingerprint), count in sizes.items():
        for vcluster in judges:
            there.setdefault(Peers(vcluster, kind), Counter())[fingerprint] += count
    majorities = dict(remembered)
    for peers, counts in there.items():
        found = _majority(counts, remembered.get(peers, ""))
        if found:
            majorities[peers] = found
        else:
            majorities.pop(peers, None)
    return majorities


def _majority(counts: Mapping[str, int], present: str) -> str:
    """The group that has the majority, else the one that had it, unless most have reported and no node belongs to it any more."""
    part, whole = _MAJORITY
    total, silent = sum(counts.values()), counts.get("", 0)
    for found, count in counts.items():
        if found and count * whole >= total * part:
            return found
    has_spoken = (total - silent) * whole >= total * part
    return "" if has_spoken and not counts.get(present) else present
