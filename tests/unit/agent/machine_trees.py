"""Files of a kernel from a list of them: `path = text`, `path -> what the link says`."""

from pathlib import Path

from lattice.agent.discovery.tree import Tree

MACHINES = Path(__file__).parent / "machines"


def grow(name: str, root: Path) -> Tree:
    """The machine of this name under the root."""
    for line in (MACHINES / f"{name}.txt").read_text().splitlines():
        before_link, arrow, target = line.partition(" -> ")
        path, equals, text = line.partition(" = ")
        if arrow and not (equals and len(path) < len(before_link)):
            place = root / before_link
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(target)
        else:
            place = root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text.replace("\\n", "\n"))
    return Tree(root)
