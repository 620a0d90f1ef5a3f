"""Debian's chromium, driven as a person would use it, and what it must not do meanwhile."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from lattice.testing import LocalCluster
from lattice.web.files import is_installed
from tests.conftest import missing, require_program

AXE = Path(__file__).resolve().parents[2] / ".cache/web/axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
WIDE, NARROW = 1440, 400
Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
# Answers that a test provokes are written to the console by the browser, too.
_EXPECTED = (
    "status of 400",
    "status of 401",
    "status of 404",
    "status of 503",
    "ERR_CONNECTION",
    "ERR_EMPTY",
    "ERR_INCOMPLETE",
    "ERR_NETWORK",
    "ERR_SOCKET",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    if not is_installed():
        missing("the libraries of the web page (make web)")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=require_program("chromium"), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Person:
    """One person at one browser window. `complaints` are errors of the page, `hosts` all that it talked to."""

    def __init__(self, browser: Browser, cluster: LocalCluster, *, width: int = WIDE, theme: Theme = "light") -> None:
        self.cluster = cluster
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        self.context.set_default_timeout(30_000)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._note)
        self.page.on("dialog", lambda dialog: self.complaints.append(f"a dialog: {dialog.message}"))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not any(each in message.text for each in _EXPECTED):
            self.complaints.append(message.text)

    def _note(self, request: Request) -> None:
        if not request.url.startswith(("data:", "blob:")):
            self.hosts.add(urlsplit(request.url).netloc)

    def link(self, *words: str) -> str:
        return self.cluster.cli(*words, "web", "--no-browser").stdout.strip()

    def log_in(self, *words: str) -> "Person":
        """By a link of `lattice web`; words such as --as name another user."""
        self.page.goto(self.link(*words))
        self.page.wait_for_selector(".frame")
        return self

    def open(self, view: str) -> Page:
        self.page.goto(f"{self.cluster.api_url}/{view}")
        self.page.wait_for_selector("main:not([aria-busy])")
        return self.page

    def follow(self, view: str) -> Page:
        """As a link inside the page does: without loading it again."""
        self.page.evaluate(
            "(to) => { history.pushState(null, '', to); dispatchEvent(new PopStateEvent('popstate')); }", f"/{view}"
        )
        self.page.wait_for_selector("main:not([aria-busy])")
        return self.page

    def keep_answers(self) -> None:
        """From the next page on, `answers` knows what the API answered to it."""
        self.page.add_init_script(
            """window.answers = []; const ask = window.fetch; window.fetch = async (...given) => {
              const answer = await ask(...given);
              if (answer.headers.get("content-type")?.startsWith("application/json"))
                answer.clone().text().then((text) => window.answers.push([answer.url, text]), () => {});
              return answer;
            };"""
        )

    def answers(self) -> list[tuple[str, str]]:
        """Addresses and answers, streams left out."""
        found: list[tuple[str, str]] = self.page.evaluate("window.answers")
        return found

    def barriers(self) -> list[str]:
        """What axe-core finds serious or critical on the page as it is now."""
        if not AXE.exists():
            missing("axe-core (tools/web.py --tests)")
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text())
        options = json.dumps({"runOnly": {"type": "tag", "values": RULES}})
        found: list[dict[str, Any]] = self.page.evaluate(
            f"axe.run(document, {options}).then((found) => found.violations)"
        )
        return [
            f"{each['id']}: {each['help']} ({node['html'][:120]})"
            for each in found
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"][:3]
        ]

    def close(self) -> None:
        self.context.close()
