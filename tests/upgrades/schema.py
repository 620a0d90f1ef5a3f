"""What a release reads in the log and in snapshots: every record with its fields, every enum with its members.

`undeclared` compares it with what this release can write: whatever older servers would not read has to have a level.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from lattice.core.machine import codec
from lattice.core.machine.commands import Envelope

SCHEMA = "schema.json"
Schema = dict[str, Any]
_SCALARS: dict[type, str] = {
    inspect.IntType: "int",
    inspect.FloatType: "float",
    inspect.StrType: "str",
    inspect.BytesType: "bytes",
    inspect.BoolType: "bool",
    inspect.NoneType: "none",
}


def roots() -> dict[str, Any]:
    """The types of what is written, by the name of the chunk; `log` is one command."""
    found: dict[str, Any] = {"log": Envelope, "meta": codec._Meta}
    found.update({name: decoder.type for name, decoder in codec._chunk_decoders.items()})
    return found


def schema_of_this_release() -> Schema:
    records: dict[str, Any] = {}
    return {
        "roots": {name: _described(inspect.type_info(root), records) for name, root in roots().items()},
        "records": records,
    }


def record_schema(target: Path) -> None:
    (target / SCHEMA).write_text(json.dumps(schema_of_this_release(), indent=1) + "\n")


def _described(info: inspect.Type, records: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    match info:
        case inspect.StructType():
            name = f"{info.cls.__module__.rpartition('.')[2]}.{info.cls.__name__}"
            if name not in records:
                records[name] = {}
                records[name].update(_record(info, records))
            return {"record": name}
        case inspect.EnumType():
            return {"enum": sorted(str(member.value) for member in info.cls)}
        case inspect.VarTupleType() | inspect.ListType():
            return {"each": _described(info.item_type, records)}
        case inspect.TupleType():
            return {"row": [_described(item, records) for item in info.item_types]}
        case inspect.DictType():
            return {"by": _described(info.key_type, records), "each": _described(info.value_type, records)}
        case inspect.UnionType():
            return {"one_of": [_described(each, records) for each in info.types]}
        case _:
            return _SCALARS[type(info)]


def _record(info: inspect.StructType, records: dict[str, Any]) -> dict[str, Any]:
    return {
        "fields": {field.encode_name: _described(field.type, records) for field in info.fields},
        "required": [field.encode_name for field in info.fields if field.required],
        "tag": info.tag,
        "is_row": info.array_like,
    }


# Reading raw bytes by a recorded schema, as strictly as possible


def unreadable(data: bytes, root: str, schema: Schema) -> list[str]:
    """What in these bytes a server of the schema's release does not know."""
    return list(_unknown(msgspec.msgpack.decode(data, strict=False), schema["roots"][root], schema["records"], root))


def _unknown(raw: Any, wanted: Any, records: dict[str, Any], where: str) -> Iterator[str]:  # noqa: ANN401 - JSON
    if isinstance(wanted, str):
        if raw is None and wanted != "none":
            yield f"{where} is nothing, not {wanted}"
        return
    if "one_of" in wanted:
        yield from _unknown(raw, _chosen(raw, wanted["one_of"], records), records, where)
    elif "enum" in wanted:
        if str(raw) not in wanted["enum"]:
            yield f"{where} is {raw!r}, not one of {wanted['enum']}"
    elif "row" in wanted:
        for index, (value, kind) in enumerate(zip(raw, wanted["row"], strict=True)):
            yield from _unknown(value, kind, records, f"{where}[{index}]")
    elif "by" in wanted:
        for key, value in raw.items():
            yield from _unknown(value, wanted["each"], records, f"{where}[{key}]")
    elif "each" in wanted:
        for index, value in enumerate(raw):
            yield from _unknown(value, wanted["each"], records, f"{where}[{index}]")
    else:
        yield from _unknown_in_record(raw, records[wanted["record"]], records, where)


def _unknown_in_record(raw: Any, record: dict[str, Any], records: dict[str, Any], where: str) -> Iterator[str]:  # noqa: ANN401 - JSON
    names = list(record["fields"])
    if record["is_row"]:
        if len(raw) > len(names):
            yield f"{where} has {len(raw)} columns, not {len(names)}"
        raw = dict(zip(names, raw, strict=False))
    for name in record["required"]:
        if name not in raw:
            yield f"{where}.{name} is missing"
    for name, value in raw.items():
        if name in record["fields"]:
            yield from _unknown(value, record["fields"][name], records, f"{where}.{name}")
        elif not (record["tag"] and value == record["tag"]):
            yield f"{where}.{name} is unknown"


def _chosen(raw: Any, kinds: list[Any], records: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """The kind of a union that the value has; the first one when it has none, which then complains."""
    if raw is None and "none" in kinds:
        return "none"
    known = [kind for kind in kinds if kind != "none"]
    if isinstance(raw, dict) and len(known) > 1:
        tags = set(map(str, raw.values()))
        named = [kind for kind in known if isinstance(kind, dict) and records[kind["record"]]["tag"] in tags]
        known = named or known
    return known[0]


# Comparing what this release can write with what an earlier one reads


def differences(schema: Schema) -> Iterator[tuple[str, Any]]:
    """What this release's records have that the earlier one's lack: where it is, and the thing itself.

    A thing is a class (a record of a union), (class, field) or a member of an enum.
    """
    seen: set[type] = set()
    for name, root in roots().items():
        if name in schema["roots"]:
            yield from _differences(inspect.type_info(root), schema["roots"][name], schema["records"], name, seen)
        else:
            yield name, None


def _differences(
    info: inspect.Type,
    old: Any,  # noqa: ANN401 - JSON
    records: dict[str, Any],
    where: str,
    seen: set[type],
) -> Iterator[tuple[str, Any]]:
    match info:
        case inspect.StructType():
            yield from _record_differences(info, records[_record_name(old)], records, where, seen)
        case inspect.EnumType():
            known = old["enum"]
            yield from ((f"{where} {member.value}", member) for member in info.cls if str(member.value) not in known)
        case inspect.VarTupleType() | inspect.ListType():
            yield from _differences(info.item_type, old["each"], records, where, seen)
        case inspect.TupleType():
            for item, kind in zip(info.item_types, old["row"], strict=True):
                yield from _differences(item, kind, records, where, seen)
        case inspect.DictType():
            yield from _differences(info.key_type, old["by"], records, where, seen)
            yield from _differences(info.value_type, old["each"], records, where, seen)
        case inspect.UnionType():
            yield from _union_differences(info, old, records, where, seen)
        case _:
            return


def _record_name(old: Any) -> str:  # noqa: ANN401 - JSON
    return str(old["record"])


def _record_differences(
    info: inspect.StructType, old: dict[str, Any], records: dict[str, Any], where: str, seen: set[type]
) -> Iterator[tuple[str, Any]]:
    if info.cls in seen:
        return
    seen.add(info.cls)
    for field in info.fields:
        place = f"{where}.{field.encode_name}"
        if field.encode_name in old["fields"]:
            yield from _differences(field.type, old["fields"][field.encode_name], records, place, seen)
        else:
            yield place, (info.cls, field.name)


def _union_differences(
    info: inspect.UnionType,
    old: Any,  # noqa: ANN401 - JSON
    records: dict[str, Any],
    where: str,
    seen: set[type],
) -> Iterator[tuple[str, Any]]:
    kinds = old["one_of"] if isinstance(old, dict) and "one_of" in old else [old]
    for each in info.types:
        if not isinstance(each, inspect.StructType):
            plain = [kind for kind in kinds if isinstance(kind, dict) and "record" not in kind]
            if plain and not isinstance(each, inspect.NoneType):
                yield from _differences(each, plain[0], records, where, seen)
            continue
        same = [kind for kind in kinds if isinstance(kind, dict) and "record" in kind]
        if each.tag is not None:
            same = [kind for kind in same if records[kind["record"]]["tag"] == each.tag]
        if same:
            yield from _differences(each, same[0], records, where, seen)
        else:
            yield f"{where} {each.tag or each.cls.__name__}", each.cls
