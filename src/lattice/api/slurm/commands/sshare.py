"""`sshare`: who has used how much of what is theirs."""

from collections import Counter
from collections.abc import Callable, Iterator

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.slurm.answering import printed, require
from lattice.api.slurm.helping import asks_for_help, check_clusters, helped
from lattice.api.slurm.rows.members import members_of, shown_tenants
from lattice.core.model.site.settings import setting_value
from lattice.core.model.work.ledger import DAY_MS
from lattice.slurm.listings.accounting import SHARES, SSHARE, share_fields
from lattice.slurm.listings.listing import ListingLine, read_line
from lattice.slurm.listings.tables import field_names, style_of, table_lines
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand

Values = dict[str, str]


async def run(context: Context, command: SlurmCommand) -> SlurmAnswer:
    line = read_line(SSHARE, command.argv)
    if asks_for_help(line):
        return helped(SSHARE, line)
    if line.has("helpformat"):
        return printed(*field_names(SHARES))
    require(context, Permission.READ_TENANTS)
    check_clusters(context, "sshare", line)
    values = (_reader(row) for row in _rows(context, line))
    return printed(*table_lines(share_fields(line), SHARES, values, style_of(line)))


def _reader(row: Values) -> Callable[[str], str]:
    return lambda key: row.get(key, "")


def _usage_s(context: Context) -> Counter[tuple[str, str]]:
    """Node seconds by tenant and user over the days that budgets count."""
    days = int(setting_value(context.state.settings, "scheduler.budget_period_days"))
    first = context.services.clock.now_ms() // DAY_MS - days
    used: Counter[tuple[str, str]] = Counter()
    for ledger in context.state.ledger.values():
        used[ledger.tenant, ledger.user] += ledger.since(first)[0] // 1000
    return used


def _rows(context: Context, line: ListingLine) -> Iterator[Values]:
    used = _usage_s(context)
    total = used.total()
    accounts, users = frozenset(line.items("accounts")), frozenset(line.items("users"))
    targets = {name: tenant.fair_share_target for name, tenant in context.state.tenants.items()}
    equal = 1 / max(1, len(targets))
    cluster = context.services.slurm.cluster
    if not line.has("Users") and not accounts:
        yield {"Account": "root", "NormShares": "1.000000", "RawUsage": str(total), "EffectvUsage": "1.000000"}
    for tenant in shown_tenants(context):
        if accounts and tenant.name not in accounts:
            continue
        of_tenant = sum(seconds for (name, _), seconds in used.items() if name == tenant.name)
        target = targets[tenant.name]
        share = equal if target is None else target
        if not line.has("Users"):
            yield {"Account": f" {tenant.name}", "Cluster": cluster, **_figures(share, of_tenant, total)}
        members = members_of(context, tenant.name)
        for user in members:
            is_shown = user in users if users else line.has("all") or user == context.user
            if is_shown and (user == context.user or context.covers_tenant(Permission.READ_USAGE, tenant.name)):
                indent = "" if line.has("Users") else "  "
                figures = _figures(1 / len(members), used[tenant.name, user], of_tenant)
                yield {"Account": f"{indent}{tenant.name}", "User": user, "Cluster": cluster, **figures}


def _figures(share: float, used: int, of_all: int) -> Values:
    effective = used / of_all if of_all else 0.0
    return {
        "RawShares": "1",
        "NormShares": f"{share:.6f}",
        "RawUsage": str(used),
        "NormUsage": f"{effective:.6f}",
        "EffectvUsage": f"{effective:.6f}",
        "FairShare": f"{2 ** (-effective / share) if share else 0.0:.6f}",
        "LevelFS": "inf" if not effective else f"{share / effective:.6f}",
    }
