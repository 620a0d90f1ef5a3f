"""The same request through the client library: any configuration file, TLS, logins."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from lattice.cli.config import load_settings
from lattice.cli.errors import CommandError
from lattice.cli.flags import Flags
from lattice.cli.slurm.exchange import PATIENCE_S, Unreachable
from lattice.cli.slurm.place import Place
from lattice_sdk.client import Client
from lattice_sdk.errors import LatticeError
from lattice_sdk.transport import parse_endpoints

ANSWER_TIMEOUT_S = 120.0


def connect(variables: Mapping[str, str]) -> Client:
    """Raises Unreachable with the message that `lattice` would print."""
    try:
        settings = load_settings(Flags(), variables, lambda text: None)
        place = settings.place()
        return Client(
            place.api_url,
            token=place.token,
            token_file=place.token_file,
            tenant=settings.tenant,
            retry_for=PATIENCE_S,
            timeout=ANSWER_TIMEOUT_S,
            ca_file=settings.ca_file or None,
            insecure_http=settings.insecure_http,
        )
    except (CommandError, ValueError) as error:
        raise Unreachable(str(error)) from None


def place_of(variables: Mapping[str, str]) -> Place:
    """The same place, for connections that the caller opens. Raises Unreachable."""
    try:
        settings = load_settings(Flags(), variables, lambda text: None)
        place = settings.place()
        token = place.token or (Path(place.token_file).read_text().strip() if place.token_file else "")
    except (CommandError, ValueError, OSError) as error:
        raise Unreachable(str(error)) from None
    addresses = tuple(text.strip().rstrip("/") for text in place.api_url.split(",") if text.strip())
    try:
        parse_endpoints(addresses, insecure_http=settings.insecure_http)
    except ValueError as error:
        raise Unreachable(str(error)) from None
    return Place(addresses, token, settings.tenant, settings.ca_file or "")


def ask_slowly(client: Client, body: bytes) -> dict[str, Any]:
    """The answer. Raises Unreachable."""
    fields = msgspec.json.decode(body)
    try:
        answer = client.slurm_command(fields.pop("program"), fields.pop("argv"), **fields)
    except LatticeError as error:
        raise Unreachable(str(error)) from None
    found: dict[str, Any] = msgspec.to_builtins(answer)
    return found
