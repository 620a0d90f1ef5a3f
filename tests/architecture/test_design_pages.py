"""Every module of the core names the page that explains its design, so that a reader of the code finds the reasons."""

import ast
import re

from tests.architecture.tree import ROOT, parsed, python_under, shown

CORE = ROOT / "src" / "lattice" / "core"
PAGE = re.compile(r"docs/architecture/[\w-]+\.md")


def test_every_core_module_cites_a_design_page_that_exists() -> None:
    wrong = []
    for path in python_under(CORE):
        if not path.read_text(encoding="utf-8").strip():
            continue
        cited = PAGE.findall(ast.get_docstring(parsed(path)) or "")
        if not cited or not all((ROOT / page).is_file() for page in cited):
            wrong.append(shown(path))
    assert not wrong, "\n".join(["say in the docstring: See docs/architecture/PAGE.md", *wrong])
