"""What a command said, and the list of keys: text that does not change."""

from lattice.cli.tui.lines import BAD, Line, line, printable_lines, wrapped
from lattice.cli.tui.views.view import PageView
from lattice_sdk.client import Client

KEYS = """\
1 to 7             the views: allocations, timeline, nodes, DAGs, services, usage, admin
up down j k        move       page up, page down, g, G: by pages, to the ends
Enter              open what the cursor is at         q Esc   back
/                  filter; in an output: find         :       a view, an id, or any command of lattice
< >                sort by the column to the left, right       S   the other way round
right left + -     unfold and fold a task group; in the timeline + and - zoom
Space              the output of what the cursor is at, below the list
m                  mark; x, h, u, r, d then act on all that are marked
Ctrl+L             draw the screen again              Q       leave

of allocations     l output   t terminal   x cancel   h hold   u release   r requeue   a submit again
of an output       f follow   n next match   e stdout, stderr   tab node by node   w wrap
of nodes           d drain    u undrain
of services        o address for a browser
of the timeline    [ ] earlier, later   o only yours
of administration  tab next part

filter             state:failed user:ada node:n[1-4] since:2h tag:x=y, a name or an id; `all` shows what has ended,
                   `tasks` every task. Of nodes: state:down vcluster:hpc group:3 n[1-4]
commands           :nodes   :a17   :submit -- sleep 60   :drain n1 fan is loud   :logs a17   :help submit
"""


class Said(PageView[None]):
    every_s = 3600.0
    keys = "Esc back"

    def __init__(self, heading: str, text: str, code: int = 0) -> None:
        super().__init__(heading)
        self.text, self.code = text, code
        self.is_read = True

    def remark(self) -> str:
        return f"exit code {self.code}" if self.code else ""

    def read(self, client: Client) -> None:
        """It is known."""

    def take(self, answer: None) -> None:
        """It is known."""

    def compose(self, width: int) -> list[Line]:
        if not self.code:
            return [each for part in printable_lines(self.text) for each in (wrapped(part, width) or [line("")])]
        return wrapped(self.text, width, BAD)


def keys_page() -> Said:
    return Said("Keys", KEYS)
