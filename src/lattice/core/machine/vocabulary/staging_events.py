"""Events about data on the hot tier. See docs/architecture/data.md."""

from lattice.core.machine.vocabulary.shape import Event
from lattice.core.model.data.copies import Copy, DataUse


class CopyChanged(Event, tag="copy_changed", frozen=True, kw_only=True):
    copy: Copy


class CopyForgotten(Event, tag="copy_forgotten", frozen=True, kw_only=True):
    key: str


class AllocationStaged(Event, tag="allocation_staged", frozen=True, kw_only=True):
    """An allocation or group has its data, as far as it will get it, and is in the queue. `message` says what is missing."""

    number: int
    data: tuple[DataUse, ...]
    message: str = ""
