"""What hollow nodes are called."""


def node_names(prefix: str, count: int) -> list[str]:
    """`hollow0001` and so on, all of one width."""
    width = max(4, len(str(count)))
    return [f"{prefix}{number:0{width}}" for number in range(1, count + 1)]
