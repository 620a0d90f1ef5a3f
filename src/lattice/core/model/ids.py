"""Names of things: an allocation's number and the id derived from it. See docs/architecture/core.md."""

MAX_NUMBER = 2**53 - 1  # still exact in JSON readers that know only doubles


def allocation_id(number: int) -> str:
    """The id shown to people: a letter, then the number."""
    return f"a{number}"


def dag_id(number: int) -> str:
    """The id of a DAG. DAGs have their numbers from the same sequence as allocations."""
    return f"d{number}"


def parse_dag_id(text: str) -> int | None:
    """The number behind `d17`, `dag-17` or `17`; None when it is none of these."""
    digits = text[4:] if text.startswith("dag-") else text[1:] if text[:1] == "d" else text
    return None if digits[:1] == "a" else parse_allocation_id(digits)


def parse_allocation_id(text: str) -> int | None:
    """The number behind an id or a plain number; None when it is neither."""
    digits = text[1:] if text[:1] == "a" else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 16:
        return None
    number = int(digits)
    return number if 0 < number <= MAX_NUMBER else None


def parse_task_id(text: str) -> tuple[int, int] | None:
    """Group number and task index of `a17_3` or `17_3`; None when it is not of that form."""
    head, separator, tail = text.partition("_")
    if not separator or not tail.isascii() or not tail.isdigit() or len(tail) > 9:
        return None
    number = parse_allocation_id(head)
    return None if number is None else (number, int(tail))
