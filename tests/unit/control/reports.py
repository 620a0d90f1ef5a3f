"""What nodes said of their configurations, without any nodes."""

from collections.abc import Mapping

from lattice.core.model.nodes.conformance import fingerprint


class Reports:
    """What the nodes said of themselves."""

    def __init__(self) -> None:
        self.parts: dict[str, dict[str, str]] = {}
        self.asked: list[str] = []
        self.unreachable: set[str] = set()
        self._found: Mapping[str, str] = {}

    def say(self, node: str, parts: dict[str, str]) -> None:
        self.parts[node] = parts
        self._found = {name: fingerprint(each) for name, each in self.parts.items()}

    def forget(self, node: str) -> None:
        del self.parts[node]
        self._found = {name: fingerprint(each) for name, each in self.parts.items()}

    def fingerprints(self) -> Mapping[str, str]:
        return self._found

    def components(self, node: str) -> Mapping[str, str]:
        return self.parts.get(node, {})

    def refresh(self, node: str) -> bool:
        self.asked.append(node)
        return node not in self.unreachable
