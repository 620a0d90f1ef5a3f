"""Dependencies as people write them: `a1:success,a2?a3:any`, or a list of records with the same meaning.

A comma joins what must all hold, a question mark what may hold instead; a condition that is not given is success.
"""

from msgspec import Struct

from lattice.core.model.units import BadUnit, parse_duration_s
from lattice.core.model.work.dependencies import Clauses, Condition, Dependency
from lattice.wire.bounds import Short
from lattice.wire.text.problems import BadField

MAX_DEPENDENCIES = 1000
CONDITIONS = {str(each): each for each in Condition if each is not Condition.MUTEX}
_HINT = "ID[:CONDITION], joined by `,` (all of them) or `?` (any of them), such as a1:success,a2?a3:any"


class AlternativeFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ref: str
    condition: Short = "success"
    delay: Short | int | None = None  # with `after`: delay after the start


class DependencyFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One dependency, or with `any_of` several of which one suffices."""

    ref: str = ""
    condition: Short = "success"
    delay: Short | int | None = None
    any_of: list[AlternativeFields] = []


class UnresolvedDependency(Struct, frozen=True):
    """One alternative before anybody has looked up what `ref` stands for."""

    ref: str
    condition: Condition = Condition.SUCCESS
    delay_s: int = 0


UnresolvedClauses = tuple[tuple[UnresolvedDependency, ...], ...]


def read_dependencies(
    written: str | list[DependencyFields], field: str = "depends_on", *, is_catching: bool = False
) -> UnresolvedClauses:
    """The clauses of a text or a list. Raises BadField.

    With `is_catching` the failures that a list names are alternatives: one of them is enough.
    """
    clauses = _read_text(written, field) if isinstance(written, str) else _read_list(written, field, is_catching)
    count = sum(len(clause) for clause in clauses)
    if count > MAX_DEPENDENCIES:
        raise BadField(field, "too many dependencies", current=f"{count}", limit=f"{MAX_DEPENDENCIES}")
    return tuple(dict.fromkeys(clauses))


def _read_list(written: list[DependencyFields], field: str, is_catching: bool) -> UnresolvedClauses:
    clauses: list[tuple[UnresolvedDependency, ...]] = []
    failures: list[UnresolvedDependency] = []
    for place, each in enumerate(written):
        clause = _read_record(each, f"{field}[{place}]")
        if is_catching and each.ref and clause[0].condition is Condition.FAILURE:
            failures += clause
        else:
            clauses.append(clause)
    return (*clauses, tuple(dict.fromkeys(failures))) if failures else tuple(clauses)


def _read_text(text: str, field: str) -> UnresolvedClauses:
    if not text.strip():
        return ()
    named = text.count(",") + text.count("?") + 1
    if named > MAX_DEPENDENCIES:
        raise BadField(field, "too many dependencies", current=f"{named}", limit=f"{MAX_DEPENDENCIES}")
    return tuple([_read_clause(clause, field) for clause in text.split(",")])


def _read_clause(text: str, field: str) -> tuple[UnresolvedDependency, ...]:
    words = text.split("?")
    if len(words) == 1:
        return (_read_word(text.strip(), field),)
    return tuple(dict.fromkeys(_read_word(word.strip(), field) for word in words))


def _read_word(word: str, field: str) -> UnresolvedDependency:
    ref, _, rest = word.partition(":")
    condition, plus, delay = rest.partition("+")
    if not ref or (word.endswith(":") and not rest):
        raise BadField(field, f'"{word[:60]}" names no allocation', hint=_HINT)
    return _wanted(ref, condition or "success", delay if plus else None, field)


def _read_record(record: DependencyFields, field: str) -> tuple[UnresolvedDependency, ...]:
    if bool(record.ref) == bool(record.any_of):
        raise BadField(field, 'give either "ref" or "any_of"')
    if record.ref:
        return (_wanted(record.ref, record.condition, record.delay, field),)
    found = (
        _wanted(each.ref, each.condition, each.delay, f"{field}.any_of[{place}]")
        for place, each in enumerate(record.any_of)
    )
    return tuple(dict.fromkeys(found))


def _wanted(ref: str, condition: str, delay: str | int | None, field: str) -> UnresolvedDependency:
    found = CONDITIONS.get(condition.lower())
    if found is None:
        raise BadField(
            field, f'"{condition[:40]}" is not a condition of a dependency', hint=f"one of {', '.join(CONDITIONS)}"
        )
    return UnresolvedDependency(ref, found, _delay_s(delay, found, field))


def _delay_s(delay: str | int | None, condition: Condition, field: str) -> int:
    if delay is None:
        return 0
    if condition is not Condition.AFTER:
        raise BadField(field, f"a delay belongs to the condition after, not to {condition}")
    try:
        return parse_duration_s(str(delay))
    except BadUnit as error:
        raise BadField(field, str(error)) from None


def dependencies_text(clauses: Clauses, names: dict[int, str] | None = None) -> str:
    """The clauses as they could have been written; members of a DAG by their names where these are given."""
    known = names or {}
    return ",".join(["?".join([_word(each, known) for each in clause]) for clause in clauses])


def _word(dependency: Dependency, names: dict[int, str]) -> str:
    label = names.get(dependency.number) or dependency.label
    delay = f"+{dependency.delay_s}s" if dependency.delay_s else ""
    return f"{label}:{dependency.condition}{delay}"
