"""Reads `--expose [NAME:]PORT[/tcp][,share=tenant|USER...]`."""

from lattice.cli.errors import UsageError
from lattice_sdk.models.runs import ExposedPort

MAX_PORT = 65_535
_HINT = "write [NAME:]PORT, as in 8080, web:8080 or web:0; add ,share=tenant or ,share=ada,bob for others of the tenant"


def parse_exposed(text: str) -> ExposedPort:
    """Raises UsageError; names are judged by the server."""
    first, *options = text.split(",")
    name, colon, place = first.rpartition(":")
    number, slash, protocol = place.partition("/")
    is_number = number.isascii() and number.isdigit() and len(number) < 6 and int(number) <= MAX_PORT
    if not is_number or (colon and not name) or (slash and not protocol):
        raise UsageError(f'--expose: "{first[:60]}" is not a port', hint=_HINT)
    return ExposedPort(name=name, port=int(number), protocol=protocol or "tcp", share=_share(options, text))


def exposed_text(port: ExposedPort) -> str:
    """The same as `--expose` takes it."""
    return f"{port.name}:{port.port}" + "".join(f",share={who}" for who in port.share)


def _share(options: list[str], text: str) -> list[str]:
    """Names behind share=; more of them may follow, each by a comma."""
    share: list[str] = []
    for option in options:
        key, equals, value = option.partition("=")
        who = value if equals else key
        if (equals and key != "share") or (not equals and not share) or not who:
            raise UsageError(f'--expose: cannot read "{option[:60]}" in "{text[:80]}"', hint=_HINT)
        share.append(who)
    return share
