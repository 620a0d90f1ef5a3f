"""What an image says of itself in `meta/env.json`: where it is mounted and what its views do to the environment.

The format is that of published images: `mount`, and for each view `env.values` with `list` (variables that hold paths: set, append,
prepend, unset) and `scalar` (null unsets, `${@VAR@}` stands for the value of a variable).
"""

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from lattice.images.references import BadReference, ViewReference, checked_mount
from lattice.images.squashfs import BadImage, ReadAt, SquashfsReader, is_plain_text

FILE = "meta/env.json"
MAX_PATCHES = 10_000
MAX_VALUE = 128 << 10

Operation = Literal["set", "append", "prepend", "unset"]
OPERATIONS = ("set", "append", "prepend", "unset")


class Patch(NamedTuple):
    """One change of one variable. `values` are paths of a list, or the one text of a scalar."""

    variable: str
    operation: Operation
    values: tuple[str, ...] = ()
    is_list: bool = False


class View(NamedTuple):
    name: str
    description: str = ""
    patches: tuple[Patch, ...] = ()


class ImageMetadata(NamedTuple):
    mount: str = ""
    name: str = ""
    description: str = ""
    views: Mapping[str, View] = {}


class ChosenView(NamedTuple):
    """A view of the image at this place of the list."""

    place: int
    view: View


def read_metadata(read_at: ReadAt) -> ImageMetadata | None:
    """What the image says of itself; None for one that says nothing. Raises BadImage."""
    content = SquashfsReader(read_at).read(FILE)
    return None if content is None else parse_metadata(content)


def parse_metadata(content: bytes) -> ImageMetadata:
    """Raises BadImage for what is not understood."""
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        raise BadImage(f"its {FILE} is not JSON") from None
    told = _object(told, FILE)
    mount = told.get("mount") or ""
    if not isinstance(mount, str):
        raise BadImage(f"its {FILE} names no mount point")
    try:
        mount = checked_mount(mount) if mount else ""
    except BadReference as problem:
        raise BadImage(f"it wants to be mounted where nothing may be: {problem}") from None
    views = {name: _view(name, value) for name, value in _object(told.get("views"), "views").items()}
    return ImageMetadata(mount, _text(told.get("name")), _text(told.get("description")), views)


def choose_views(
    wanted: Sequence[ViewReference], images: Sequence[tuple[str, ImageMetadata | None]]
) -> tuple[ChosenView | None, ...]:
    """The views in the order in which they were asked for. `images` are names with metadata, None where it is not known here; what
    may be a view of such an image is None. Raises BadReference."""
    return tuple(_choose(each, images) for each in wanted)


def _choose(wanted: ViewReference, images: Sequence[tuple[str, ImageMetadata | None]]) -> ChosenView | None:
    places = [place for place, (name, _) in enumerate(images) if not wanted.image or _is_called(wanted.image, name)]
    if not places:
        names = [name for name, _ in images]
        raise BadReference(f'view "{wanted}": unknown image "{wanted.image}"', near(wanted.image, names, "images"))
    found = []
    for place in places:
        metadata = images[place][1]
        if metadata is not None and wanted.view in metadata.views:
            found.append(ChosenView(place, metadata.views[wanted.view]))
    if len(found) > 1:
        several = ", ".join(images[each.place][0] for each in found)
        raise BadReference(f'view "{wanted.view}" is in several images: {several}', "write UENV:VIEW")
    if found:
        return found[0]
    if any(images[place][1] is None for place in places):
        return None
    known = [name for place in places for name in _views_of(images[place][1])]
    where = images[places[0]][0] if len(places) == 1 else "these images"
    raise BadReference(f'unknown view "{wanted.view}" of {where}', near(wanted.view, known, "views"))


def near(wanted: str, known: Iterable[str], what: str) -> str:
    """A hint with the names that may have been meant, else with those that there are."""
    names = list(dict.fromkeys(known))
    close = difflib.get_close_matches(wanted, names, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"{what}: {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}" if names else f"it has no {what}"


def _views_of(metadata: ImageMetadata | None) -> Iterable[str]:
    return () if metadata is None else metadata.views


def _is_called(wanted: str, label: str) -> bool:
    """Whether a person may mean this image: by its whole label, its name, or the name of its file."""
    if label.startswith("/"):
        return wanted == label.rsplit("/", 1)[-1].split(".")[0]
    return wanted in (label, label.split("/")[0], label.rsplit(":", 1)[0])


def _view(name: str, value: object) -> View:
    if not is_plain_text(name):
        raise BadImage(f"{name[:40]!a} is not the name of a view")
    told = _object(value, f"view {name}")
    env = _object(told.get("env"), f"env of view {name}")
    values = _object(env.get("values"), f"env.values of view {name}")
    patches: list[Patch] = []
    # In the order of the file: a scalar may speak of a list before it, and a list of a scalar.
    for kind, variables in values.items():
        if kind not in ("list", "scalar"):
            raise BadImage(f'view {name} has values of an unknown kind, "{kind[:40]}"')
        for variable, change in _object(variables, f"{kind} of view {name}").items():
            _check_name(variable, name)
            if kind == "list":
                patches += _list_patches(variable, change, name)
            else:
                patches.append(_scalar_patch(variable, change, name))
            if len(patches) > MAX_PATCHES:
                raise BadImage(f"view {name} changes too many variables")
    return View(name, _text(told.get("description")), tuple(patches))


def _list_patches(variable: str, changes: object, view: str) -> list[Patch]:
    if not isinstance(changes, list):
        raise BadImage(f"view {view}: the changes of {variable} are not a list")
    patches = []
    for change in changes:
        told = _object(change, f"a change of {variable}")
        operation, values = told.get("op"), told.get("value") or []
        if operation not in OPERATIONS:
            raise BadImage(f'view {view}: {variable} has an unknown operation, "{str(operation)[:40]}"')
        if not isinstance(values, list) or not all(_is_value(each) for each in values):
            raise BadImage(f"view {view}: the values of {variable} are not a list of texts")
        patches.append(Patch(variable, cast("Operation", operation), tuple(values), is_list=True))
    return patches


def _scalar_patch(variable: str, value: object, view: str) -> Patch:
    if value is None:
        return Patch(variable, "unset")
    if not _is_value(value):
        raise BadImage(f"view {view}: the value of {variable} is not a text")
    return Patch(variable, "set", (cast("str", value),))


def _check_name(variable: str, view: str) -> None:
    if not variable or "=" in variable or not is_plain_text(variable):
        raise BadImage(f"view {view}: {variable[:40]!a} is not the name of a variable")


def _is_value(value: object) -> bool:
    return isinstance(value, str) and is_plain_text(value) and len(value) <= MAX_VALUE


def _object(value: Any, what: str) -> dict[str, Any]:  # noqa: ANN401 - whatever the file says
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadImage(f"{what} is not an object")
    return value


def _text(value: object) -> str:
    return value[:1000] if isinstance(value, str) and is_plain_text(value) else ""
