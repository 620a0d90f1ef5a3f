"""Ports of a running allocation."""

from lattice.api.answers import Page, TunnelAnswer
from lattice.api.context import Context
from lattice.api.running.pages import OpenedPort, OpenPort, open_page
from lattice.api.running.ports import PortQuery, PortsQuery, PortView, list_open_ports, tunnel_to


async def list_ports(context: Context, request: PortsQuery) -> Page[PortView]:
    """The ports on which processes of a running allocation listen, on one of its nodes."""
    return Page(items=await list_open_ports(context, request))


async def connect_port(context: Context, request: PortQuery) -> TunnelAnswer:
    """A connection to a port on which a process of a running allocation listens; needs `Upgrade: lattice-tunnel` on REST."""
    return await tunnel_to(context, request)


async def open_port(context: Context, request: OpenPort) -> OpenedPort:
    """An address for a browser, good once and for a minute, that leads to a web page of a running allocation."""
    return await open_page(context, request)
