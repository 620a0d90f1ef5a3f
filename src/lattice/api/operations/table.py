"""Every operation of the API: its name, what it needs, and how it is reached over REST. The only list there is."""

from lattice.api.auth.rbac import Permission
from lattice.api.context import NoParameters
from lattice.api.operations.admin import (
    audit,
    backups,
    cluster,
    deletion,
    membership,
    quorum,
    reports,
    reservations,
    rollouts,
    tenants,
    upgrades,
    usage,
    vclusters,
)
from lattice.api.operations.admin import notify as notifying
from lattice.api.operations.checkpoints import checkpoints
from lattice.api.operations.data import copies as data_copies
from lattice.api.operations.data import moving as data_moving
from lattice.api.operations.data import retention as data_retention
from lattice.api.operations.nodes import admission, conformance, inventory, nodes
from lattice.api.operations.nodes import cache as caching
from lattice.api.operations.nodes import checks as node_checks
from lattice.api.operations.nodes import events as node_events
from lattice.api.operations.nodes import imports as node_import
from lattice.api.operations.nodes import query as node_query
from lattice.api.operations.nodes import sets as node_sets
from lattice.api.operations.nodes import usage as node_use
from lattice.api.operations.observe import alerts, diagnostics, figures, targets
from lattice.api.operations.operation import Operation
from lattice.api.operations.operation import row as _row
from lattice.api.operations.services import revisions
from lattice.api.operations.telemetry import closer, comparing, diagnosing
from lattice.api.operations.telemetry import metrics as telemetry
from lattice.api.operations.web import links as web_links
from lattice.api.operations.web import timeline as timelines
from lattice.api.operations.work import allocations, dags, listing, logs, ports, sessions, slurm, steps, terminals
from lattice.api.operations.work import batches as batching
from lattice.api.operations.work import explain as explaining
from lattice.api.operations.work import images as imaging
from lattice.api.operations.work import services as registry
from lattice.api.operations.work import signals as signalling
from lattice.api.operations.work import submit as submitting
from lattice.api.operations.work import suspend as pausing
from lattice.api.operations.work import usage as measuring
from lattice.api.operations.work import watch as watching
from lattice.api.running.pages import OpenPort
from lattice.api.running.ports import PortQuery, PortsQuery
from lattice.api.running.terminal_launch import TerminalFields
from lattice.wire.admin.admin import ProjectFields, TenantFields, VclusterFields
from lattice.wire.admin.reservations import ReservationFields
from lattice.wire.data.moving import MoverAsk, MoverReports
from lattice.wire.nodes.imports import NodeImport
from lattice.wire.slurm.commands import SlurmCommand
from lattice.wire.work.dags import DagSubmission
from lattice.wire.work.rollouts import ServiceRollback, ServiceUpdate
from lattice.wire.work.steps import StepSubmission
from lattice.wire.work.submissions import Submission

_P = Permission

# The most frequent ones come first: routes are tried in this order.
OPERATIONS: tuple[Operation, ...] = (
    _row("POST", "/allocations", submitting.submit, Submission, _P.SUBMIT, 201, frozenset({"dry_run"})),
    _row("POST", "/allocations/batch", batching.submit_batch, batching.SubmissionBatch, _P.SUBMIT),
    *listing.LISTS,
    _row("POST", "/allocations/cancel", allocations.cancel_many, allocations.CancelMany, _P.CHANGE),
    _row("GET", "/allocations/metrics", telemetry.running_metrics, telemetry.RunningMetricsQuery, _P.READ_OUTPUT),
    _row("GET", "/allocations/{id}", allocations.get_allocation, allocations.GetAllocation, _P.READ),
    _row("GET", "/allocations/{id}/explanation", explaining.explanation, explaining.ExplainAllocation, _P.READ),
    _row("GET", "/allocations/{id}/wait", allocations.wait, allocations.WaitForAllocation, _P.READ),
    _row("GET", "/allocations/{id}/logs", logs.logs, logs.LogQuery, _P.READ_OUTPUT),
    _row("DELETE", "/allocations/{id}/logs", logs.delete_logs, logs.DeleteLogsRequest, _P.CHANGE),
    _row("GET", "/allocations/{id}/logs/stream", logs.stream_logs, logs.LogStreamQuery, _P.READ_OUTPUT),
    _row("POST", "/allocations/{id}/attach", terminals.attach, TerminalFields, _P.ATTACH, 201),
    _row(
        "POST",
        "/allocations/{id}/steps/{step}/watchers",
        terminals.share_terminal,
        terminals.WatcherFields,
        _P.SHARE_TERMINAL,
        201,
    ),
    _row(
        "DELETE",
        "/allocations/{id}/steps/{step}/watchers/{user}",
        terminals.unshare_terminal,
        terminals.WatcherFields,
        _P.SHARE_TERMINAL,
    ),
    _row("GET", "/allocations/{id}/ports", ports.list_ports, PortsQuery, _P.FORWARD),
    _row("GET", "/allocations/{id}/ports/{port}/connect", ports.connect_port, PortQuery, _P.FORWARD),
    _row("POST", "/allocations/{id}/open", ports.open_port, OpenPort, _P.FORWARD, 201),
    _row("POST", "/allocations/{id}/steps", steps.launch_step, StepSubmission, _P.LAUNCH, 201),
    _row("GET", "/allocations/{id}/steps", steps.list_steps, steps.StepsQuery, _P.READ),
    _row("GET", "/allocations/{id}/steps/{step}", steps.get_step, steps.GetStep, _P.READ),
    _row("GET", "/allocations/{id}/steps/{step}/stream", steps.follow_step, steps.StepFollowQuery, _P.READ_OUTPUT),
    _row("POST", "/allocations/{id}/steps/{step}/input", steps.feed_step, steps.StepInputPiece, _P.STEER),
    _row("POST", "/allocations/{id}/steps/{step}/signal", steps.signal_step, steps.StepSignal, _P.STEER),
    _row("POST", "/allocations/{id}/steps/{step}/window", steps.resize_step, steps.StepWindow, _P.STEER),
    _row("DELETE", "/allocations/{id}/steps/{step}", steps.end_step, steps.EndStepRequest, _P.STEER, 202),
    _row("GET", "/allocations/{id}/usage", measuring.live_usage, measuring.LiveUsageQuery, _P.READ),
    _row("GET", "/allocations/{id}/metrics", telemetry.query_metrics, telemetry.MetricsQuery, _P.READ_OUTPUT),
    _row(
        "GET",
        "/allocations/{id}/metrics/stream",
        telemetry.stream_metrics,
        telemetry.MetricsStreamQuery,
        _P.READ_OUTPUT,
    ),
    *(
        _row(
            "GET",
            f"/allocations/{{id}}/diagnostics{path}",
            operation,
            diagnosing.AllocationDiagnosticsQuery,
            _P.READ_OUTPUT,
        )
        for path, operation in (
            ("", diagnosing.diagnostics),
            ("/network", diagnosing.network_diagnostics),
            ("/storage", diagnosing.storage_diagnostics),
        )
    ),
    _row("GET", "/compare", comparing.compare, comparing.CompareQuery, _P.READ_OUTPUT),
    _row("GET", "/allocations/{id}/images", imaging.run_images, imaging.RunImagesQuery, _P.READ_DETAILS),
    _row("DELETE", "/allocations/{id}", allocations.cancel, allocations.ChangeAllocation, _P.CHANGE, 202),
    _row("POST", "/allocations/{id}/signal", signalling.signal_allocation, signalling.SignalRequest, _P.CHANGE),
    _row("POST", "/allocations/{id}/hold", allocations.hold, allocations.ChangeAllocation, _P.CHANGE),
    _row("POST", "/allocations/{id}/release", allocations.release, allocations.ChangeAllocation, _P.CHANGE),
    _row("POST", "/allocations/{id}/suspend", pausing.suspend, allocations.ChangeAllocation, _P.CHANGE),
    _row("POST", "/allocations/{id}/resume", pausing.resume, allocations.ChangeAllocation, _P.CHANGE),
    _row("POST", "/allocations/{id}/requeue", allocations.requeue, allocations.RequeueRequest, _P.CHANGE),
    _row(
        "POST",
        "/allocations/{id}/checkpoint",
        checkpoints.request_checkpoint,
        checkpoints.CheckpointOrder,
        _P.CHANGE,
        202,
    ),
    _row("GET", "/allocations/{id}/checkpoints", checkpoints.list_checkpoints, checkpoints.CheckpointsQuery, _P.READ),
    _row("GET", "/allocations/{id}/checkpoints/{n}", checkpoints.get_checkpoint, checkpoints.CheckpointQuery, _P.READ),
    _row("POST", "/allocations/{id}/revisions", revisions.update_service, ServiceUpdate, _P.LAUNCH, 202),
    _row("GET", "/allocations/{id}/revisions", revisions.list_revisions, revisions.RevisionsQuery, _P.READ),
    _row("POST", "/allocations/{id}/rollback", revisions.roll_back_service, ServiceRollback, _P.CHANGE, 202),
    _row("PATCH", "/allocations/{id}", allocations.update, allocations.UpdateRequest, _P.CHANGE),
    _row("POST", "/sessions", sessions.create_session, Submission, _P.SUBMIT, 201),
    _row("GET", "/sessions", sessions.list_sessions, sessions.SessionQuery, _P.READ),
    _row("GET", "/sessions/{id}", sessions.get_session, sessions.GetSession, _P.READ),
    _row("DELETE", "/sessions/{id}", sessions.end_session, sessions.EndSession, _P.CHANGE, 202),
    _row(
        "POST",
        "/sessions/{id}/terminal",
        sessions.open_session_terminal,
        sessions.SessionTerminalFields,
        _P.ATTACH,
        201,
    ),
    _row("GET", "/services", registry.list_services, registry.ServiceQuery, _P.READ_SERVICES),
    _row("GET", "/services/{name}", registry.lookup_service, registry.LookupQuery, _P.READ_SERVICES),
    _row("POST", "/services/{name}/open", registry.open_service, registry.OpenService, _P.FORWARD, 201),
    _row("POST", "/dags", dags.submit_dag, DagSubmission, _P.SUBMIT, 201),
    _row("GET", "/dags", dags.list_dags, dags.DagQuery, _P.READ),
    _row("GET", "/dags/{id}", dags.get_dag, dags.GetDag, _P.READ),
    _row("GET", "/dags/{id}/graph", dags.get_dag_graph, dags.GraphQuery, _P.READ),
    _row("DELETE", "/dags/{id}", dags.cancel_dag, dags.CancelDagRequest, _P.CHANGE, 202),
    _row("POST", "/slurm/commands", slurm.slurm_command, SlurmCommand, _P.READ),
    _row("GET", "/events", watching.watch, watching.WatchQuery, _P.READ),
    _row("GET", "/node-status", node_query.node_status, node_query.StatusQuery, _P.READ_NODES),
    _row("GET", "/node-summary", node_query.node_summary, node_query.SummaryQuery, _P.READ_NODES),
    _row("POST", "/nodes/import", node_import.import_nodes, NodeImport, _P.CONTROL_NODES),
    _row("GET", "/nodes", nodes.list_nodes, nodes.NodeQuery, _P.READ_NODES),
    _row("GET", "/nodes/{id}", nodes.get_node, nodes.GetNode, _P.READ_NODES),
    _row("DELETE", "/nodes/{id}", deletion.delete_node, deletion.DropNode, _P.CONTROL_NODES),
    _row("GET", "/nodes/{id}/usage", node_use.node_usage, nodes.GetNode, _P.READ_NODES),
    _row("GET", "/nodes/{id}/metrics", telemetry.node_metrics, telemetry.NodeMetricsQuery, _P.READ_NODES),
    _row("GET", "/nodes/{id}/inventory", inventory.get_node_inventory, nodes.GetNode, _P.READ_NODES),
    _row("GET", "/nodes/{id}/events", node_events.node_events, node_events.NodeEventQuery, _P.READ_NODES),
    _row("PUT", "/nodes/{id}/telemetry", closer.set_node_telemetry, closer.NodeTelemetryRequest, _P.CONTROL_NODES),
    _row("POST", "/nodes/{id}/drain", nodes.drain_node, nodes.DrainRequest, _P.CONTROL_NODES),
    _row("POST", "/nodes/{id}/undrain", nodes.undrain_node, nodes.ControlNode, _P.CONTROL_NODES),
    _row("POST", "/nodes/{id}/disable", nodes.disable_node, nodes.ControlNode, _P.CONTROL_NODES),
    _row("POST", "/nodes/{id}/enable", nodes.enable_node, nodes.ControlNode, _P.CONTROL_NODES),
    _row("POST", "/nodes/{id}/reboot", nodes.reboot_node, nodes.ControlNode, _P.CONTROL_NODES),
    _row("POST", "/nodes/{id}/fault", nodes.fault_node, nodes.ControlNode, _P.CONTROL_NODES),
    _row("POST", "/nodes/{id}/wipe", nodes.wipe_node, nodes.WipeRequest, _P.CONTROL_NODES),
    _row("POST", "/nodes/drain", node_sets.drain_node_set, node_sets.DrainNodeSet, _P.CONTROL_NODES),
    _row("POST", "/nodes/undrain", node_sets.undrain_node_set, node_sets.OrderNodeSet, _P.CONTROL_NODES),
    _row("POST", "/nodes/disable", node_sets.disable_node_set, node_sets.OrderNodeSet, _P.CONTROL_NODES),
    _row("POST", "/nodes/enable", node_sets.enable_node_set, node_sets.OrderNodeSet, _P.CONTROL_NODES),
    _row("POST", "/nodes/reboot", node_sets.reboot_node_set, node_sets.OrderNodeSet, _P.CONTROL_NODES),
    _row("POST", "/nodes/fault", node_sets.fault_node_set, node_sets.OrderNodeSet, _P.CONTROL_NODES),
    _row("POST", "/nodes/wipe", node_sets.wipe_node_set, node_sets.WipeNodeSet, _P.CONTROL_NODES),
    _row("POST", "/nodes/{id}/check", node_checks.check_node, node_checks.CheckNode, _P.CONTROL_NODES),
    _row("GET", "/nodes/{id}/diff/{other}", conformance.diff_nodes, conformance.DiffQuery, _P.READ_NODES),
    _row("POST", "/nodes/{id}/approve", conformance.approve_node, conformance.ApproveRequest, _P.CONTROL_NODES),
    _row("POST", "/nodes/{id}/admit", admission.admit_node, admission.JudgeNode, _P.CONTROL_NODES),
    _row("POST", "/nodes/{id}/revoke", admission.revoke_node, admission.JudgeNode, _P.CONTROL_NODES),
    _row("GET", "/conformance", conformance.conformance_status, NoParameters, _P.READ_NODES),
    _row("POST", "/conformance/refresh", conformance.refresh_conformance, conformance.RefreshRequest, _P.CONTROL_NODES),
    _row(
        "GET", "/conformance/baselines/{vcluster}", conformance.get_baseline, conformance.BaselineQuery, _P.READ_NODES
    ),
    _row(
        "PUT",
        "/conformance/baselines/{vcluster}",
        conformance.set_baseline,
        conformance.BaselineFields,
        _P.CONTROL_NODES,
    ),
    _row(
        "DELETE",
        "/conformance/baselines/{vcluster}",
        conformance.unset_baseline,
        conformance.DropBaseline,
        _P.CONTROL_NODES,
    ),
    _row("GET", "/images", imaging.list_images, imaging.ImagesQuery, _P.READ_NODES),
    _row("GET", "/images/one", imaging.get_image, imaging.ImageQuery, _P.READ_NODES),
    _row("GET", "/data", data_copies.list_data, data_copies.DataQuery, _P.READ_DATA),
    _row("GET", "/data/tier", data_copies.data_tier, data_copies.DataQuery, _P.READ_DATA),
    _row("POST", "/data/stage", data_copies.stage_data, data_copies.StageRequest, _P.STAGE_DATA),
    _row("POST", "/data/evict", data_copies.evict_data, data_copies.EvictRequest, _P.EVICT_DATA),
    _row("POST", "/data/work", data_moving.ask_for_data_work, MoverAsk, _P.MOVE_DATA),
    _row("POST", "/data/reports", data_moving.report_data_work, MoverReports, _P.MOVE_DATA),
    _row("GET", "/retention", data_retention.list_retention, data_retention.RetentionQuery, _P.READ),
    _row("POST", "/retention/keep", data_retention.keep_retained, data_retention.KeepRequest, _P.CHANGE),
    _row("GET", "/cache", caching.cache_status, caching.CacheQuery, _P.READ_NODES),
    _row("POST", "/cache/warm", caching.warm_cache, caching.WarmCache, _P.CONTROL_NODES),
    _row("POST", "/cache/evict", caching.evict_image, caching.CacheEviction, _P.CONTROL_NODES),
    _row("POST", "/cache/pin", caching.pin_image, caching.CacheChange, _P.CONTROL_NODES),
    _row("POST", "/cache/unpin", caching.unpin_image, caching.CacheChange, _P.CONTROL_NODES),
    _row("GET", "/tenants", tenants.list_tenants, NoParameters, _P.READ_TENANTS),
    _row("POST", "/tenants", tenants.create_tenant, TenantFields, _P.CREATE_TENANTS, 201),
    _row("GET", "/tenants/{name}", tenants.get_tenant, tenants.GetTenant, _P.READ_TENANTS),
    _row("PUT", "/tenants/{name}", tenants.update_tenant, TenantFields, _P.WRITE_TENANTS),
    _row("DELETE", "/tenants/{name}", deletion.delete_tenant, deletion.DropRecord, _P.CREATE_TENANTS),
    _row("GET", "/tenants/{name}/usage", usage.tenant_usage, usage.TenantUsageQuery, _P.READ_USAGE),
    _row("GET", "/usage", usage.user_usage, usage.UserUsageQuery, _P.READ_USAGE),
    _row("GET", "/reports/usage", reports.usage_report, reports.ReportQuery, _P.READ_USAGE),
    _row("GET", "/vclusters", vclusters.list_vclusters, NoParameters, _P.READ_VCLUSTERS),
    _row("POST", "/vclusters", vclusters.create_vcluster, VclusterFields, _P.CREATE_VCLUSTERS, 201),
    _row("GET", "/vclusters/{name}", vclusters.get_vcluster, vclusters.GetVcluster, _P.READ_VCLUSTERS),
    _row("PUT", "/vclusters/{name}", vclusters.update_vcluster, VclusterFields, _P.WRITE_VCLUSTERS),
    _row("DELETE", "/vclusters/{name}", deletion.delete_vcluster, deletion.DropRecord, _P.CREATE_VCLUSTERS),
    _row("GET", "/vclusters/{name}/weights", vclusters.vcluster_weights, vclusters.GetVcluster, _P.READ_VCLUSTERS),
    _row("GET", "/vclusters/{name}/queue", listing.vcluster_queue, listing.QueueQuery, _P.READ),
    _row("GET", "/projects", tenants.list_projects, tenants.ProjectQuery, _P.READ_PROJECTS),
    _row("POST", "/projects", tenants.create_project, ProjectFields, _P.WRITE_PROJECTS, 201),
    _row("PUT", "/projects/{tenant}/{name}", tenants.update_project, ProjectFields, _P.WRITE_PROJECTS),
    _row("DELETE", "/projects/{tenant}/{name}", deletion.delete_project, deletion.DropProject, _P.WRITE_PROJECTS),
    _row("GET", "/reservations", reservations.list_reservations, NoParameters, _P.READ_RESERVATIONS),
    _row("POST", "/reservations", reservations.create_reservation, ReservationFields, _P.WRITE_RESERVATIONS, 201),
    _row(
        "GET", "/reservations/{name}", reservations.get_reservation, reservations.GetReservation, _P.READ_RESERVATIONS
    ),
    _row(
        "DELETE",
        "/reservations/{name}",
        reservations.delete_reservation,
        reservations.DropReservation,
        _P.WRITE_RESERVATIONS,
    ),
    _row("GET", "/settings", cluster.list_settings, NoParameters, _P.READ_SETTINGS),
    _row("GET", "/settings/{key}", cluster.get_setting, cluster.GetSetting, _P.READ_SETTINGS),
    _row("PUT", "/settings/{key}", cluster.set_setting, cluster.SetSettingRequest, _P.WRITE_SETTINGS),
    _row("GET", "/scheduler", cluster.scheduler_status, NoParameters, _P.READ_SCHEDULER),
    _row("GET", "/alerts", alerts.list_alerts, NoParameters, _P.READ_SCHEDULER),
    _row("GET", "/metrics/history", figures.figure_history, figures.FigureQuery, _P.READ_FIGURES),
    _row(
        "GET",
        "/admin/diagnostics",
        diagnostics.server_diagnostics,
        diagnostics.DiagnosticsQuery,
        _P.MANAGE_SERVERS,
    ),
    _row("GET", "/nodes/{id}/log", diagnostics.node_log, diagnostics.NodeLogQuery, _P.MANAGE_SERVERS),
    _row("GET", "/metrics/targets", targets.metric_targets, NoParameters, _P.READ_FIGURES),
    _row("GET", "/raft/status", quorum.raft_status, NoParameters, _P.READ_SCHEDULER),
    _row("POST", "/raft/transfer-leader", quorum.transfer_leader, quorum.TransferRequest, _P.WRITE_SETTINGS),
    _row("GET", "/raft/members", membership.list_servers, NoParameters, _P.READ_SCHEDULER),
    _row("POST", "/raft/members", membership.invite_server, membership.InviteServer, _P.MANAGE_SERVERS, 201),
    _row("DELETE", "/raft/members/{name}", membership.remove_server, membership.NamedServer, _P.MANAGE_SERVERS),
    _row("POST", "/raft/members/{name}/promote", membership.promote_server, membership.NamedServer, _P.MANAGE_SERVERS),
    _row(
        "POST",
        "/raft/rotate-certificates",
        membership.renew_certificates,
        membership.RenewCertificates,
        _P.MANAGE_SERVERS,
    ),
    _row("GET", "/admin/upgrade", upgrades.upgrade_status, NoParameters, _P.READ_SCHEDULER),
    _row("POST", "/admin/upgrade/plan", rollouts.plan_upgrade, rollouts.UpgradeRequest, _P.MANAGE_SERVERS),
    _row("POST", "/admin/upgrade/start", rollouts.start_upgrade, rollouts.UpgradeRequest, _P.MANAGE_SERVERS),
    _row("POST", "/admin/upgrade/pause", rollouts.pause_upgrade, rollouts.TurnRequest, _P.MANAGE_SERVERS),
    _row("POST", "/admin/upgrade/resume", rollouts.resume_upgrade, rollouts.TurnRequest, _P.MANAGE_SERVERS),
    _row("POST", "/admin/upgrade/rollback", rollouts.roll_back_upgrade, rollouts.TurnRequest, _P.MANAGE_SERVERS),
    _row("POST", "/admin/upgrade/finalize", upgrades.finalize_upgrade, upgrades.FinalizeUpgrade, _P.MANAGE_SERVERS),
    _row("POST", "/admin/backup", backups.create_backup, backups.CreateBackup, _P.MANAGE_BACKUPS, 201),
    _row("GET", "/admin/backup", backups.list_backups, NoParameters, _P.MANAGE_BACKUPS),
    _row("GET", "/admin/backup/verify", backups.verify_backup, backups.VerifyBackup, _P.MANAGE_BACKUPS),
    _row("POST", "/admin/backup/fetch", backups.fetch_backup, backups.FetchBackup, _P.MANAGE_BACKUPS),
    _row("POST", "/admin/restore", backups.restore_backup, backups.RestoreBackup, _P.MANAGE_BACKUPS, 202),
    _row("GET", "/audit", audit.query_audit, audit.AuditQuery, _P.READ_AUDIT),
    _row("GET", "/audit/export", audit.export_audit, audit.AuditExportQuery, _P.READ_AUDIT),
    _row("GET", "/audit/keys", audit.list_audit_keys, NoParameters, _P.READ_AUDIT),
    _row("POST", "/audit/keys", audit.rotate_audit_key, audit.RotateAuditKey, _P.MANAGE_SERVERS, 201),
    _row("GET", "/accounting", listing.history, listing.AllocationQuery, _P.READ),
    _row("GET", "/notifications", notifying.notify_settings, NoParameters, _P.OWN_NOTIFICATIONS),
    _row("PUT", "/notifications", notifying.set_notify_default, notifying.NotifyDefaultRequest, _P.OWN_NOTIFICATIONS),
    _row(
        "DELETE", "/notifications", notifying.clear_notify_default, notifying.ClearNotifyDefault, _P.OWN_NOTIFICATIONS
    ),
    _row("GET", "/notifications/key", notifying.webhook_key, NoParameters, _P.OWN_NOTIFICATIONS),
    _row("GET", "/whoami", cluster.whoami, NoParameters, _P.READ_SELF),
    _row("GET", "/timeline", timelines.timeline, timelines.TimelineQuery, _P.READ),
    _row("POST", "/web/links", web_links.make_web_link, web_links.MakeWebLink, _P.READ_SELF, 201),
    _row("DELETE", "/web/links/{code}", web_links.use_web_link, web_links.UseWebLink, _P.READ_SELF),
)
