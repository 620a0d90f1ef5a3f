"""The cluster itself: its scheduler, its servers, and who is asking."""

from lattice_sdk.models.records import (
    Page,
    QuorumInvitation,
    QuorumServer,
    QuorumStatus,
    SchedulerStatus,
    Whoami,
)
from lattice_sdk.models.upgrades import RenewedCertificate, UpgradePlan, UpgradeStatus
from lattice_sdk.models.web.page import Alert
from lattice_sdk.operation import Steps, at, decoded, everything, items_of, operation, operation_named, read, write
from lattice_sdk.session import Request


class ClusterCalls:
    @operation
    def scheduler_status(self) -> Steps[SchedulerStatus]:
        """What the scheduler did last, and what it has before it."""
        return read("/scheduler", SchedulerStatus)

    @operation
    def list_alerts(self) -> Steps[list[Alert]]:
        """What needs attention now, the critical ones first."""
        return everything("/alerts", Page[Alert])

    @operation_named("raft_status")
    def quorum_status(self) -> Steps[QuorumStatus]:
        """The servers: who leads, how far each has come, and whether their states agree."""
        return read("/raft/status", QuorumStatus)

    @operation
    def transfer_leader(self, to: str = "", *, request_id: str = "") -> Steps[QuorumStatus]:
        """Hands leadership to another server; the status once that leads."""
        return write("POST", "/raft/transfer-leader", QuorumStatus, {"to": to}, request_id)

    @operation
    def upgrade_status(self) -> Steps[UpgradeStatus]:
        """The level that the cluster writes, what each server supports, and what agents speak."""
        return read("/admin/upgrade", UpgradeStatus)

    @operation
    def plan_upgrade(
        self,
        to: str,
        *,
        canary: int | None = None,
        batch: str = "",
        observe_s: int = 900,
        within: str = "",
        urgent: bool = False,
        kind: str = "agents",
    ) -> Steps[UpgradePlan]:
        """What a rolling upgrade of the agents, or with `kind="servers"` of the servers, would do now; nothing is changed."""
        fields = _upgrade(to, canary, batch, observe_s, within, urgent=urgent, kind=kind)
        return write("POST", "/admin/upgrade/plan", UpgradePlan, fields, "")

    @operation
    def start_upgrade(
        self,
        to: str,
        *,
        canary: int | None = None,
        batch: str = "",
        observe_s: int = 900,
        within: str = "",
        urgent: bool = False,
        kind: str = "agents",
        request_id: str = "",
    ) -> Steps[UpgradeStatus]:
        """Starts a rolling upgrade: of agents, `canary` nodes first, then `batch` (a number, or a share such as `5%`) at a time; or of servers."""
        fields = _upgrade(to, canary, batch, observe_s, within, urgent=urgent, kind=kind)
        return write("POST", "/admin/upgrade/start", UpgradeStatus, fields, request_id)

    @operation
    def pause_upgrade(self, reason: str = "", *, request_id: str = "") -> Steps[UpgradeStatus]:
        """Starts no further node; nodes whose software was replaced return to service."""
        return write("POST", "/admin/upgrade/pause", UpgradeStatus, {"reason": reason}, request_id)

    @operation
    def resume_upgrade(self, reason: str = "", *, request_id: str = "") -> Steps[UpgradeStatus]:
        """Continues a paused upgrade; nodes that did not return are tried again."""
        return write("POST", "/admin/upgrade/resume", UpgradeStatus, {"reason": reason}, request_id)

    @operation
    def roll_back_upgrade(
        self, reason: str = "", *, to: str = "", kind: str = "", request_id: str = ""
    ) -> Steps[UpgradeStatus]:
        """Returns every node or server that was touched to its former release; refused if that is not `to`, or the upgrade not of `kind`."""
        fields = {"reason": reason, "to": to, "kind": kind}
        return write("POST", "/admin/upgrade/rollback", UpgradeStatus, fields, request_id)

    @operation
    def finalize_upgrade(self, *, request_id: str = "") -> Steps[UpgradeStatus]:
        """Raises the level by one; refused until every server supports the next. There is no way back."""
        return write("POST", "/admin/upgrade/finalize", UpgradeStatus, {}, request_id)

    @operation
    def list_servers(self) -> Steps[list[QuorumServer]]:
        """The servers as members, and those that are invited."""
        return everything("/raft/members", Page[QuorumServer])

    @operation
    def invite_server(self, name: str, *, valid_for_s: int = 3600, request_id: str = "") -> Steps[QuorumInvitation]:
        """A single-use token by which a new server of this name joins."""
        fields = {"name": name, "valid_for_s": valid_for_s}
        return write("POST", "/raft/members", QuorumInvitation, fields, request_id)

    @operation
    def remove_server(self, name: str, *, request_id: str = "") -> Steps[list[QuorumServer]]:
        """Takes a server out for good, or withdraws its invitation; the servers that are left."""
        return items_of(write("DELETE", at("raft", "members", name), Page[QuorumServer], None, request_id))

    @operation
    def promote_server(self, name: str, *, request_id: str = "") -> Steps[list[QuorumServer]]:
        """Gives a server that has caught up its vote; the servers then."""
        return items_of(write("POST", at("raft", "members", name, "promote"), Page[QuorumServer], {}, request_id))

    @operation_named("renew_certificates")
    def rotate_certificates(self, *, request_id: str = "") -> Steps[list[RenewedCertificate]]:
        """Renew the keys and certificates of every server without a restart."""
        return items_of(write("POST", "/raft/rotate-certificates", Page[RenewedCertificate], {}, request_id))

    @operation
    def whoami(self) -> Steps[Whoami]:
        """Who the server takes the token's owner for."""
        return read("/whoami", Whoami)

    @operation_named("healthz")
    def is_healthy(self) -> Steps[bool]:
        """True when a server answers and is ready; raises Unreachable or Unavailable otherwise."""
        answer = yield Request(method="GET", path="/healthz")
        return decoded(answer, dict[str, object]).get("status") == "ok"


def _upgrade(
    to: str, canary: int | None, batch: str, observe_s: int, within: str, *, urgent: bool, kind: str
) -> dict[str, object]:
    fields: dict[str, object] = {"to": to, "batch": batch, "observe_s": observe_s, "within": within, "urgent": urgent}
    fields["kind"] = kind
    return fields if canary is None else {**fields, "canary": canary}
