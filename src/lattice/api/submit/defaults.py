"""What the site adds to a submission before it becomes a command: a vCluster where none is named, and what is said of notifications.

Whatever a submission asks for and will not get is a warning in its answer; nothing is dropped in silence.
"""

from dataclasses import dataclass, field

from msgspec.structs import replace

from lattice.api.context import Context
from lattice.api.errors import ApiError, unknown
from lattice.api.find.visibility import may_see_vcluster, visible_vclusters
from lattice.api.notifications import ALL_OFF
from lattice.core.machine.commands import SubmitAllocation
from lattice.core.model.work.allocations import Lifecycle, Restart
from lattice.core.model.work.intent import Intent, choose_rule
from lattice.core.model.work.notifications import Notify
from lattice.wire.admin.admin import DEFAULT_WALLTIME_S

RESTART_LEVEL = 2  # servers of the release before know no restarts


@dataclass(slots=True)
class PreparedSubmission:
    """The command as it will be proposed. `chosen_by` names the rule that chose its vCluster, if one did."""

    command: SubmitAllocation
    warnings: list[str] = field(default_factory=list)
    chosen_by: str = ""
    names_vcluster: bool = False


def apply_defaults(context: Context, command: SubmitAllocation, *, names_vcluster: bool) -> PreparedSubmission:
    """Fills in what the submission leaves to the site."""
    if (
        command.lifecycle is not Lifecycle.BOUNDED
        and command.restart is Restart.NONE
        and context.state.level >= RESTART_LEVEL
    ):
        command = replace(command, restart=Restart.ALWAYS)
    prepared = PreparedSubmission(command, names_vcluster=names_vcluster)
    if not names_vcluster:
        _choose_vcluster(context, prepared)
    if command.notify is not None and command.notify.on:
        _settle_notifications(context, prepared, command.notify)
    return prepared


def check_vcluster(context: Context, prepared: PreparedSubmission) -> None:
    """Raises ApiError for a vCluster that the tenant may not use, without a word of those that are none of its business."""
    command = prepared.command
    found = context.state.vclusters.get(command.vcluster)
    if found is not None and may_see_vcluster(context, found):
        return  # the core says the rest
    visible = visible_vclusters(context)
    if prepared.names_vcluster or found is None:
        raise unknown("vCluster", command.vcluster, visible)
    raise ApiError(
        "forbidden",
        f'no default vCluster is open to tenant "{command.tenant}"',
        hint=f"name one of: {', '.join(sorted(visible)) or 'none'}",
    )


def settle(context: Context, prepared: PreparedSubmission) -> None:
    """Gives work of a vCluster that has neither default nor maximum an end, and refuses what no project limit ever lets start.

    What a Slurm command asks for waits instead, as it would in Slurm. Raises ApiError.
    """
    command = prepared.command
    vcluster = context.state.vclusters.get(command.vcluster)
    is_bounded = command.lifecycle is Lifecycle.BOUNDED and not command.walltime_s
    if is_bounded and vcluster is not None and not (vcluster.default_walltime_s or vcluster.max_walltime_s):
        prepared.command = replace(command, walltime_s=DEFAULT_WALLTIME_S)
    project = context.state.projects.get((command.tenant, command.project))
    limit = None if project is None else project.max_nodes
    if limit is not None and command.asked is None and command.request.nodes > limit:
        raise ApiError(
            "quota",
            f'the allocation can never start: project "{command.project}" has a limit of nodes',
            requested=f"{command.request.nodes} nodes",
            limit=f"{limit} nodes",
            hint="ask for fewer nodes, or your tenant admin for a larger limit",
        )


def _choose_vcluster(context: Context, prepared: PreparedSubmission) -> None:
    if not context.services.rules:
        return
    command = prepared.command
    intent = Intent(
        tenant=command.tenant,
        user=command.user,
        project=command.project,
        tags=command.tags,
        lifecycle=command.lifecycle,
        nodes=command.request.nodes,
        gpus=command.request.gpus,
        walltime_s=command.walltime_s,
    )
    rule = choose_rule(context.services.rules, intent, context.state.vclusters)
    if rule is not None:
        prepared.command = replace(command, vcluster=rule.vcluster)
        prepared.chosen_by = rule.name


def _settle_notifications(context: Context, prepared: PreparedSubmission, asked: Notify) -> None:
    """Keeps the destinations that can be reached, and warns of the others."""
    policy = context.services.notifications
    if not policy.channels:
        prepared.warnings.append(ALL_OFF)
        prepared.command = replace(prepared.command, notify=Notify())
        return
    default = context.state.notifications.defaults.get(prepared.command.user)
    wanted = asked.to or (default.notify.to if default is not None else ())
    own = policy.own_address(prepared.command.user)
    if not wanted and own:
        wanted = (own,)
    if not wanted:
        return  # refused by the core, in its words
    problems = {place: policy.problem_with(place) for place in wanted}
    prepared.warnings += list(dict.fromkeys(why for why in problems.values() if why))
    reachable = tuple(place for place, why in problems.items() if not why)
    notify = replace(asked, to=reachable) if reachable else Notify()
    prepared.command = replace(prepared.command, notify=notify)
