"""`sacctmgr show`: what accounts, users and qualities of service are here: tenants, their users, preemption classes."""

from collections.abc import Callable, Iterator

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.slurm.answering import complained, printed, require
from lattice.api.slurm.helping import asks_for_help, helped
from lattice.api.slurm.rows.members import members_of, shown_tenants
from lattice.core.model.site.tenants import Tenant
from lattice.slurm.listings.accounting import ENTITIES, SACCTMGR, Question, read_question
from lattice.slurm.listings.listing import read_line
from lattice.slurm.listings.tables import style_of, table_lines
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand

Values = dict[str, str]


async def run(context: Context, command: SlurmCommand) -> SlurmAnswer:
    line = read_line(SACCTMGR, command.argv)
    if asks_for_help(line):
        return helped(SACCTMGR, line)
    require(context, Permission.READ_TENANTS)
    question = read_question(command.argv)
    if not question.entity:
        return complained(
            f"sacctmgr: error: {question.verb or 'a line without a keyword'} is not possible here: accounts are tenants",
            "sacctmgr: error: `lattice admin tenant` and `lattice admin vcluster` change them; `sacctmgr show` lists them",
        )
    rows = _ROWS[question.entity](context, question)
    values = (_reader(row) for row in rows)
    return printed(*table_lines(question.fields, ENTITIES[question.entity], values, style_of(question.line)))


def _reader(row: Values) -> Callable[[str], str]:
    return lambda key: row.get(key, "")


def _limits(context: Context, tenant: Tenant) -> Values:
    names = context.services.slurm
    allowed = [name for name, value in names.qos.items() if value <= tenant.max_class]
    return {
        "Share": "1" if tenant.fair_share_target is None else f"{tenant.fair_share_target:g}",
        "GrpJobs": _number(tenant.max_concurrent_allocations),
        "GrpTRES": "" if tenant.max_nodes is None else f"node={tenant.max_nodes}",
        "QOS": ",".join(allowed),
        "DefaultQOS": names.qos_of(5),
    }


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _associations(context: Context, question: Question) -> Iterator[Values]:
    cluster = context.services.slurm.cluster
    if not question.takes("cluster", cluster):
        return
    number = 0
    for tenant in shown_tenants(context):
        limits = {"Cluster": cluster, "Account": tenant.name, **_limits(context, tenant)}
        users = members_of(context, tenant.name)
        for user in ("", *users):
            number += 1
            if not question.takes("account", tenant.name) or not question.takes("user", user):
                continue
            own = {
                "MaxJobs": _number(tenant.max_running_per_user),
                "MaxSubmitJobs": _number(tenant.max_pending_per_user),
            }
            yield limits | {"ID": str(number), "User": user} | (own if user else {"ParentName": "root"})


def _accounts(context: Context, question: Question) -> Iterator[Values]:
    cluster = context.services.slurm.cluster
    for tenant in shown_tenants(context):
        if question.takes("account", tenant.name) and question.takes("name", tenant.name):
            named = {"Account": tenant.name, "Description": tenant.name, "Organization": tenant.name}
            yield {"Cluster": cluster, **_limits(context, tenant), **named}


def _users(context: Context, question: Question) -> Iterator[Values]:
    """A line for each user, or with -s for each of its accounts."""
    cluster = context.services.slurm.cluster
    accounts: dict[str, list[Tenant]] = {}
    for tenant in shown_tenants(context):
        for user in members_of(context, tenant.name):
            accounts.setdefault(user, []).append(tenant)
    is_long = question.line.has("associations") or any(
        field.key in ("Account", "Cluster", "QOS") for field in question.fields
    )
    for user in sorted(accounts):
        if not question.takes("user", user) or not question.takes("name", user):
            continue
        head = {"User": user, "DefaultAccount": accounts[user][0].name, "AdminLevel": "None", "Cluster": cluster}
        for tenant in accounts[user] if is_long else accounts[user][:1]:
            if question.takes("account", tenant.name):
                yield {**_limits(context, tenant), "Account": tenant.name, **head}


def _clusters(context: Context, question: Question) -> Iterator[Values]:
    services = context.services
    if question.takes("name", services.slurm.cluster) and question.takes("cluster", services.slurm.cluster):
        names = {
            "Cluster": services.slurm.cluster,
            "ControlHost": services.server_name,
            "ControlPort": "0",
            "RPC": "9728",
        }
        yield {**names, "Share": "1", "QOS": ",".join(services.slurm.qos), "DefaultQOS": services.slurm.qos_of(5)}


def _qualities(context: Context, question: Question) -> Iterator[Values]:
    ranked = sorted(context.services.slurm.qos.items(), key=lambda item: item[1])
    for number, (name, value) in enumerate(ranked, start=1):
        if question.takes("name", name):
            yield {
                "Name": name,
                "ID": str(number),
                "Priority": str(value),
                "GraceTime": "00:00:00",
                "PreemptMode": "cluster",
                "UsageFactor": "1.000000",
                "Description": f"preemption class {value}",
            }


_ROWS: dict[str, Callable[[Context, Question], Iterator[Values]]] = {
    "association": _associations,
    "account": _accounts,
    "user": _users,
    "cluster": _clusters,
    "qos": _qualities,
}
