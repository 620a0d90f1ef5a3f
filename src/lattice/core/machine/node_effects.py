"""What each state of a node means, and what each move brings with it: timer, work, metric, alert.

Beside the table of transitions: that one decides, this one explains. docs/reference/states.md and alerts.md are made of both.
See docs/architecture/nodes.md.
"""

from msgspec import Struct

from lattice.core.machine.transitions import NodeTrigger as T
from lattice.core.model.nodes.nodes import NodeState as N


class StateMeaning(Struct, frozen=True, kw_only=True):
    means: str
    takes_work: bool = False
    keeps_work: bool = False


STATES: dict[N, StateMeaning] = {
    N.UNKNOWN: StateMeaning(means="specified by the site, never heard"),
    N.BOOTING: StateMeaning(means="its agent is expected, or is there and its checks have not passed"),
    N.READY: StateMeaning(means="heard and healthy", takes_work=True, keeps_work=True),
    N.DEGRADED: StateMeaning(means="silent for a while, or a check fails", keeps_work=True),
    N.DOWN: StateMeaning(means="given up; its cause says what brings it back"),
    N.DRAINING: StateMeaning(means="gets no new work; running work continues", keeps_work=True),
    N.DRAINED: StateMeaning(means="empty, for maintenance or to be wiped"),
    N.FAILED: StateMeaning(means="did not boot three times in a row"),
    N.QUARANTINE: StateMeaning(means="could not be wiped after sensitive work"),
}


class Effect(Struct, frozen=True, kw_only=True):
    """`work`: what becomes of allocations on the node. `alert` is sent to operators with `severity`; `{node}` and `{reason}` are filled in."""

    when: str
    timer: str = ""
    work: str = "untouched"
    metric: str = ""
    severity: str = ""
    alert: str = ""

    def told(self, node: str, reason: str) -> str:
        """The alert of one node; empty when there is none."""
        return self.alert.replace("{node}", node).replace("{reason}", reason or "no reason given")


LOST = "lost: queued again by its policy, sensitive work held for an operator"

EFFECTS: dict[T, Effect] = {
    T.REGISTERED: Effect(when="its agent registers", work="none there"),
    T.CONFIRMED: Effect(when="stale runs are dead and the checks pass", work="none there"),
    T.CONFIRMED_DRAINING: Effect(when="the same, and a drain or a wipe still stands"),
    T.BOOT_FAILED: Effect(
        when="not confirmed in time",
        timer="node.boot_timeout_s",
        work="none there",
        metric="lattice_node_boot_failures_total",
        severity="warning",
        alert="Node {node} did not boot: {reason}. It is retried when it registers, or with `lattice node reboot {node}`.",
    ),
    T.BOOTS_EXHAUSTED: Effect(
        when="not confirmed in time for the third time in a row",
        timer="node.boot_timeout_s",
        work="none there",
        metric="lattice_node_boot_failures_total",
        severity="critical",
        alert="Node {node} has failed: {reason}. Check its console, then run `lattice node reboot {node}` or `lattice node enable {node}`.",
    ),
    T.REBOOT: Effect(when="an operator orders it", work="none there"),
    T.SILENT: Effect(
        when="no heartbeat", timer="node.heartbeat_timeout_s, node.sensitive_heartbeat_timeout_s", work="continues"
    ),
    T.RESUMED: Effect(when="a heartbeat, inside the grace period", work="continues, unaffected"),
    T.CHECK_FAILED: Effect(
        when="a check with the consequence `degrade` fails",
        work="continues",
        metric="lattice_node_check_failures_total",
        severity="warning",
        alert="Node {node} takes no new work: {reason}.",
    ),
    T.CHECK_PASSED: Effect(when="the check passes again", work="continues"),
    T.GIVEN_UP: Effect(
        when="still no heartbeat at the end of the grace period",
        timer="node.grace_s, node.sensitive_grace_s, node.borrowed_grace_s",
        work=LOST,
        severity="critical",
        alert="Node {node} is down: {reason}. It returns by itself when its agent reconnects; check its power and network.",
    ),
    T.HARDWARE_FAILED: Effect(
        when="reported out of band, immediately",
        work=LOST,
        severity="critical",
        alert="Node {node} is down, its hardware failed: {reason}. After the repair, run `lattice node enable {node}`.",
    ),
    T.DRIFT_EXPIRED: Effect(
        when="drifted, not repaired in time, and empty",
        timer="conformance.drift_remediation_timeout_s, conformance.sensitive_remediation_timeout_s",
        work="none there: it is drained first",
        severity="critical",
        alert="Node {node} is down: {reason}. After the repair, run `lattice node undrain {node}`.",
    ),
    T.DRAIN: Effect(when="ordered by an operator, a check or drift", work="runs to its end"),
    T.DRAIN_URGENT: Effect(when="an operator orders it urgently", work="ended after its grace, and queued again"),
    T.EMPTIED: Effect(when="the last work has left", work="none there"),
    T.UNDRAIN: Effect(when="an operator orders it", work="none there"),
    T.UNDRAIN_UNHEARD: Effect(when="the same, while its agent is silent", work="none there"),
    T.DISABLE: Effect(when="an operator orders it", work=LOST),
    T.ENABLE: Effect(when="an operator orders it", work="none there"),
    T.WIPE: Effect(when="sensitive work has left it, or an operator orders it", work="runs to its end"),
    T.WIPED: Effect(when="the wiper says that it is clean", timer="", work="none there"),
    T.WIPE_FAILED: Effect(
        when="the wiper fails, takes too long, or there is none",
        timer="sensitive.wipe_timeout_s",
        work="none there",
        metric="lattice_sensitive_wipe_failure_total",
        severity="critical",
        alert="Node {node} is in quarantine: {reason}. Retry with `lattice admin node wipe {node} --force`, or disable it.",
    ),
    T.WAIT: Effect(when="an unknown node registers (`node.admission: approve`)", work="none there"),
    T.ADMIT: Effect(when="an operator lets it in", work="none there"),
}
