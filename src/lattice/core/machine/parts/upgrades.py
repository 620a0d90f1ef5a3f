"""The part of the state that holds the newest upgrade. Written by `evolve` and the codec alone. See docs/architecture/upgrades.md."""

from lattice.core.machine.digest import Digest
from lattice.core.model.site.upgrades import Upgrade


class UpgradeRegistry:
    def __init__(self, digest: Digest) -> None:
        self._digest = digest
        self.newest: Upgrade | None = None

    def put(self, upgrade: Upgrade) -> None:
        if self.newest is not None:
            self._digest.remove(b"upgrade", self.newest)
        self._digest.add(b"upgrade", upgrade)
        self.newest = upgrade

    def every(self) -> tuple[Upgrade, ...]:
        return () if self.newest is None else (self.newest,)
