"""`lattice service list|lookup|show|open`: services that run, and where."""

import argparse
from dataclasses import dataclass

from msgspec import UNSET

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, CommandError, UsageError
from lattice.cli.output import Column, show_list, show_one, structured
from lattice_sdk.registry.models import Endpoint, Service, ServiceLookup

POLL_S = 30.0
MAX_SCALED = 8


@dataclass(frozen=True, kw_only=True)
class Options:
    name: str = ""
    ready: bool = False
    wait: bool = False
    path: str = "/"
    keep_path: bool = False


def fill_list(parser: argparse.ArgumentParser) -> None:
    parser.description = "Lists the services that run in your tenants: unbounded work that exposes ports by name."


def _fill_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="service, as --expose named its port")


def fill_lookup(parser: argparse.ArgumentParser) -> None:
    _fill_name(parser)
    parser.description = "Prints the endpoints of a service, one NODE:PORT on each line."
    parser.add_argument("--ready", action="store_true", help="only those that are ready; fails when there is none")
    parser.add_argument("--wait", action="store_true", help="wait until there is one")


def fill_show(parser: argparse.ArgumentParser) -> None:
    _fill_name(parser)
    parser.description = "Shows a service: its owner, its allocations, and the state of its endpoints."


def fill_open(parser: argparse.ArgumentParser) -> None:
    _fill_name(parser)
    parser.description = "Prints a URL for a browser that leads through the cluster's gateway to a service. It is good once and for a minute."
    parser.add_argument("--path", metavar="PATH", help="path of the page (default: /)")
    parser.add_argument(
        "--keep-path", action="store_true", help="the service expects the whole path, /proxy/services/NAME/..."
    )


COLUMNS: tuple[Column[Service], ...] = (
    Column("SERVICE", lambda service: service.name),
    Column("TENANT", lambda service: service.tenant, is_wide=True),
    Column("USER", lambda service: service.user),
    Column("READY", lambda service: f"{service.ready}/{service.size}"),
    Column("ALLOCATIONS", lambda service: ",".join(service.allocations[:8])),
)


def run_list(_options: Options, context: Context) -> int:
    found = context.client.list_services(tenant=context.flags.tenant or "")
    show_list(context, found, COLUMNS, name=lambda service: service.name)
    return OK


def run_lookup(options: Options, context: Context) -> int:
    found = _looked_up(options, context)
    endpoints = [each for each in found.endpoints if each.port and (each.ready or not options.ready)]
    if not endpoints:
        raise CommandError(
            f'service "{found.name}" has no endpoint that is ready',
            hint=f"{found.ready} of {found.size} are; --wait waits for one",
        )
    if not structured(context, found):
        context.streams.write("".join(f"{each.node}:{each.port}\n" for each in endpoints))
    return OK


def _looked_up(options: Options, context: Context) -> ServiceLookup:
    tenant = context.flags.tenant or ""
    if not options.wait:
        return context.client.lookup_service(options.name, tenant=tenant)
    version = ""
    while True:
        from lattice_sdk.errors import NotFound

        try:
            found = context.client.lookup_service(options.name, tenant=tenant, version=version, timeout_s=POLL_S)
        except NotFound:
            version = ""
            continue
        if any(each.port and (each.ready or not options.ready) for each in found.endpoints):
            return found
        version = found.version


def run_show(options: Options, context: Context) -> int:
    found = context.client.lookup_service(options.name, tenant=context.flags.tenant or "")
    show_one(context, found, [*_pairs(found), *_scaling(found, context)])
    return OK


def run_open(options: Options, context: Context) -> int:
    if not options.path.startswith("/"):
        raise UsageError(f'--path: "{options.path}" does not begin with /')
    opened = context.client.open_service(
        options.name, tenant=context.flags.tenant or "", path=options.path, keep_path=options.keep_path
    )
    if not structured(context, opened):
        context.streams.write(f"{opened.url}\n")
    return OK


def _pairs(service: ServiceLookup) -> list[tuple[str, str]]:
    return [
        ("Service", service.name),
        ("Tenant", service.tenant),
        ("User", service.user),
        ("Allocations", ",".join(service.allocations)),
        ("Ready", f"{service.ready}/{service.size}"),
        ("Shared with you", "yes" if service.shared else "no"),
        ("Endpoints", "\n".join(_line(each) for each in service.endpoints)),
    ]


def _scaling(service: ServiceLookup, context: Context) -> list[tuple[str, str]]:
    """Of allocations that follow their load and that the user may see."""
    from lattice.cli.views.services import scaling_text
    from lattice_sdk.errors import ApiError

    shown = []
    for each in service.allocations[:MAX_SCALED] if context.flags.output is None else ():
        try:
            found = context.client.get_allocation(each).service
        except ApiError:
            continue
        if found is not UNSET and found.scaling is not None:
            shown.append(("Scaling", f"{each}: {scaling_text(found.scaling)}"))
    return shown


def _line(endpoint: Endpoint) -> str:
    place = f"{endpoint.node}:{endpoint.port}" if endpoint.port else f"{endpoint.node}, port not known yet"
    return f"{place} of {endpoint.id} {'ready' if endpoint.ready else 'not ready'}"


LIST = Command(lists=True, options=Options, fill=fill_list, run=run_list, examples=("lattice service list",))
LOOKUP = Command(
    options=Options,
    fill=fill_lookup,
    run=run_lookup,
    examples=("lattice service lookup web", "lattice service lookup web --ready --wait"),
)
SHOW = Command(options=Options, fill=fill_show, run=run_show, examples=("lattice service show web",))
OPEN = Command(options=Options, fill=fill_open, run=run_open, examples=("lattice service open web --path=/docs",))
