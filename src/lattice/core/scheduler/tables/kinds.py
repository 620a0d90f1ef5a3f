"""Kinds of hardware as columns, so that one request is compared with all of them in one step.

The answer is that of `core.model.shares.suits` and `amounts` for each kind; a test compares the two.
See docs/architecture/scheduler.md.
"""

import numpy as np

from lattice.core.model.nodes.nodes import Hardware
from lattice.core.model.work.allocations import Request
from lattice.core.model.work.shares import DEFAULT_CPUS
from lattice.core.scheduler.tables.slots import Bools, Ints


class KindTable:
    """One row per kind, in the order given."""

    def __init__(self, kinds: tuple[Hardware, ...]) -> None:
        self.kinds = kinds
        self.cpus = _column([kind.cpus for kind in kinds])
        self.memory_mb = _column([kind.memory_mb for kind in kinds])
        self.gpus = _column([kind.gpus for kind in kinds])
        self.power_w = _column([kind.power_w for kind in kinds])
        self._cxl_mb = _column([kind.cxl_memory_mb for kind in kinds])
        self._unified: Bools = np.array([kind.unified_memory for kind in kinds], np.bool_)
        self._of_type: dict[str, Bools] = {}
        self._with_feature: dict[str, Bools] = {}
        for row, kind in enumerate(kinds):
            self._mark(self._of_type, kind.gpu_type, row)
            for feature in kind.features:
                self._mark(self._with_feature, feature, row)
        self._none: Bools = np.zeros(len(kinds), np.bool_)

    def suits(self, request: Request) -> Bools:
        """Which kinds satisfy every constraint of the request that is not about names."""
        memory_mb = self.memory_mb + self._cxl_mb if request.allow_cxl_memory else self.memory_mb
        suits: Bools = self.cpus >= max(DEFAULT_CPUS, request.cpus)
        suits &= memory_mb >= max(request.memory_mb, request.min_memory_mb)
        if request.gpus:
            suits &= self.gpus >= request.gpus
        if request.require_unified_memory:
            suits &= self._unified
        if request.gpu_type:
            suits &= self._of_type.get(request.gpu_type, self._none)
        for feature in request.features:
            suits &= self._with_feature.get(feature, self._none)
        return suits

    def share_memory_mb(self, request: Request) -> Ints:
        """Memory of a share, by kind: what was asked for, or the part that goes with the CPUs."""
        if request.memory_mb:
            return np.full(len(self.kinds), request.memory_mb, np.int64)
        cpus = request.cpus or DEFAULT_CPUS
        return cpus * self.memory_mb // np.maximum(1, self.cpus)

    def _mark(self, masks: dict[str, Bools], name: str, row: int) -> None:
        if name not in masks:
            masks[name] = np.zeros(len(self.kinds), np.bool_)
        masks[name][row] = True


def _column(values: list[int]) -> Ints:
    return np.array(values, np.int64)
