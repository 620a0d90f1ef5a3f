"""Applications in a browser: a recipe of the user's own, from `lattice app run` to an answer, left and come back to."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, build_opener, urlopen

import pytest

from lattice.testing import LocalCluster

pytestmark = pytest.mark.e2e
# Answers with its token, as Jupyter would ask for it.
SERVER = """
import http.server, os
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path.endswith(os.environ["LATTICE_APP_TOKEN"]) else 403)
        self.end_headers()
        self.wfile.write(b"hello from " + os.environ["LATTICE_ALLOC_ID"].encode())
    def log_message(self, *words):
        pass
http.server.HTTPServer(("127.0.0.1", int(os.environ["LATTICE_APP_PORT"])), Page).serve_forever()
"""


@pytest.fixture
def recipes(tmp_path: Path) -> Path:
    folder = tmp_path / "lattice" / "apps"
    folder.mkdir(parents=True)
    program = tmp_path / "page.py"
    program.write_text(SERVER)
    tmp_path.chmod(0o755)
    (folder / "page.yaml").write_text(
        f"help: a page\nprograms: [sh]\ncommand: exec {sys.executable} {program}\npath: /?token={{token}}\n"
    )
    (folder / "absent.yaml").write_text(
        "programs: [no-such-program]\ncommand: exec no-such-program\ninstall: use another image\n"
    )
    return tmp_path


@contextlib.contextmanager
def app(cluster: LocalCluster, recipes: Path, *words: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """A running `lattice app run`, and the URL that it prints."""
    program = Path(sys.executable).with_name("lattice")
    environment = {**cluster.environment(), "XDG_CONFIG_HOME": str(recipes)}
    with subprocess.Popen(
        [program, "app", "run", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


def test_an_application_is_started_left_and_come_back_to(cluster: LocalCluster, recipes: Path) -> None:
    with app(cluster, recipes, "page") as (url, process):
        assert url, process.communicate()[1]
        with urlopen(url) as answer:  # noqa: S310 - http, of this machine
            first = answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert "keeps running" in process.stderr.read()
    with app(cluster, recipes, "page") as (again, _), urlopen(again) as answer:  # noqa: S310 - http, of this machine
        assert answer.read() == first
    # The token is nowhere but in that URL.
    alloc, token = first.rpartition(b" ")[2].decode(), url.rpartition("=")[2]
    # The gateway leads there as well: a ticket once, then a cookie.
    page = cluster.cli("open", alloc, f"--path=/?token={token}").stdout.strip()
    browser = build_opener(HTTPCookieProcessor())
    with browser.open(page) as answer:
        assert answer.read() == first
        again = answer.url
    assert "ticket" not in again
    with browser.open(again) as answer:
        assert answer.read() == first
    for wrong, status in ((page, 403), (again, 401)):
        with pytest.raises(HTTPError) as refused:
            urlopen(wrong)  # noqa: S310 - http, of this machine
        with refused.value:
            assert refused.value.code == status
    assert len(token) == 48
    for told in (cluster.cli("logs", alloc).stdout, cluster.cli("status", alloc, "-o", "json").stdout):
        assert token not in told


def test_an_application_that_is_not_installed_says_what_to_do(cluster: LocalCluster, recipes: Path) -> None:
    with app(cluster, recipes, "absent") as (url, process):
        assert (url, process.wait(60)) == ("", 1)
        assert process.stderr is not None
        told = process.stderr.read()
        assert "found no no-such-program in its environment" in told
        assert "hint: use another image" in told
    done = cluster.cli("app", "run", "nonsense", check=False)
    assert (done.returncode, 'no application "nonsense"' in done.stderr) == (2, True), done
