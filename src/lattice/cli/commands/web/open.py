"""`lattice web`: the web page of the cluster in a browser, logged in."""

import argparse
from dataclasses import dataclass
from urllib.parse import quote

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, CommandError, UsageError
from lattice.cli.output import structured


@dataclass(frozen=True, kw_only=True)
class Options:
    path: str = ""
    no_browser: bool = False


def fill(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Prints a URL that opens the cluster's web page, logged in as you, and opens it in a browser where there is one. "
        "It is good once and for a minute; the browser then stays logged in for as long as your token is valid, "
        "at most 12 hours."
    )
    add = parser.add_argument
    add("path", nargs="?", default="", metavar="VIEW", help="what to show first: allocations/a17, nodes, timeline, ...")
    add("--no-browser", action="store_true", help="only print the URL")


def run(options: Options, context: Context) -> int:
    view = options.path.lstrip("/")
    if not view.isprintable() or view.startswith(("\\", "/")):
        raise UsageError(f'"{options.path}" is not a view', hint="for example nodes or allocations/a17")
    base = _page_address(context)
    link = context.client.make_web_link()
    path, _, ticket = link.path.partition("#")
    to = f"?to={quote('/' + view, safe='/')}" if view else ""
    url = f"{base}{path}{to}#{ticket}"
    if structured(context, {"url": url, "expires_in_s": link.expires_in_s}):
        return OK
    if not options.no_browser and context.streams.is_interactive:
        _open(url)
    context.streams.write(f"{url}\n")
    return OK


def _page_address(context: Context) -> str:
    addresses = [text.strip().rstrip("/") for text in context.settings.place().api_url.split(",")]
    for address in addresses:
        if address.startswith(("http://", "https://")):
            return address
        if address and ":" in address and not address.startswith("unix:"):
            return f"http://{address}"
    raise CommandError("a browser cannot reach this cluster by a Unix socket", hint="give --api-url http://HOST:PORT")


def _open(url: str) -> None:
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return
    # A browser inside the terminal would take it over, and cannot run the page.
    if not isinstance(browser, webbrowser.GenericBrowser):
        browser.open(url)


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice web", "lattice web allocations/a17", "lattice web --no-browser"),
)
