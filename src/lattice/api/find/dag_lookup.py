"""Finds the DAG behind an id, in the hot state or in the archive, and decides whether the caller may see it."""

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.core.model.ids import dag_id, parse_dag_id
from lattice.core.model.work.dags import Dag


async def find_dag(context: Context, text: str, permission: Permission) -> tuple[Dag, bool]:
    """The DAG, and whether it is archived.

    Raises ApiError: not_found for what does not exist or must not be seen, forbidden for what may be seen but not treated
    as `permission` says.
    """
    number = parse_dag_id(text)
    dag = None if number is None else context.state.dependencies.dags.get(number)
    is_archived = False
    if dag is None and number is not None:
        dag = await context.services.replica.archived_dag(number)
        is_archived = dag is not None
    if dag is None or not context.covers(Permission.READ, user=dag.user, tenant=dag.tenant):
        raise ApiError("not_found", f'no DAG "{text[:60]}"', hint="`lattice dag list` shows yours")
    if not context.covers(permission, user=dag.user, tenant=dag.tenant):
        raise ApiError(
            "forbidden",
            f"{dag_id(dag.number)} belongs to {dag.user}",
            hint="only its owner and administrators may do this",
        )
    return dag, is_archived
