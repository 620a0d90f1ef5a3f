"""`lattice login`: a token from the cluster's identity provider, kept for all later commands."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, CommandError, UsageError
from lattice.cli.output import structured
from lattice_sdk.client import Client
from lattice_sdk.login import FLOWS, PORT, Person, discover, log_in
from lattice_sdk.retry import RetryPolicy


@dataclass(frozen=True, kw_only=True)
class Options:
    flow: str = ""
    server: str = ""
    port: int = PORT


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--flow",
        choices=FLOWS,
        help="browser: open a page on this machine; device: show a code; manual: paste a URL (default: auto)",
    )
    parser.add_argument(
        "--server", metavar="HOST", help="cluster to log in to, as in --api-url; a bare name means https"
    )
    parser.add_argument(
        "--port", type=int, metavar="N", help=f"local port the browser is redirected to (default: {PORT})"
    )


def run(options: Options, context: Context) -> int:
    address = server_address(options.server) or context.settings.address()
    ca_file, insecure = context.settings.ca_file, context.settings.insecure_http
    policy = RetryPolicy(retry_for_s=context.retry_for_s(), note=context.note)
    try:
        discovery = discover(address, ca_file=ca_file, policy=policy, insecure_http=insecure)
    except ValueError as error:
        raise UsageError(str(error)) from None
    login = log_in(discovery, _person(context), flow=options.flow, ca_file=ca_file, port=options.port)
    with Client(address, token=login.token, ca_file=ca_file or None, policy=policy, insecure_http=insecure) as client:
        who = client.whoami()  # before anything is kept: a token that the cluster refuses is of no use
    context.settings.logins(context.warn).keep(address, login)
    if context.output in {"json", "yaml"}:
        structured(
            context, {"server": address, "user": who.user, "roles": list(who.roles), "expires_at": who.expires_at}
        )
    else:
        context.say(f"Logged in to {address} as {who.user}")
    return OK


def server_address(server: str) -> str:
    """The address behind a host's name."""
    return server if not server or "://" in server or ":" in server else f"https://{server}"


def _person(context: Context) -> Person:
    def ask(question: str) -> str:
        context.streams.complain(question)
        line = context.streams.stdin.readline().decode("utf-8", "replace")
        if not line:
            raise CommandError("nothing was pasted")
        return line

    def open_page(url: str) -> bool:
        import webbrowser

        return webbrowser.open(url)

    def show(text: str) -> None:
        context.streams.complain(f"{text}\n")

    return Person(show=show, ask=ask, open_page=open_page, warn=context.warn)


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice login", "lattice login --flow device", "lattice login --server cluster.example.com"),
)
