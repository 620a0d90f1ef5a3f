"""Whether a submission may have the data that it names: known tiers, those of its tenant, and what its user may read."""

from msgspec.structs import replace

from lattice.api.context import Context
from lattice.api.pacing import in_thread
from lattice.core.machine.commands import SubmitAllocation
from lattice.core.model.site.tenants import SENSITIVE
from lattice.core.model.work.allocations import Lifecycle
from lattice.ports.data.tiers import WarmTier
from lattice.ports.nodes.data import NODE, DataOrder
from lattice.wire.text.problems import BadField
from lattice.wire.work.data import NFS, read_output
from lattice.wire.work.payloads import Work, decode_work
from lattice.wire.work.submissions import Submission, Submitter


def with_output(context: Context, wanted: Submission, by: Submitter) -> Submission:
    """The submission with the site's place for output, unless it names another one, wants no defaults or has no results."""
    pattern, data = context.services.tiers.output, wanted.data
    if not pattern or data.output or not data.defaults or wanted.lifecycle.type is not Lifecycle.BOUNDED:
        return wanted
    if not any(_is_below(pattern, tier.url) for tier in _open_tiers(context, by.tenant)):
        return wanted
    if _is_sensitive(context, wanted.vcluster or by.vcluster):
        return wanted
    target = read_output(pattern, {"tenant": by.tenant, "project": wanted.project, "user": by.account})
    if wanted.per_node and NODE not in target:
        target = f"{target}/{NODE}"
    return replace(wanted, data=replace(data, output=target))


def check_settled(context: Context, command: SubmitAllocation, tenant: str) -> None:
    """Sensitive work writes to no tier that other tenants may use, which depends on the vCluster that was chosen. Raises BadField."""
    work, vcluster = decode_work(command.payload), command.vcluster
    if not _is_sensitive(context, vcluster):
        return
    written = {f"data.stage_out[{place}].target": each.target for place, each in enumerate(work.stage_out)}
    written |= {f"data.mounts[{place}].source": each.source for place, each in enumerate(work.data) if each.writable}
    for field, place in written.items():
        if not _owners(context, place, tenant):
            raise BadField(
                field,
                f'vCluster "{vcluster}" is for sensitive work, which writes to no shared tier',
                current=place,
                hint="a tier or export that is for named tenants alone, or `defaults: false` if you named none",
            )


def _owners(context: Context, place: str, tenant: str) -> tuple[str, ...]:
    """The tenants that a tier or export is for; empty = everybody."""
    tiers = context.services.tiers
    if place.startswith(NFS):
        return tuple(tiers.exports.get(place.removeprefix(NFS).partition("/")[0], ()))
    return next((tier.tenants for tier in _open_tiers(context, tenant) if _is_below(place, tier.url)), ())


def _is_sensitive(context: Context, vcluster: str) -> bool:
    found = context.state.vclusters.get(vcluster)
    return found is not None and found.scheduler == SENSITIVE


def _open_tiers(context: Context, tenant: str) -> list[WarmTier]:
    return [tier for tier in context.services.tiers.warm if not tier.tenants or tenant in tier.tenants]


def _is_below(path: str, url: str) -> bool:
    return path == url or path.startswith(url.rstrip("/") + "/")


async def check_data(context: Context, work: Work, tenant: str, account: str) -> None:
    """Raises BadField for the first mount that cannot be."""
    for place, mount in enumerate(work.data):
        await check_mount(context, mount, tenant, account, f"data.mounts[{place}]")
    for place, out in enumerate(work.stage_out):
        check_target(context, out.target, tenant, f"data.stage_out[{place}].target")


def check_target(context: Context, target: str, tenant: str, field: str) -> None:
    """Raises BadField where no results may go."""
    tier = _tier_of(context, target, tenant, field)
    if tier.is_cold:
        raise BadField(field, f"{tier.url} is an archive: results do not go there", hint="choose another tier")
    if not tier.is_writable:
        raise BadField(
            field,
            f"results may not go to {tier.url}",
            hint="an administrator permits it with `writable: true` of the tier",
        )


async def check_mount(context: Context, mount: DataOrder, tenant: str, account: str, field: str) -> None:
    tiers = context.services.tiers
    if mount.hot and not tiers.has_hot:
        raise BadField(
            f"{field}.tier_hint", "this cluster has no hot tier", hint="mount the source itself, with direct"
        )
    targets = tiers.targets
    if targets and not any(mount.target == each or mount.target.startswith(f"{each}/") for each in targets):
        raise BadField(
            f"{field}.target",
            f"{mount.target} is not where data may be mounted",
            hint=f"below {', '.join(targets)}",
        )
    if mount.source.startswith(NFS):
        _check_export(context, mount, tenant, f"{field}.source")
        return
    await check_source(context, mount.source, tenant, account, f"{field}.source")
    if not mount.hot and _tier_of(context, mount.source, tenant, f"{field}.source").is_cold:
        raise BadField(f"{field}.tier_hint", "data in an archive has to be restored and copied first", hint="use hot")


def _check_export(context: Context, mount: DataOrder, tenant: str, field: str) -> None:
    """Names of exports that belong to other tenants alone are never shown."""
    tiers = context.services.tiers
    known = sorted(name for name, tenants in tiers.exports.items() if not tenants or tenant in tenants)
    name = mount.source.removeprefix(NFS).partition("/")[0]
    if name not in known:
        hint = f"known: {', '.join(f'{NFS}{each}' for each in known) or 'none'}"
        raise BadField(field, f"{NFS}{name} is no export that tenant {tenant} may use", hint=hint)


async def check_source(context: Context, source: str, tenant: str, account: str, field: str) -> None:
    """Raises BadField for a source that no tier has, or that the account may not read as far as can be seen here."""
    _tier_of(context, source, tenant, field)
    if source.startswith("file://"):
        why = await in_thread(context.services.tiers.why_unreadable, source, account)
        if why:
            raise BadField(field, why)


def _tier_of(context: Context, source: str, tenant: str, field: str) -> WarmTier:
    """Names of what belongs to other tenants alone are never shown."""
    open_to = _open_tiers(context, tenant)
    for tier in open_to:
        if _is_below(source, tier.url):
            return tier
    known = ", ".join(tier.url for tier in open_to)
    what = "bucket" if source.startswith("s3://") else "tier"
    raise BadField(
        field, f"{source[:120]} is in no {what} that tenant {tenant} may use", hint=f"known: {known or 'none'}"
    )
