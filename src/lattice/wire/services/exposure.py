"""Ports that a submission exposes by name, and how people read them."""

from msgspec import Struct

from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.exposure import MAX_EXPOSED, MAX_LABEL, MAX_PORT, MAX_SHARED, Exposed, is_label
from lattice.wire.bounds import Short
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import check_line

TENANT = "tenant"
TCP = "tcp"


class ExposedPort(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A port of the work that has a name. Its owner reaches it always; `share` names others of the tenant, or "tenant" for all."""

    port: int  # 0 = chosen by each node, which tells the work in LATTICE_PORT_NAME
    name: Short = ""  # default: port-PORT
    protocol: Short = TCP
    share: list[Short] = []


class ExposedView(Struct, frozen=True, kw_only=True):
    """A port that an allocation exposes; 0 = chosen by each node."""

    name: str
    port: int
    protocol: str
    share: tuple[str, ...]


def check_exposed(wanted: list[ExposedPort]) -> tuple[Exposed, ...]:
    """Raises BadField for the first that cannot be accepted."""
    if len(wanted) > MAX_EXPOSED:
        raise BadField("expose", "too many ports", current=str(len(wanted)), limit=f"{MAX_EXPOSED} ports")
    found: list[Exposed] = []
    for place, each in enumerate(wanted):
        exposed = _exposed(each, f"expose[{place}]")
        if any(exposed.name == other.name for other in found):
            raise BadField(f"expose[{place}].name", f'two ports are called "{exposed.name}"')
        if exposed.port and any(exposed.port == other.port for other in found):
            raise BadField(f"expose[{place}].port", f"port {exposed.port} is exposed twice")
        found.append(exposed)
    return tuple(found)


def _exposed(wanted: ExposedPort, field: str) -> Exposed:
    if not 0 <= wanted.port <= MAX_PORT:
        raise BadField(f"{field}.port", f"{wanted.port} is not a port", limit=f"from 1 to {MAX_PORT:,}, or 0")
    if wanted.protocol.lower() != TCP:
        raise BadField(f"{field}.protocol", f'"{wanted.protocol[:40]}" is not possible', hint="tcp is the only one")
    if not wanted.port and not wanted.name:
        raise BadField(f"{field}.name", "a port that the node chooses needs a name", hint="as in web:0")
    name = wanted.name or f"port-{wanted.port}"
    if not is_label(name):
        hint = f"lower-case letters, digits and single hyphens, beginning with a letter; at most {MAX_LABEL}"
        raise BadField(f"{field}.name", f'"{name[:60]}" is not a name for a port', hint=hint)
    users = tuple(dict.fromkeys(check_line(text, f"{field}.share") for text in wanted.share if text != TENANT))
    if not all(users):
        raise BadField(f"{field}.share", "a user has no name", hint="share=tenant or share=USER")
    if len(users) > MAX_SHARED:
        raise BadField(f"{field}.share", "too many users", current=str(len(users)), limit=f"{MAX_SHARED} users")
    return Exposed(name=name, port=wanted.port, tenant=TENANT in wanted.share, users=users)


def exposed_views(record: Allocation) -> tuple[ExposedView, ...]:
    return tuple(
        ExposedView(
            name=each.name, port=each.port, protocol=TCP, share=(*((TENANT,) if each.tenant else ()), *each.users)
        )
        for each in record.exposes
    )
