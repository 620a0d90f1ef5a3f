"""What the leader knows of rolling upgrades besides their record."""

from typing import Protocol

from lattice.core.model.site.upgrades import FiguresBefore


class UpgradeService(Protocol):
    @property
    def has_program(self) -> bool:
        """Whether a program of the site replaces software."""
        ...

    def before(self) -> FiguresBefore:
        """The figures that an upgrade that starts now is compared with."""
        ...
