"""Views as a whole: their story tells the environment, and their order is the declared one."""

from hypothesis import given
from hypothesis import strategies as st

from lattice.images.metadata import Patch, View
from lattice.images.patches import apply_views

NAMES = st.sampled_from(["PATH", "LD_LIBRARY_PATH", "A", "B"])
VALUES = st.sampled_from(["", "/a", "/b/c", "${@A@}", "x${@PATH@}y"])
LISTS = st.builds(
    lambda name, operation, values: Patch(name, operation, tuple(values), is_list=True),
    NAMES,
    st.sampled_from(["set", "append", "prepend", "unset"]),
    st.lists(VALUES, max_size=3),
)
SCALARS = st.builds(lambda name, value: Patch(name, "set", (value,)), NAMES, VALUES) | st.builds(
    lambda name: Patch(name, "unset"), NAMES
)
VIEWS = st.lists(st.lists(LISTS | SCALARS, max_size=6).map(lambda patches: View("v", "", tuple(patches))), max_size=4)
ENVIRONMENTS = st.dictionaries(NAMES, st.sampled_from(["", "/usr/bin", "1"]))


def named(views: list[View]) -> list[tuple[str, View]]:
    return [(f"image:{place}", view) for place, view in enumerate(views)]


@given(ENVIRONMENTS, VIEWS)
def test_last_change_of_a_variable_is_its_value(environment: dict[str, str], views: list[View]) -> None:
    after, changes = apply_views(environment, named(views))
    told: dict[str, str | None] = dict(environment)
    for change in changes:
        told[change.variable] = change.value
    assert after == {name: value for name, value in told.items() if value is not None}
    assert len(changes) == sum(len(view.patches) for view in views)


@given(ENVIRONMENTS, VIEWS, st.integers(0, 4))
def test_views_in_two_parts_do_what_they_do_together(environment: dict[str, str], views: list[View], cut: int) -> None:
    together, _ = apply_views(environment, named(views))
    first, _ = apply_views(environment, named(views[:cut]))
    assert apply_views(first, named(views[cut:]))[0] == together
