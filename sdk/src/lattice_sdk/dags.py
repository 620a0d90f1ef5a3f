"""DAG files: the forms in which people write them, turned into what the API takes.

A file is YAML or JSON: `name` and `allocations`, or the same below `dag`. An allocation has a name (`name` or `id`), the fields of a
submission, `nodes` and `walltime` as short forms, and `depends_on`: a text (`a:success,b?c:any`), or a list whose entries are a name,
`NAME: CONDITION`, a record with `ref` and `condition`, or a list of such entries of which one is enough.
"""

import re
from collections.abc import Mapping
from os import PathLike
from typing import Any

import msgspec
import msgspec.yaml

from lattice_sdk.errors import Invalid

_AT_BYTE = re.compile(r" \(byte (\d+)\)$")
_AT_MARK = re.compile(r'in "<[^>]*>", line (\d+), column (\d+)')


def read_dag_file(path: str | PathLike[str]) -> dict[str, Any]:
    """The body of a submission from a file. Raises Invalid, or OSError when the file cannot be read."""
    with open(path, encoding="utf-8") as file:
        return parse_dag(file.read())


def parse_dag(text: str) -> dict[str, Any]:
    """The body of a submission from the text of a file. Raises Invalid."""
    return normalised(_document(text))


def _document(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        not_json = str(error)
    try:
        return msgspec.yaml.decode(text)
    except ImportError:
        raise _bad("the file is not JSON, and PyYAML is not installed to read it as YAML") from None
    except (msgspec.DecodeError, RecursionError) as error:
        if text.lstrip().startswith(("{", "[")):
            raise _bad(f"not valid JSON: {_with_line(not_json, text)}") from None
        raise _bad(f"not valid YAML: {_first_problem(str(error))}") from None


def _with_line(problem: str, text: str) -> str:
    """The decoder counts bytes; people count lines."""
    found = _AT_BYTE.search(problem)
    if found is None:
        return problem
    before = text.encode()[: int(found[1])]
    line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
    return f"{problem[: found.start()]} (line {line}, column {column})"


def _first_problem(problem: str) -> str:
    """The last complaint of the parser and its place, in one line."""
    found = _AT_MARK.search(problem)
    if found is None:
        return problem
    what = problem[: found.start()].strip().splitlines()
    return f"{what[-1].strip() if what else problem} (line {found[1]}, column {found[2]})"


def normalised(document: object) -> dict[str, Any]:
    """A document in any of the forms as the API takes it. Raises Invalid."""
    if isinstance(document, Mapping) and "dag" in document:
        outer = {key: value for key, value in document.items() if key != "dag"}
        inner = document["dag"]
        document = {**outer, **inner} if isinstance(inner, Mapping) else inner
    if not isinstance(document, Mapping) or not isinstance(document.get("allocations"), list):
        raise _bad('a DAG needs "allocations", a list', hint="allocations:\n  - name: first\n    entrypoint: hostname")
    members = [_member(each, place) for place, each in enumerate(document["allocations"])]
    return {**{str(key): value for key, value in document.items()}, "allocations": members}


def _member(member: object, place: int) -> dict[str, Any]:
    if not isinstance(member, Mapping):
        raise _bad(f"allocations[{place}] is not a set of fields")
    fields = {str(key): value for key, value in member.items()}
    if "depends_on" in fields:
        fields["depends_on"] = _dependencies(fields["depends_on"], f"allocations[{place}].depends_on")
    return fields


def _dependencies(written: object, where: str) -> str | list[dict[str, Any]]:
    if written is None:
        return []
    if isinstance(written, str):
        return written
    if isinstance(written, Mapping):
        written = [{key: value} for key, value in written.items()] if "ref" not in written else [written]
    if not isinstance(written, list):
        raise _bad(f"{where} is neither a text nor a list")
    return [_dependency(each, where) for each in written]


def _dependency(entry: object, where: str) -> dict[str, Any]:
    if isinstance(entry, list):
        return {"any_of": [_dependency(each, where) for each in entry]}
    if isinstance(entry, str):
        ref, _, condition = entry.partition(":")
        return {"ref": ref.strip(), "condition": condition.strip()} if condition else {"ref": ref.strip()}
    if isinstance(entry, Mapping):
        if "ref" in entry or "any_of" in entry:
            return {str(key): value for key, value in entry.items()}
        if len(entry) == 1:
            ((ref, condition),) = entry.items()
            return {"ref": str(ref), "condition": str(condition)}
    raise _bad(f"{where}: cannot read {str(entry)[:80]!r}", hint="- preprocess: success")


def _bad(message: str, hint: str = "") -> Invalid:
    return Invalid(message, code="invalid", hint=hint)
