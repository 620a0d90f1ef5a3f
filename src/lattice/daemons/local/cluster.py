"""The life of a local cluster: starts it, reports when it is ready, keeps it running."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine

from lattice.daemons.local import commands, quorum, readiness
from lattice.daemons.local.commands import ServerPlace
from lattice.daemons.local.credentials import LIFETIME_S, RENEW_BEFORE_S, ensure_secret, write_tokens
from lattice.daemons.local.gpus import write_topologies
from lattice.daemons.local.keeper import Keeper, Program, manner
from lattice.daemons.local.layout import Layout
from lattice.daemons.local.logtail import tail
from lattice.daemons.local.options import Options, StartFailed
from lattice.daemons.local.places import places
from lattice.daemons.local.record import Record
from lattice.daemons.local.shims import watch_shim

_log = logging.getLogger(__name__)

NO_PROGRESS_S = 60.0
LOOK_EVERY_S = 0.05
AGENT_DEATHS_ALLOWED = 2
TOKEN_LOOK_EVERY_S = 3600.0

Progress = Callable[[str], None]


class Cluster:
    """The processes of one directory, and the tasks that keep them running."""

    def __init__(self, layout: Layout, options: Options) -> None:
        self._layout = layout
        self._options = options
        self._tasks: list[asyncio.Task[None]] = []
        self._places = places(layout, options)
        # A server that was removed from the cluster keeps its name and ports, and is not started.
        self._live = [place for place in self._places if not quorum.was_removed(layout, place.name)] or self._places
        self.rest_port = self._live[0].rest
        self.api_url = ",".join(place.url for place in self._places)
        self._grpc = ",".join(place.agents for place in self._places)
        self.record = Record(layout, api_url=self.api_url, grpc=self._grpc)
        self._secret = ensure_secret(layout)
        write_tokens(layout, self._secret, options.users)
        token = quorum.prepare(layout, options.server_names()) if options.servers > 1 else ""
        for place in self._places:
            commands.write_server_config(layout, place, self._places, token, options.settings)
        write_topologies(layout, options)

    async def start(self, progress: Progress) -> dict[str, str]:
        """Starts everything; returns nodes and their states once they are settled. Raises StartFailed, which says where to look."""
        self._spawn(self._renew_tokens())
        self._spawn(self.record.keep())
        progress("starting the server" if self._options.servers == 1 else f"starting {self._options.servers} servers")
        if self._options.servers > 1:
            self._spawn(quorum.watch_etcd(self._layout, self._live, self.record))
        await asyncio.gather(*(self._start_server(place) for place in self._live))
        serving = [place for place in self._live if self._layout.endpoints_of(place.name).exists()]
        if not serving:
            raise StartFailed("all servers were removed from their cluster; none is left to start")
        self.rest_port = serving[0].rest
        agents = [self._start_agent(node) for node in self._options.node_names()]
        states = await self._wait_for_nodes(agents, progress)
        self._start_mover()
        return states

    async def stop_keeping(self) -> None:
        """From here on processes are not restarted, and cluster.json is not updated."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def _renew_tokens(self) -> None:
        made = time.time()
        while True:
            await asyncio.sleep(TOKEN_LOOK_EVERY_S)
            if time.time() - made > LIFETIME_S - RENEW_BEFORE_S:
                try:
                    write_tokens(self._layout, self._secret)
                except OSError as error:
                    _log.error("cannot renew the tokens: %s", error)
                else:
                    made = time.time()

    async def _start_server(self, place: ServerPlace) -> None:
        layout = self._layout
        endpoints = layout.endpoints_of(place.name)
        program = Program(
            role="server",
            name=place.name,
            command=commands.server_command(layout, self._options, place.name),
            log=layout.log_of("server", place.name),
            addresses=(place.url, place.agents),
            before_start=lambda: endpoints.unlink(missing_ok=True),
        )
        server = Keeper(program, self.record, restart=self._options.restart)
        self._spawn(server.run())
        until = time.monotonic() + NO_PROGRESS_S
        while not endpoints.exists():
            if server.is_removed:
                _log.warning("not starting server %s: it was removed from the cluster", place.name)
                return
            if server.deaths:
                raise StartFailed(_ended(server))
            if time.monotonic() > until:
                raise StartFailed(f"the server did not listen within {NO_PROGRESS_S:g} s; {_end_of_log(server)}")
            await asyncio.sleep(LOOK_EVERY_S)

    def _start_mover(self) -> None:
        """Last, so that no client waits for it."""
        if not commands.hot_tier(self._layout, self._options):
            return
        program = Program(
            role="mover",
            name="mover",
            command=commands.mover_command(self._layout, self._options, self.api_url),
            log=self._layout.log_of("mover", "mover"),
        )
        self._spawn(Keeper(program, self.record, restart=self._options.restart).run())

    def _start_agent(self, node: str) -> Keeper:
        program = Program(
            role="agent",
            name=node,
            command=commands.agent_command(self._layout, self._options, node, self._grpc),
            log=self._layout.log_of("agent", node),
        )
        keeper = Keeper(program, self.record, restart=self._options.restart)
        self._spawn(keeper.run())
        self._spawn(watch_shim(self._layout, node, self.record))
        return keeper

    async def _wait_for_nodes(self, agents: list[Keeper], progress: Progress) -> dict[str, str]:
        states: dict[str, str] = {}
        last_progress = time.monotonic()
        while True:
            known = len(states)
            problem = ""
            try:
                found = await asyncio.to_thread(readiness.settled_nodes, self._layout, self.rest_port)
                states = {
                    agent.program.name: found[agent.program.name] for agent in agents if agent.program.name in found
                }
            except readiness.NotYet as error:
                problem = f"; {error}"
            if not problem and len(states) == len(agents):
                return states
            if len(states) > known:
                last_progress = time.monotonic()
                progress(f"{len(states)} of {len(agents)} nodes ready")
            waiting = [agent for agent in agents if agent.program.name not in states]
            for agent in waiting:
                if agent.deaths > (AGENT_DEATHS_ALLOWED if self._options.restart else 0):
                    raise StartFailed(_ended(agent))
            if time.monotonic() > last_progress + NO_PROGRESS_S:
                first = f"; {_end_of_log(waiting[0])}" if waiting else ""
                raise StartFailed(f"{len(states)} of {len(agents)} nodes became ready{problem}{first}")
            await asyncio.sleep(LOOK_EVERY_S)


def _ended(keeper: Keeper) -> str:
    log = keeper.program.log
    how = manner(keeper.last_code)
    words = tail(log, keeper.last_words_from)
    return f"the {keeper.program.title} ended during the start ({how}); the end of {log}:\n{words}"


def _end_of_log(keeper: Keeper) -> str:
    return f"the end of {keeper.program.log}:\n{tail(keeper.program.log, keeper.log_from)}"
