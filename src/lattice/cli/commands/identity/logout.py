"""`lattice logout`: forgets the kept login, and asks the identity provider to revoke it."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.commands.identity.login import server_address
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.output import structured
from lattice_sdk.errors import LoginFailed
from lattice_sdk.provider import as_client, find_provider, revoke
from lattice_sdk.token_cache import Login


@dataclass(frozen=True, kw_only=True)
class Options:
    server: str = ""


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--server", metavar="HOST", help="cluster to log out of, as in --api-url")


def run(options: Options, context: Context) -> int:
    address = server_address(options.server) or context.settings.address()
    login = context.settings.logins(context.warn).forget(address)
    is_revoked = login is not None and _revoked(login, context)
    if context.output in {"json", "yaml"}:
        structured(context, {"server": address, "was_logged_in": login is not None, "revoked": is_revoked})
    elif login is None:
        context.say(f"Not logged in to {address}")
    else:
        context.say(f"Logged out from {address}")
    return OK


def _named(token: str, hint: str) -> dict[str, str]:
    return {"token": token, "token_type_hint": hint}


def _revoked(login: Login, context: Context) -> bool:
    """Best effort: the login is forgotten here whatever the provider says."""
    tokens = [(login.refresh_token, "refresh_token"), (login.token, "access_token")]
    try:
        provider = find_provider(login.issuer, login.ca_file)
        outcomes = [
            revoke(provider, as_client(_named(token, hint), login.client_id, login.client_secret), login.ca_file)
            for token, hint in tokens
            if token and not (hint == "access_token" and login.kind != hint)
        ]
    except LoginFailed as error:
        context.warn(f"the login is forgotten here, but was not revoked: {error}")
        return False
    if not all(outcomes):
        context.warn("the login is forgotten here; the identity provider did not revoke it, it ends by itself")
    return bool(outcomes) and all(outcomes)


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice logout", "lattice logout --server cluster.example.com"),
)
