"""Who used how much: past use that fades, work that runs now, and days of those who have a budget.

Amounts of nodes are counted in UNITs, so that a share of a node counts as a share. Sums over running work are whole numbers
of seconds: they do not depend on the order in which allocations came and went. See docs/architecture/scheduler.md.
"""

import numpy as np

from lattice.core.model.nodes.nodes import Share
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.ledger import DAY_MS
from lattice.core.model.work.ledger import Ledger as Entries
from lattice.core.scheduler.tables.slots import Floats, Ints, Names
from lattice.core.scheduler.tables.snapshot import BASE_S, RUNNING, UNIT, Account, Ledger

HALF_LIFE_S = 7 * 86_400.0
UNKNOWN_LENGTH_S = 3600  # for sums: work without a walltime
_FARTHEST = 128.0  # half-lives between the time that `past` is for and the newest entry

Days = tuple[tuple[int, int, int], ...]


class UseTable:
    """Accounts stay once they were seen, so that their numbers do."""

    def __init__(self) -> None:
        self.half_life_ms = HALF_LIFE_S * 1000
        # Numbers that are given once and stay.
        self._accounts: dict[Account, int] = {}
        self._tenants = Names()
        self._projects: dict[tuple[str, str], int] = {}
        # By account, with room to grow: its tenant and project, its past use, its running sums (lines: RUNNING).
        self._tenant: Ints = np.zeros(16, np.int64)
        self._project: Ints = np.zeros(16, np.int64)
        self._past: Floats = np.zeros(16)  # as it weighs at `_as_of`; changed by `_enter` alone
        self._running: Ints = np.zeros((len(RUNNING), 16), np.int64)  # the sum over `_runs`, exactly
        self._as_of = 0
        # Where the sums come from, so that they can be taken back: entries by account, days by tenant, amounts by number.
        self._entries: dict[Account, Days] = {}
        self._days: dict[str, dict[int, tuple[int, int]]] = {}
        self._runs: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._cached: Ledger | None = None  # None = something changed since it was made
        self._cached_names: tuple[tuple[Account, ...], tuple[str, ...]] | None = None

    def account(self, tenant: str, project: str, user: str) -> int:
        """The number of the account, from now on."""
        key = Account(tenant, project, user)
        number = self._accounts.get(key)
        return self._add_account(key) if number is None else number

    def _add_account(self, key: Account) -> int:
        number = self._accounts[key] = len(self._accounts)
        if number == len(self._past):
            self._tenant, self._project = _doubled(self._tenant), _doubled(self._project)
            self._past = np.concatenate([self._past, np.zeros(len(self._past))])
            self._running = np.concatenate([self._running, np.zeros_like(self._running)], axis=1)
        self._tenant[number] = self._tenants.number(key.tenant)
        self._project[number] = self._projects.setdefault((key.tenant, key.project), len(self._projects))
        self._cached = None
        return number

    def put(self, allocation: Allocation, units: int, gpus: int) -> None:
        """Counts a run while it holds something; `units` and `gpus` = how much in all."""
        known = self._runs.get(allocation.number)
        if not allocation.is_holding:
            self.drop(allocation.number)
            return
        started_s = allocation.started_at // 1000
        begun, begun_gpus = (units, gpus) if started_s else (0, 0)
        account = self.account(allocation.tenant, allocation.project, allocation.user)
        walltime_s = allocation.walltime_s or UNKNOWN_LENGTH_S
        amounts = (
            units,
            gpus,
            begun,
            begun_gpus,
            begun * (started_s - BASE_S),
            begun_gpus * (started_s - BASE_S),
            units * walltime_s,
            gpus * walltime_s,
        )
        if known == (account, amounts):
            return
        if known is not None:
            self.drop(allocation.number)
        self._runs[allocation.number] = (account, amounts)
        self._running[:, account] += amounts
        self._cached = None

    def drop(self, number: int) -> None:
        """The run is over; harmless when it never was."""
        known = self._runs.pop(number, None)
        if known is not None:
            self._running[:, known[0]] -= known[1]
            self._cached = None

    def put_entries(self, entries: Entries) -> None:
        """Takes over what an account has used by day."""
        key = Account(entries.tenant, entries.project, entries.user)
        number = self.account(*key)
        gone, new = _changes(self._entries.get(key, ()), entries.days)
        self._entries[key] = entries.days
        for day, node_ms, gpu_ms in gone:
            self._enter(number, key.tenant, day * DAY_MS, -node_ms, -gpu_ms)
        for day, node_ms, gpu_ms in new:
            self._enter(number, key.tenant, day * DAY_MS, node_ms, gpu_ms)

    def set_half_life(self, milliseconds: float) -> None:
        """Reweigh all entries when the half-life changes."""
        if milliseconds == self.half_life_ms or milliseconds <= 0:
            return
        self.half_life_ms = milliseconds
        self._past[:] = 0.0
        self._days.clear()
        entries, self._entries = self._entries, {}
        for key, days in entries.items():
            self.put_entries(Entries(tenant=key.tenant, project=key.project, user=key.user, days=days))
        self._cached = None

    def add(self, allocation: Allocation, units: int, gpus: int) -> None:
        """Enter a run that has ended, for callers without a ledger."""
        number = self.account(allocation.tenant, allocation.project, allocation.user)
        length = allocation.ended_at - allocation.started_at
        self._enter(number, allocation.tenant, allocation.ended_at, length * units // UNIT, length * gpus)

    def _enter(self, account: int, tenant: str, at: int, node_ms: int, gpu_ms: int) -> None:
        age = (at - self._as_of) / self.half_life_ms
        if age > _FARTHEST:
            self._past *= 2.0 ** -min(age, 1000.0)
            self._as_of, age = at, 0.0
        self._past[account] = max(0.0, self._past[account] + node_ms * 2.0**age)
        days = self._days.setdefault(tenant, {})
        before = days.get(at // DAY_MS, (0, 0))
        days[at // DAY_MS] = (before[0] + node_ms, before[1] + gpu_ms)
        self._cached = None

    def ledger(self, with_budget: tuple[str, ...]) -> Ledger:
        """The use as it is now; days only of the tenants that have a budget."""
        if self._cached is None or tuple(self._cached.days) != with_budget:
            self._cached = self._ledger(with_budget)
        return self._cached

    def _ledger(self, with_budget: tuple[str, ...]) -> Ledger:
        count = len(self._accounts)
        old = self._cached_names if self._cached_names is not None and len(self._cached_names[0]) == count else None
        accounts, tenants = old or (tuple(self._accounts), self._tenants.all())
        self._cached_names = (accounts, tenants)
        return Ledger(
            accounts=accounts,
            tenant=self._tenant[:count].copy(),
            project=self._project[:count].copy(),
            tenants=tenants,
            past=self._past[:count].copy(),
            as_of=self._as_of,
            half_life_ms=self.half_life_ms,
            running=self._running[:, :count].copy(),
            days={name: self._days_of(name) for name in with_budget},
        )

    def _days_of(self, tenant: str) -> Days:
        days = self._days.get(tenant, {})
        return tuple((day, *days[day]) for day in sorted(days) if any(days[day]))


def units_of(share: Share, cpus: int) -> int:
    """The fraction of a node with this many CPUs that the share takes."""
    return UNIT if share.whole else max(1, share.cpus * UNIT // max(1, cpus))


def _changes(old: Days, new: Days) -> tuple[Days, Days]:
    """Entries that are gone and entries that are new; as a rule only the last day changes."""
    if old == new[:-1]:
        return (), new[-1:]
    if old[:-1] == new[:-1]:
        return old[-1:], new[-1:]
    before, after = set(old), set(new)
    return tuple(e for e in old if e not in after), tuple(e for e in new if e not in before)


def _doubled(column: Ints) -> Ints:
    return np.concatenate([column, np.zeros_like(column)])
