"""Nothing is accepted and not done: every key of the configuration and every setting of the cluster is read by the code."""

import ast
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import fields

import lattice
from lattice.config.schema import ServerConfig
from lattice.config.sections.front import RateLimitsSection
from lattice.core.model.site import settings
from lattice.core.model.site.settings import SETTINGS

SOURCES = Path(lattice.__file__).parent
# Read as a whole, by name; tests/unit/config/test_load.py holds them to the operations that count against them.
AS_A_WHOLE = {RateLimitsSection}


def keys(section: type[msgspec.Struct], path: str = "") -> Iterator[tuple[str, str]]:
    """Each key with its full name."""
    for field in fields(section):
        full = f"{path}.{field.name}" if path else field.name
        inner = field.type
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            if inner not in AS_A_WHOLE:
                yield from keys(inner, full)
        else:
            yield full, field.name


class Words(msgspec.Struct, frozen=True):
    """What the code speaks of: attributes outside the schema, texts outside the table of settings."""

    attributes: set[str]
    texts: set[str]


@pytest.fixture(scope="module")
def words() -> Words:
    found = Words(set(), set())
    for path in SOURCES.rglob("*.py"):
        if path.name.endswith(("_pb2.py", "_pb2_grpc.py")):
            continue
        is_schema = path.parts[-2:] == ("config", "schema.py") or path.parts[-3:-1] == ("config", "sections")
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Attribute) and not is_schema:
                found.attributes.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and str(path) != settings.__file__:
                found.texts.add(node.value)
    return found


def test_every_key_of_the_configuration_is_read(words: Words) -> None:
    unread = [full for full, name in keys(ServerConfig) if name not in words.attributes]
    assert unread == [], "nothing may be accepted and not done"


def test_every_setting_is_read_or_refused(words: Words) -> None:
    """A setting of a family (`rate_limits.`) is named by its last part."""
    unread = [
        key for key, known in SETTINGS.items() if known.is_read and not {key, key.partition(".")[2]} & words.texts
    ]
    assert unread == [], "a setting that nothing reads is refused by name until something does: is_read"
