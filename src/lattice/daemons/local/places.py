"""Names and ports of the servers of a local cluster: P, P+1, ... or, if P is 0, a free port each."""

from lattice.daemons.local.commands import ServerPlace
from lattice.daemons.local.layout import Layout
from lattice.daemons.local.options import Options, StartFailed
from lattice.daemons.local.ports import choose_port, free_port
from lattice.daemons.local.quorum import known_member_ports


def places(layout: Layout, options: Options) -> list[ServerPlace]:
    """The ports of etcd members are part of their cluster: once chosen, they do not change."""
    _check_number(layout, options.servers)
    taken: set[int] = set()
    known = known_member_ports(layout)
    found = []
    for number, name in enumerate(options.server_names()):
        rest = _port(options.rest_port, number, "--rest-port", taken)
        grpc = _port(options.grpc_port, number, "--grpc-port", taken)
        proxy = _free(taken)
        client = peer = 0
        if options.servers > 1:
            client, peer = known.get(name) or (_free(taken), _free(taken))
        found.append(ServerPlace(name=name, rest=rest, grpc=grpc, proxy=proxy, client=client, peer=peer))
    return found


def _check_number(layout: Layout, asked: int) -> None:
    """Refuses another number of servers than the directory was created with: their data would be left behind."""
    begun = sum((layout.data_of(server) / "etcd" / "member.json").exists() for server in layout.server_names())
    begun = begun or int((layout.data / "log.db").exists())
    if begun not in (0, asked):
        raise StartFailed(
            f"the cluster in {layout.root} has {begun} server{'s' if begun > 1 else ''}, not {asked}",
            hint=f"start it with --servers {begun}, or choose another directory with --dir",
        )


def _port(asked: int, number: int, flag: str, taken: set[int]) -> int:
    port = choose_port(asked + number if asked else 0, flag, frozenset(taken))
    taken.add(port)
    return port


def _free(taken: set[int]) -> int:
    port = free_port(frozenset(taken))
    taken.add(port)
    return port
