"""A server that is alone, from its configuration to its end: log, replica, loops, gRPC and REST on one event loop."""

import asyncio
import logging
from collections.abc import Sequence

from lattice.config.release import installed_release
from lattice.config.schema import ServerConfig
from lattice.daemons.server.gc import keep_what_is_loaded
from lattice.daemons.server.listening import Address, reachable
from lattice.daemons.server.lost_data import mend_archive, refuse_lost_log
from lattice.daemons.server.parts import ServerParts
from lattice.daemons.server.recovery import carry_out_asked
from lattice.daemons.server.storage import embedded_log
from lattice.ports.quorum.servers import ServerState, alone
from lattice.quorum.backup.restore import refuse_unfinished

# A request that comes while this server starts waits that long before it is refused: no other server can answer it.
HOLD_S = 1.0

_log = logging.getLogger(__name__)


class ServerProcess:
    """Start it, wait for `failed`, stop it. It leads from the first moment to the last: no other server appends to its log."""

    def __init__(self, config: ServerConfig, secret: bytes, *, accepts_loss: bool = False) -> None:
        self.parts = ServerParts(config, secret, embedded_log(config), accepts_loss=accepts_loss)
        self.parts.front.gate.hold_s = HOLD_S

    async def start(self) -> None:
        """Returns when agents and clients are served. Raises ListenFailed, LogError and what else keeps it from that."""
        await self.parts.start(self._prepare, self._serve, self.stop)

    async def _prepare(self) -> None:
        """What has to be there before the log can be opened: the backup, where one was asked for."""
        storage, config = self.parts.storage, self.parts.config
        refuse_unfinished(storage.folder)
        restored = await asyncio.to_thread(carry_out_asked, config)
        if restored is not None:
            start, former = restored
            _log.warning(
                "restored %s: continues from entry %d; the previous data is in %s", start.backup, start.index, former
            )
        if config.log.kind == "sqlite":
            await asyncio.to_thread(refuse_lost_log, storage.folder, storage.losses)
            await asyncio.to_thread(mend_archive, config)

    async def _serve(self, rest: Address, grpc: Address) -> None:
        from lattice.api.rest.app import build_app

        parts, front = self.parts, self.parts.front
        await parts.answer_lists()
        loops = await parts.begin_loops(parts.replica, f"{front.scheme}://{reachable(rest)}", self._servers)
        front.agents.receive_at(parts.registrar(loops))
        front.bind_grpc(grpc)
        services = parts.services_over(parts.replica, loops, is_ready=lambda: parts.replica.is_leader)
        keep_what_is_loaded()
        loops.start()
        front.operations.serve(services)
        await front.serve_grpc()
        front.gate.open(build_app(services))
        await asyncio.to_thread(front.publish, rest)

    async def _servers(self) -> Sequence[ServerState]:
        """What every server of the cluster supports."""
        return [alone(self.parts.config.name, self.parts.replica.applied_index, installed_release())]

    async def failed(self) -> Exception:
        """Returns when the server can serve no more, with the reason."""
        return await self.parts.failed()

    async def stop(self) -> None:
        """Ends everything in order; what was acknowledged is durable before, whatever happens here."""
        await self.parts.stop()
