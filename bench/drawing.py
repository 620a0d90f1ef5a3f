"""How soon the web page shows its first rows, what it transfers, and how it draws much at once."""

import json
import time
from statistics import median

from playwright.sync_api import Page, Route

from bench.cluster import client_of, start_cluster
from lattice_sdk import Submission
from tests.e2e.chromium import Person, chromium

QUEUED, NODES, BARS = 10_000, 10_000, 2_000
TIMES = 5
HOUR_S = 3600

# Draws one frame after the other while the list is scrolled from its top; the answer is frames in a second.
_SCROLLED = """async () => {
  const box = document.querySelector('.rows-scroll');
  const begun = performance.now();
  let frames = 0;
  while (performance.now() - begun < 2000) {
    box.scrollTop += 120;
    await new Promise(requestAnimationFrame);
    frames += 1;
  }
  if (box.scrollTop < frames * 60) throw new Error(`it was scrolled by ${box.scrollTop} pixels in ${frames} frames`);
  return frames / ((performance.now() - begun) / 1000);
}"""
_DRAWN = """async () => {
  while (!document.querySelector('.gantt canvas') || !document.querySelector('.heading').textContent.match(/2.000 alloc/))
    await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  const answered = performance.getEntriesByType('resource').filter((each) => each.name.includes('/timeline?')).at(-1);
  return performance.now() - answered.responseEnd;
}"""


def page_drawing() -> dict[str, float]:
    """A browser whose cache is empty opens the list of 10,000 allocations, scrolls it, and shows a timeline."""
    with start_cluster(nodes=1) as cluster, chromium() as browser:
        with client_of(cluster) as client:
            requests = [Submission(entrypoint=["sleep", "600"], name=f"work-{count}") for count in range(QUEUED)]
            for start in range(0, QUEUED, 500):
                client.submit_batch(requests[start : start + 500])
        person = Person(browser, cluster).log_in()
        loads = [_loaded(person) for _ in range(TIMES)]
        fps = person.page.evaluate(_SCROLLED)
        person.page.route("**/api/v1/timeline**", _many)
        drawn = []
        for _ in range(TIMES):
            person.page.goto(f"{cluster.api_url}/timeline")
            drawn.append(person.page.evaluate(_DRAWN))
    return {
        "page_load_s": median(taken for taken, _ in loads),
        "page_load_kb": max(size for _, size in loads),
        "page_scroll_fps": fps,
        "page_timeline_ms": median(drawn),
    }


def _loaded(person: Person) -> tuple[float, float]:
    """Seconds until the newest row is there, and kB transferred until then."""
    page: Page = person.page
    wire = person.context.new_cdp_session(page)
    wire.send("Network.enable")
    wire.send("Network.clearBrowserCache")
    sizes: list[float] = []
    wire.on("Network.loadingFinished", lambda told: sizes.append(told["encodedDataLength"]))
    begun = time.perf_counter()
    page.goto(f"{person.cluster.api_url}/allocations", wait_until="commit")
    page.get_by_text(f"work-{QUEUED - 1}", exact=True).wait_for()
    taken = time.perf_counter() - begun
    page.wait_for_load_state("load")
    wire.detach()
    return taken, sum(sizes) / 1000


def _many(route: Route) -> None:
    """As the API answers, of a cluster that a browser cannot tell from a real one."""
    now = time.time()

    def text(moment: float) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))

    bars = [
        {
            "id": f"a{number}",
            "name": "work",
            "user": "ada",
            "own": number % 5 == 0,
            "kind": "running",
            "state": "Running",
            "group_id": None,
            "start": text(now - HOUR_S),
            "end": text(now + HOUR_S),
            "nodes": f"n[{number * 5 + 1}-{number * 5 + 5}]",
            "tasks": None,
            "failed": None,
        }
        for number in range(BARS)
    ]
    nodes = [{"name": f"n{number + 1}", "state": "Ready"} for number in range(NODES)]
    whole = {"now": text(now), "since": text(now - 6 * HOUR_S), "until": text(now + 6 * HOUR_S), "left_out": 0}
    answer = {**whole, "nodes": nodes, "bars": bars, "reservations": []}
    route.fulfill(status=200, content_type="application/json", body=json.dumps(answer))
