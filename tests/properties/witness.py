"""Watches the state machine from outside: compares what is visible before and after each command.

Knows the promises, not the rules: it reads records and answers only.
"""

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine.checks.invariants import check
from lattice.core.machine.outcomes import Outcome, Rejected
from lattice.core.machine.state import State
from lattice.core.model.nodes.drift import ACTOR, Drift
from lattice.core.model.nodes.nodes import DownCause, Node, NodeState
from lattice.core.model.site.tenants import SENSITIVE
from lattice.core.model.work.allocations import Allocation, TaskGroup


class Witness:
    """Remembers the records before a command and judges those after it."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._remember()

    def _remember(self) -> None:
        self.allocations: dict[int, Allocation] = dict(self.state.allocations)
        self.groups: dict[int, TaskGroup] = dict(self.state.groups)
        self.nodes: dict[str, Node] = dict(self.state.nodes)
        self.drifts: dict[str, Drift] = dict(self.state.drift.drifts)
        self.usage = {name: (use.nodes, use.allocations) for name, use in self.state.uses.items()}

    def judge(self, envelope: cmd.Envelope, outcome: Outcome) -> list[str]:
        """Every broken promise, in words."""
        findings = [
            *check(self.state),
            *self._refusals(outcome),
            *self._deletions(envelope),
            *self._allocations(envelope),
            *self._operators(envelope),
            *self._wipes(envelope),
            *self._drifts(envelope),
            *self._quotas(),
        ]
        self._remember()
        return findings

    def _refusals(self, outcome: Outcome) -> list[str]:
        if not isinstance(outcome, Rejected):
            return []
        unchanged = (
            self.allocations == self.state.allocations
            and self.nodes == self.state.nodes
            and self.groups == self.state.groups
        )
        return [] if unchanged else ["a refused command changed something"]

    def _deletions(self, envelope: cmd.Envelope) -> list[str]:
        """A node goes by an order, and only when it was idle; what follows speaks of those that are left."""
        findings = []
        for name in self.nodes.keys() - self.state.nodes.keys():
            old = self.nodes.pop(name)
            self.drifts.pop(name, None)
            command = envelope.command
            if not isinstance(command, cmd.DeleteRecord) or command.name != name:
                findings.append(f"{name} vanished")
            if old.holders() or old.claimant or old.wipe is not None or old.state is NodeState.READY:
                findings.append(f"{name} was deleted while it was in use")
        return findings

    def _allocations(self, envelope: cmd.Envelope) -> list[str]:
        findings = []
        for number, old in self.allocations.items():
            new = self.state.allocations.get(number)
            if new is None:
                row = self.state.find(number)
                if isinstance(envelope.command, cmd.FoldTasks) and row is not None:
                    if replace(row, parts=old.parts) != old or not old.is_terminal:
                        findings.append(f"a{number} was folded into something else")
                elif not old.is_terminal or not isinstance(envelope.command, cmd.ArchiveAllocations):
                    findings.append(f"a{number} vanished as {old.state}")
                continue
            if new is old:
                continue
            if old.is_terminal and replace(new, steps=old.steps, next_step=old.next_step) != old:
                findings.append(f"a{number} changed after its end")
            if new.submitted_at != old.submitted_at:
                findings.append(f"a{number} changed its submission time")
            if not 0 <= new.requeue_count - old.requeue_count <= 1 or not 0 <= new.run - old.run <= 1:
                findings.append(f"a{number} jumped in its counters")
            findings += self._parts(number, old, new)
        return findings

    def _parts(self, number: int, old: Allocation, new: Allocation) -> list[str]:
        if new.run != old.run or not new.parts:
            return []
        before = {part.node: part for part in old.parts}
        return [
            f"a{number} has a part on {part.node} that went back"
            for part in new.parts
            if part.node in before and part.seq < before[part.node].seq
        ]

    def _operators(self, envelope: cmd.Envelope) -> list[str]:
        """What an operator set is undone by an operator alone."""
        if isinstance(envelope.command, cmd.UndrainNode | cmd.EnableNode | cmd.DisableNode):
            return []
        findings = []
        for name, old in self.nodes.items():
            new = self.state.nodes[name]
            is_approved = isinstance(envelope.command, cmd.ApproveNode) and old.reason_by == ACTOR
            if old.drain_wanted and not new.drain_wanted and not is_approved:
                findings.append(f"the drain of {name} was undone by {type(envelope.command).__name__}")
            is_admitted = isinstance(envelope.command, cmd.AdmitNode) and old.reason.startswith("credentials revoked")
            if old.down_cause is DownCause.OPERATOR and not is_admitted and new.state is not NodeState.DOWN:
                findings.append(f"the disabling of {name} was undone by {type(envelope.command).__name__}")
        return findings

    def _wipes(self, envelope: cmd.Envelope) -> list[str]:
        """A node that sensitive work has left is nobody's before it was wiped."""
        findings = []
        for name, old in self.nodes.items():
            new = self.state.nodes[name]
            was_secret = (
                old.vcluster in self.state.vclusters and self.state.vclusters[old.vcluster].scheduler == SENSITIVE
            )
            if was_secret and new.is_free and new.wipe is None:
                findings.append(f"sensitive work left {name}, and nobody wipes it")
            if old.wipe is not None and new.wipe is None and not isinstance(envelope.command, cmd.FinishWipe):
                findings.append(f"the wipe of {name} was forgotten by {type(envelope.command).__name__}")
            if new.wipe is not None and new.vcluster != old.vcluster and new.vcluster:
                findings.append(f"{name} was given away before it was wiped")
        return findings

    def _drifts(self, envelope: cmd.Envelope) -> list[str]:
        """A node that only an operator brings back is not back before it is right, and its work is never taken away by drift.

        What an operator approves is right from then on.
        """
        findings = []
        for name, drift in self.drifts.items():
            old, new = self.nodes[name], self.state.nodes[name]
            if drift.verified_at or not (drift.is_sensitive or drift.escalated_at):
                continue
            accepted = self.state.drift.accepted.get(name)
            is_approved = isinstance(envelope.command, cmd.ApproveNode) and envelope.command.node == name
            if is_approved and accepted is not None and accepted.by and accepted.fingerprint == drift.actual:
                continue
            if name not in self.state.drift.drifts:
                findings.append(f"the drift of {name} was forgotten before it was right")
            if old.drain_wanted and not new.drain_wanted:
                findings.append(f"the drain of {name} was undone before it was right")
        for name, new in self.state.nodes.items():
            old_node = self.nodes.get(name, new)
            fell = new.down_cause is DownCause.DRIFT and old_node.down_cause is not DownCause.DRIFT
            if fell and name in self.state.drift.drifts and old_node.holders():
                findings.append(f"work on {name} was lost to drift")
        return findings

    def _quotas(self) -> list[str]:
        """Above its quota a tenant may be (the quota shrank), go there it may not."""
        findings = []
        for name, use in self.state.uses.items():
            tenant = self.state.tenants[name]
            nodes, allocations = self.usage.get(name, (0, 0))
            if tenant.max_nodes is not None and use.nodes > max(tenant.max_nodes, nodes):
                findings.append(f"tenant {name} went to {use.nodes} nodes, {tenant.max_nodes} allowed")
            limit = tenant.max_concurrent_allocations
            if limit is not None and use.allocations > max(limit, allocations):
                findings.append(f"tenant {name} went to {use.allocations} allocations, {limit} allowed")
        return findings
