"""What open web pages cost a server, and how soon a change of state is on one of them."""

import asyncio
import json
import time
from datetime import datetime
from urllib.parse import urlsplit

from playwright.sync_api import sync_playwright

from bench.cluster import client_of, cpu_seconds, percentile, start_cluster, wait_until
from lattice.testing import LocalCluster
from lattice_sdk import Submission
from tests.conftest import require_program
from tests.e2e.chromium import Person

PAGES = 100
WATCHED_S = 20.0
CHANGED_EVERY_S = 5.0
# As page/list.js: after a change the newest rows are read again, at most this often, and the whole first page some time later.
AGAIN_S, WHOLE_S = 1.0, 15.0
ROWS = 40


def page_cost() -> dict[str, float]:
    """100 pages that show the list, in a cluster in which an allocation is submitted, runs and ends every 5 s.

    They are played by one process that sends what a page sends: a hundred browsers would take the cores from the server.
    """
    with start_cluster(nodes=2) as cluster, client_of(cluster) as client:
        for _ in range(200):
            client.submit(Submission(entrypoint=["true"], hold=True))
        return {"pages_cpu_percent": asyncio.run(_played(cluster))}


async def _played(cluster: LocalCluster) -> float:
    pages = [asyncio.create_task(_page(cluster)) for _ in range(PAGES)]
    await asyncio.sleep(5)
    server = cluster.process("server")
    assert server is not None
    begun, used = time.monotonic(), cpu_seconds(server.pid)
    while time.monotonic() - begun < WATCHED_S:
        await asyncio.to_thread(cluster.submit, ["true"])
        await asyncio.sleep(CHANGED_EVERY_S)
    taken = (cpu_seconds(server.pid) - used) / (time.monotonic() - begun) * 100
    for page in pages:
        if page.done():
            page.result()
            raise AssertionError("a stream ended")
        page.cancel()
    return taken


async def _page(cluster: LocalCluster) -> None:
    """One stream of changes, and the two questions that follow a change."""
    place = urlsplit(cluster.api_url)
    head = f"Host: {place.netloc}\r\nAuthorization: Bearer {cluster.token}\r\n"
    stream, sending = await asyncio.open_connection(place.hostname, place.port)
    sending.write(f"GET /api/v1/events HTTP/1.1\r\n{head}\r\n".encode())
    reading: asyncio.Task[None] | None = None

    whole_at = time.monotonic() + WHOLE_S

    async def read_again() -> None:
        nonlocal whole_at
        await asyncio.sleep(AGAIN_S)
        # The server closes a connection that is idle between two changes, so that a browser opens another.
        answers, asking = await asyncio.open_connection(place.hostname, place.port)
        limit = 30
        if time.monotonic() >= whole_at:
            limit, whole_at = 200, time.monotonic() + WHOLE_S
        for path in (f"allocations?limit={limit}", "allocations/count"):
            asking.write(f"GET /api/v1/{path} HTTP/1.1\r\n{head}\r\n".encode())
            await _answer(answers)
        asking.close()

    while line := await stream.readline():
        is_change = line.startswith(b"data:") and b'"allocation"' in line
        if is_change and (reading is None or reading.done()):
            if reading is not None:
                reading.result()
            reading = asyncio.create_task(read_again())


async def _answer(answers: asyncio.StreamReader) -> None:
    head = await answers.readuntil(b"\r\n\r\n")
    if b" 200 " not in head.splitlines()[0]:
        raise AssertionError(head)
    length = next(int(line.split(b":")[1]) for line in head.splitlines() if line.lower().startswith(b"content-length:"))
    await answers.readexactly(length)


_WATCH = """() => {
  window.seen = {};
  new MutationObserver(() => {
    for (const row of document.querySelectorAll('[role=row]')) {
      const id = row.querySelector('a')?.textContent;
      if (id && row.textContent.includes('Running')) window.seen[id] ??= Date.now();
    }
  }).observe(document.querySelector('main'), { subtree: true, childList: true, characterData: true });
}"""


def page_latency() -> dict[str, float]:
    """From the moment that the log entry of a start carries to the moment at which its row on an open page says Running."""
    with start_cluster(nodes=2) as cluster, client_of(cluster) as client, sync_playwright() as driver:
        made = [client.submit(Submission(entrypoint=["sleep", "0.3"], hold=True)).id for _ in range(ROWS)]
        browser = driver.chromium.launch(executable_path=require_program("chromium"), args=["--no-sandbox"])
        person = Person(browser, cluster).log_in()
        page = person.page
        page.set_viewport_size({"width": 1440, "height": 40 * ROWS + 400})
        page.get_by_text(made[0], exact=True).wait_for()
        page.evaluate(_WATCH)
        for name in made:
            client.release(name)
            time.sleep(0.4)
        wait_until(lambda: all(client.status(name).is_terminal for name in made), 60, "all have run")
        page.wait_for_timeout(500)
        seen: dict[str, float] = json.loads(page.evaluate("JSON.stringify(window.seen)"))
        delays = []
        for name in made:
            started = client.status(name).started_at
            if name in seen and started is not None:
                delays.append(seen[name] - datetime.fromisoformat(started).timestamp() * 1000)
        browser.close()
    if len(delays) < ROWS * 0.9:
        raise AssertionError(f"only {len(delays)} of {ROWS} starts were seen")
    return {"page_change_p50_ms": percentile(delays, 0.5), "page_change_p99_ms": percentile(delays, 0.99)}
