"""The way from the gateway to the work: who may reach what, which connection a request takes, and where a service is asked."""

import asyncio
from dataclasses import dataclass, field

from lattice.api.access.admission import authenticate, turn_away
from lattice.api.auth.rbac import Permission, may_at_all
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.gateway.kept import KEPT_S, KeptTunnels
from lattice.api.gateway.spreading import Spreading
from lattice.api.gateway.tickets import Grant, Ticket
from lattice.api.gateway.work import Address, Link, Refused
from lattice.api.running.sharing import is_open, is_still_shared, may_reach, port_on, serving_node, wanted_port
from lattice.api.services import Services
from lattice.core.machine.commands import RecordAudit
from lattice.core.machine.outcomes import Accepted
from lattice.core.machine.parts.services import Endpoint, ServiceKey, endpoints_of
from lattice.core.model.ids import allocation_id, parse_allocation_id
from lattice.core.model.site.audit import AuditNote
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.exposure import find_exposed
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.tunnels import Tunnel, TunnelRefused
from lattice.ports.quorum.log import LogError
from lattice.ports.quorum.replica import ReplicaStopped
from lattice.ports.site.identity import Identity, Unauthenticated

# A request that cannot be repeated takes a connection that was used this recently, and makes one otherwise.
SURE_S = 1.0
MAX_FOUND = 4_096
# How many times, and with what pause, a request to a service is tried while none of its instances takes a connection.
HELD_ROUNDS, HELD_ROUND_S = 25, 0.2


@dataclass(slots=True)
class _Link:
    """Implements `Link`: goes back among the kept connections, or is closed."""

    tunnel: Tunnel
    key: tuple[object, ...]
    owner: "PortWork"
    endpoint: Endpoint | None = None
    begun_s: float = 0.0
    _has_failed: bool = field(default=False, init=False)

    def failed(self) -> None:
        self._has_failed = True

    def done(self, *, is_good: bool) -> None:
        self.owner.finished(self.tunnel if is_good else None, self.key, self.endpoint, has_failed=self._has_failed)
        if self.endpoint is not None:
            self.owner.counted(self.endpoint, self.begun_s)
        if not is_good:
            self.tunnel.close()


class PortWork:
    """Implements `Work` of the gateway: each request is judged by the state of now."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.tickets = services.tickets
        self.domain = services.proxy_domain
        now_s = services.clock.monotonic_s
        self._kept = KeptTunnels(now_s, lambda delay_s, call: asyncio.get_running_loop().call_later(delay_s, call))
        self.spreading = Spreading(now_s)
        self._requests = services.observations.requests
        # What was found in the state, until it changes.
        self._read_at = -1
        self._grants: dict[tuple[Identity, str, Address], Grant] = {}
        self._places: dict[tuple[str, str, str], list[tuple[Allocation, Endpoint]]] = {}

    def _forget_the_old(self) -> None:
        """What was found in an older state is found again."""
        index = self._services.replica.applied_index
        if index != self._read_at or len(self._grants) + len(self._places) > MAX_FOUND:
            self._read_at = index
            self._grants.clear()
            self._places.clear()

    async def authorized(self, authorization: str, tenant: str, address: Address, source: str) -> Grant:
        try:
            identity = await authenticate(self._services, authorization)
        except Unauthenticated as error:
            await turn_away(self._services, error, source)
            raise Refused(401, str(error)) from None
        self._forget_the_old()
        key = (identity, tenant, address)
        grant = self._grants.get(key)
        if grant is None:
            grant = self._grants[key] = self._judged(identity, tenant, address)
        return grant

    def _judged(self, identity: Identity, tenant: str, address: Address) -> Grant:
        if not may_at_all(identity, Permission.FORWARD):
            raise Refused(403, "your role does not allow to reach ports")
        if address.allocation:
            return self._granted(identity, address)
        try:
            chosen = Context(self._services, identity, tenant).chosen_tenant(Permission.FORWARD)
        except ApiError as error:
            raise Refused(403, str(error)) from None
        return self._granted_service(identity, chosen, address)

    def _granted(self, identity: Identity, address: Address) -> Grant:
        number = parse_allocation_id(address.allocation)
        record = None if number is None else self._services.replica.state.allocations.get(number)
        wanted = None if record is None else wanted_port(record, address.port)
        # What must not be seen is answered like what does not exist.
        if record is None or wanted is None or not may_reach(identity, record, wanted.exposed):
            raise Refused(404, f"nothing that you may reach is at {address.prefix}")
        return Grant(
            user=identity.user,
            prefix=address.prefix,
            number=record.number,
            port=address.port,
            tenant=record.tenant,
            is_own=record.user == identity.user,
        )

    def _granted_service(self, identity: Identity, tenant: str, address: Address) -> Grant:
        running = self._services.replica.state.services.running(ServiceKey(tenant, address.port))
        if not any(may_reach(identity, each, find_exposed(each.exposes, address.port)) for each in running):
            raise Refused(404, f"nothing that you may reach is at {address.prefix}")
        is_own = running[0].user == identity.user
        return Grant(user=identity.user, prefix=address.prefix, port=address.port, tenant=tenant, is_own=is_own)

    async def use_up(self, ticket: Ticket, source: str) -> bool:
        """The log remembers command ids for longer than a ticket is good, and later leaders read it.

        No request of a user has this id: theirs contain a slash.
        """
        replica, grant, command_id = self._services.replica, ticket.grant, f"ticket:{ticket.code}"
        if command_id in replica.state.recent:
            return False
        used = RecordAudit(notes=(self._opening(grant, source),))
        try:
            done = await replica.propose(used, actor=grant.user, command_id=command_id)
        except (LogError, ReplicaStopped) as error:
            raise Refused(
                503, f"the use of the ticket could not be recorded ({error}); run `lattice open` again"
            ) from None
        return isinstance(done, Accepted) and not done.repeated

    def _opening(self, grant: Grant, source: str) -> AuditNote:
        allocation = self._services.replica.state.allocations.get(grant.number)
        return AuditNote(
            kind="page.open",
            actor=grant.user,
            subject=allocation_id(grant.number) if grant.number else grant.port,
            user="" if allocation is None else allocation.user,
            tenant=grant.tenant,
            allocation=grant.number,
            nodes=() if allocation is None else allocation.nodes,
            detail=f"port {grant.port} from {source}" if grant.number else f"service from {source}",
        )

    async def connect(self, grant: Grant, *, is_safe: bool, is_again: bool) -> Link:
        if grant.number:
            return await self._connect_port(grant, is_safe=is_safe, is_again=is_again)
        return await self._connect_service(grant, is_safe=is_safe, is_again=is_again)

    async def _connect_port(self, grant: Grant, *, is_safe: bool, is_again: bool) -> Link:
        state = self._services.replica.state
        allocation = state.allocations.get(grant.number)
        if allocation is None or not is_open(state, allocation):
            raise Refused(404, f"{grant.name} is not running, or its ports cannot be reached")
        wanted = wanted_port(allocation, grant.port)
        node = grant.node or serving_node(allocation)
        if wanted is None or not is_still_shared(grant.user, allocation, wanted.exposed):
            raise Refused(403, f"{grant.name} is not shared with you")
        if node not in allocation.nodes:
            raise Refused(403, f"{grant.name} does not run there any more")
        endpoint = Endpoint(allocation.number, allocation.run, node, port_on(allocation, node, wanted))
        key = (grant.user, endpoint)
        try:
            tunnel = await self._tunnel(key, endpoint, is_safe=is_safe, is_again=is_again)
        except TunnelRefused as refusal:
            raise Refused(502, f"{grant.name}: {refusal}") from None
        return _Link(tunnel, key, self)

    async def _connect_service(self, grant: Grant, *, is_safe: bool, is_again: bool) -> Link:
        """Nothing is sent before there is a connection, so a request may wait for an instance that does not listen yet."""
        begun_s = self._services.clock.monotonic_s()
        for wait in range(HELD_ROUNDS):
            try:
                return await self._try_service(grant, begun_s, is_safe=is_safe, is_again=is_again)
            except Refused as refusal:
                if refusal.status not in (502, 503) or wait == HELD_ROUNDS - 1 or self._services.ports is None:
                    raise
            await asyncio.sleep(HELD_ROUND_S)
        raise AssertionError("the last round answers or refuses")

    async def _try_service(self, grant: Grant, begun_s: float, *, is_safe: bool, is_again: bool) -> Link:
        tried: list[Endpoint] = []
        told = "no instance of it is ready"
        for _ in range(3):
            endpoint = self.spreading.choose(self.endpoints(grant.tenant, grant.port, grant.user), tried)
            if endpoint is None:
                break
            key = (grant.user, endpoint)
            try:
                tunnel = await self._tunnel(key, endpoint, is_safe=is_safe, is_again=is_again)
            except TunnelRefused as refusal:
                self.spreading.done(endpoint, has_failed=True)
                told = str(refusal)
                tried.append(endpoint)
            except BaseException:
                self.spreading.done(endpoint, has_failed=False)
                raise
            else:
                self._requests.begun(endpoint.number, endpoint.run, begun_s)
                return _Link(tunnel, key, self, endpoint, begun_s)
        raise Refused(502 if tried else 503, f"{grant.name}: {told}")

    def endpoints(self, tenant: str, name: str, user: str) -> list[Endpoint]:
        """Those of a service that are ready and may be reached by the user."""
        self._forget_the_old()
        places = self._places.get((tenant, name, user))
        if places is None:
            places = self._places[tenant, name, user] = self._found(tenant, name, user)
        ready = self._services.ready
        return [endpoint for allocation, endpoint in places if ready(allocation, endpoint.node) is not False]

    def _found(self, tenant: str, name: str, user: str) -> list[tuple[Allocation, Endpoint]]:
        state, found = self._services.replica.state, []
        for allocation in state.services.running(ServiceKey(tenant, name)):
            exposed = find_exposed(allocation.exposes, name)
            if exposed is None or not is_open(state, allocation) or not is_still_shared(user, allocation, exposed):
                continue
            found += [(allocation, each) for each in endpoints_of(allocation, exposed) if each.port]
        return found

    async def _tunnel(self, key: tuple[object, ...], endpoint: Endpoint, *, is_safe: bool, is_again: bool) -> Tunnel:
        """One that was kept, or a new one; raises TunnelRefused and Refused."""
        kept = None if is_again else self._kept.take(key, KEPT_S if is_safe else SURE_S)
        if kept is not None:
            return kept.tunnel
        links = self._services.ports
        if links is None:
            raise Refused(503, "this server does not lead")
        return await links.connect_port(endpoint.node, RunKey(endpoint.number, endpoint.run), endpoint.port)

    def finished(
        self, tunnel: Tunnel | None, key: tuple[object, ...], endpoint: Endpoint | None, *, has_failed: bool
    ) -> None:
        """A request is over; `tunnel` can carry another one."""
        if tunnel is not None:
            self._kept.keep(key, tunnel)
        if endpoint is not None:
            self.spreading.done(endpoint, has_failed=has_failed)

    def counted(self, endpoint: Endpoint, begun_s: float) -> None:
        """For those who scale the service: a request is over."""
        now_s = self._services.clock.monotonic_s()
        self._requests.ended(endpoint.number, endpoint.run, now_s, now_s - begun_s)

    def close(self) -> None:
        """Another server leads from now on."""
        self._kept.close()

    def is_token(self, text: str) -> bool:
        try:
            self._services.verifier.verify(text)
        except Unauthenticated:
            return False
        return True
