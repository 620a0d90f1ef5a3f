"""Events about the upgrade of the agents. See docs/architecture/upgrades.md."""

from lattice.core.machine.vocabulary.shape import Event
from lattice.core.model.site.upgrades import Upgrade


class UpgradeChanged(Event, tag="upgrade_changed", frozen=True, kw_only=True):
    upgrade: Upgrade
