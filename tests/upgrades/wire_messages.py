"""Every message of the wire contract with every field set, as bytes, and what its fields say."""

import base64
import json
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from lattice.wire.pb import admin_pb2, agent_pb2, allocations_pb2, certificates_pb2, errors_pb2, nodes_pb2, relay_pb2

FILES = (admin_pb2, agent_pb2, allocations_pb2, certificates_pb2, errors_pb2, nodes_pb2, relay_pb2)
MESSAGES = "messages.jsonl"
_DEPTH = 4
_WHOLE = (
    FieldDescriptor.CPPTYPE_INT32,
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT32,
    FieldDescriptor.CPPTYPE_UINT64,
)


def message_class(name: str) -> type[Message]:
    found: type[Message] = message_factory.GetMessageClass(descriptor_pool.Default().FindMessageTypeByName(name))
    return found


def filled(descriptor: Descriptor, choices: dict[str, str] | None = None, depth: int = 0) -> Message:
    """A message whose every field says something; of each oneof the chosen field, or the first one."""
    message = message_class(descriptor.full_name)()
    for field in descriptor.fields:
        choice = field.containing_oneof
        if choice is not None and len(choice.fields) > 1:
            wanted = (choices or {}).get(choice.name, choice.fields[0].name)
            if field.name != wanted:
                continue
        _set(message, field, depth)
    return message


def _set(message: Message, field: FieldDescriptor, depth: int) -> None:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        value = inner.fields_by_name["value"]
        if value.message_type is None:
            getattr(message, field.name)["key"] = _value(value)
    elif inner is not None:
        # Only ours: an Any of the standard messages names a type.
        if depth < _DEPTH and inner.file.package == message.DESCRIPTOR.file.package:
            part = getattr(message, field.name)
            (part.add() if field.is_repeated else part).CopyFrom(filled(inner, depth=depth + 1))
    elif field.is_repeated:
        getattr(message, field.name).append(_value(field))
    else:
        setattr(message, field.name, _value(field))


def _value(field: FieldDescriptor) -> Any:  # noqa: ANN401 - whatever the field holds
    if field.cpp_type in _WHOLE:
        return field.number + 1
    if field.enum_type is not None:
        return field.enum_type.values[-1].number
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return True
    if field.cpp_type in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return field.number + 0.5
    text = field.name.replace("_", "-")
    return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text


def said(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
    return found


def _variants(descriptor: Descriptor) -> list[dict[str, str]]:
    """One choice per member of each oneof; a message without one has a single form."""
    choices = [
        {oneof.name: field.name} for oneof in descriptor.oneofs if len(oneof.fields) > 1 for field in oneof.fields
    ]
    return choices or [{}]


def record_messages(target: Path) -> None:
    lines = []
    for file in FILES:
        for name in sorted(file.DESCRIPTOR.message_types_by_name):
            descriptor = file.DESCRIPTOR.message_types_by_name[name]
            for choices in _variants(descriptor):
                message = filled(descriptor, choices)
                data = base64.b64encode(message.SerializeToString(deterministic=True)).decode()
                lines.append({"message": descriptor.full_name, "bytes": data, "fields": said(message)})
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (target / MESSAGES).write_text(text)
