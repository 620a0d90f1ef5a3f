"""Whether a submission may have the data that it names: known tiers, those of its tenant, and what its user may read."""

from lattice.api.context import Context
from lattice.api.pacing import in_thread
from lattice.ports.data.tiers import WarmTier
from lattice.ports.nodes.data import DataOrder
from lattice.wire.text.problems import BadField
from lattice.wire.work.allocations import Work
from lattice.wire.work.data import NFS


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
    open_to = [tier for tier in context.services.tiers.warm if not tier.tenants or tenant in tier.tenants]
    for tier in open_to:
        if source == tier.url or source.startswith(tier.url.rstrip("/") + "/"):
            return tier
    known = ", ".join(tier.url for tier in open_to)
    what = "bucket" if source.startswith("s3://") else "tier"
    raise BadField(
        field, f"{source[:120]} is in no {what} that tenant {tenant} may use", hint=f"known: {known or 'none'}"
    )
