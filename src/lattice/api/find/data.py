"""How far the data of an allocation is, for those who may read its details."""

from msgspec.structs import replace

from lattice.api.context import Context
from lattice.core.model.data.copies import key_of
from lattice.core.model.work.allocations import Allocation
from lattice.wire.work.allocations import DataView, DetailsView


def with_progress(context: Context, head: Allocation, details: DetailsView) -> DetailsView:
    if not head.data:
        return details
    return replace(details, data=tuple(_with_copy(context, each) for each in details.data))


def _with_copy(context: Context, view: DataView) -> DataView:
    copy = context.state.staging.copies.get(key_of(view.source)) if view.tier == "hot" else None
    if copy is None or context.services.staging is None:
        return view
    said = context.services.staging.progress_of(copy)
    return replace(
        view,
        state=copy.state,
        bytes_done=said.bytes_done,
        bytes_total=said.bytes_total,
        percent=round(said.percent, 1),
        bytes_per_s=round(said.bytes_per_s, 1),
        seconds_left=None if said.seconds_left is None else round(said.seconds_left, 1),
        reason=copy.reason,
    )
