"""Dependencies as people write them."""

import pytest

from lattice.core.model.work.dependencies import Condition, Dependency
from lattice.wire.text.problems import BadField
from lattice.wire.work.dependencies import (
    AlternativeFields,
    DependencyFields,
    UnresolvedDependency,
    dependencies_text,
    read_dependencies,
)

S, F, ANY, AFTER = Condition.SUCCESS, Condition.FAILURE, Condition.ANY, Condition.AFTER


def test_a_text_has_clauses_and_alternatives() -> None:
    assert read_dependencies("") == ()
    assert read_dependencies(" a1:success , a2?a3:any ") == (
        (UnresolvedDependency("a1", S),),
        (UnresolvedDependency("a2", S), UnresolvedDependency("a3", ANY)),
    )
    assert read_dependencies("17:AFTER+2m,a1,a1") == (
        (UnresolvedDependency("17", AFTER, 120),),
        (UnresolvedDependency("a1", S),),
    )


def test_a_list_says_the_same() -> None:
    either = DependencyFields(any_of=[AlternativeFields(ref="b"), AlternativeFields(ref="c", condition="any")])
    assert read_dependencies([DependencyFields(ref="a"), either]) == (
        (UnresolvedDependency("a", S),),
        (UnresolvedDependency("b", S), UnresolvedDependency("c", ANY)),
    )


def test_failures_of_a_member_are_alternatives() -> None:
    written = [DependencyFields(ref=ref, condition=c) for ref, c in (("a", "failure"), ("b", "any"), ("c", "failure"))]
    assert read_dependencies(written, is_catching=True) == (
        (UnresolvedDependency("b", ANY),),
        (UnresolvedDependency("a", F), UnresolvedDependency("c", F)),
    )
    assert len(read_dependencies(written)) == 3


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (":any", "names no allocation"),
        ("a1:", "names no allocation"),
        ("a1,,a2", "names no allocation"),
        ("a1:afterok", '"afterok" is not a condition'),
        ("a1:mutex", '"mutex" is not a condition'),
        ("a1:any+5m", "a delay belongs to the condition after"),
        ("a1:after+soon", "depends_on"),
        ("a1:after+9999999h", "must lie between"),
        ([DependencyFields()], 'either "ref" or "any_of"'),
        (",".join(f"a{number}" for number in range(1, 1002)), "too many dependencies"),
    ],
)
def test_what_cannot_be_read_is_refused(written: str | list[DependencyFields], said: str) -> None:
    with pytest.raises(BadField, match="depends_on") as refused:
        read_dependencies(written)
    assert said in str(refused.value)


def test_clauses_are_shown_as_they_could_have_been_written() -> None:
    clauses = (
        (Dependency(number=1),),
        (Dependency(number=2, condition=AFTER, delay_s=60), Dependency(number=3, condition=ANY)),
    )
    assert dependencies_text(clauses) == "a1:success,a2:after+60s?a3:any"
    assert dependencies_text(clauses, {1: "prepare"}).startswith("prepare:success,")
