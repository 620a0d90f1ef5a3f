"""The setting `node.debug` on a server: the parts that it names log more, as long as it names them."""

import logging

from lattice.config.machine_status.debug_flags import loggers_of
from lattice.core.machine.commands import Envelope
from lattice.core.machine.events import AnyEvent, SettingSet
from lattice.quorum.replica import LogReplica

KEY = "node.debug"

_log = logging.getLogger(__name__)


class DebugFlags:
    """Follows the setting once the state is loaded."""

    def __init__(self, replica: LogReplica) -> None:
        self._replica = replica
        self._former: dict[str, int] = {}
        replica.on_loaded(self.apply)
        replica.subscribe(self._note, of=(SettingSet,))

    def apply(self) -> None:
        wanted = loggers_of(self._replica.state.settings.get(KEY, ""))
        for name in self._former.keys() - wanted:
            logging.getLogger(name).setLevel(self._former.pop(name))
        for name in wanted - self._former.keys():
            logger = logging.getLogger(name)
            self._former[name] = logger.level
            logger.setLevel(logging.DEBUG)

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        if any(isinstance(event, SettingSet) and event.key == KEY for event in events):
            self.apply()
            _log.info("debug flags: %s", self._replica.state.settings.get(KEY) or "off")
