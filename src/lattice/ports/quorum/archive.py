"""Finished work that left the hot state, as its readers see it.

Errors of this boundary::

    ArchiveError         the archive cannot be read, or is damaged
"""

from typing import Protocol

from msgspec import Struct

from lattice.core.model.work.allocations import Allocation, AllocationState, TaskGroup
from lattice.core.model.work.dags import Dag

ArchivedRecord = Allocation | TaskGroup


class ArchiveError(Exception):
    """The archive cannot be read; the hot state is not affected."""


class ArchiveFilter(Struct, frozen=True, kw_only=True):
    """What to look for; an empty field matches everything. Times are ms since 1970."""

    user: str = ""
    tenant: str = ""
    vcluster: str = ""
    name: str = ""
    states: tuple[AllocationState, ...] = ()
    since: int = 0  # ended at or after
    until: int = 0  # ended before
    group: int = 0  # tasks of this group, and the group itself
    with_groups: bool = True  # whether records of whole task groups are wanted
    with_tasks: bool = True  # whether records of single tasks of groups are wanted


class Archive(Protocol):
    """Records by number, newest first.

    A record is either in the hot state or here, never missing: who wants both reads the hot state first, then the archive, and
    meets a record at most twice.
    """

    async def archived(self, number: int) -> ArchivedRecord | None:
        """The record with this number, or the task group whose block has it; None when neither was archived.

        A task that is a row of its group is made up from that; the group itself stands for one that it knows nothing of.
        """
        ...

    async def archived_payload(self, number: int) -> bytes:
        """What the allocation or group was to run, as it was submitted; empty when there is none."""
        ...

    async def archived_page(self, wanted: ArchiveFilter, before: int | None, limit: int) -> list[ArchivedRecord]:
        """Up to `limit` matching records with numbers below `before`, highest number first."""
        ...

    async def archived_dag(self, number: int) -> Dag | None:
        """The DAG with this number; None when it was not archived."""
        ...

    async def archived_dags(self, user: str, tenant: str, before: int, limit: int) -> list[Dag]:
        """Up to `limit` DAGs with numbers below `before`, highest first; an empty user or tenant stands for all."""
        ...
