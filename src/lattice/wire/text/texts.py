"""Texts of requests: what may stand in a name, an argument, a variable. Each check returns the text or raises BadField."""

from collections.abc import Mapping, Sequence

from lattice.wire.text.problems import BadField

MAX_NAME = 128
MAX_TAGS = 64
MAX_TAG_VALUE = 1024
MAX_LIST = 10_000
MAX_USER = 128
MAX_VARIABLES = 4096
MAX_PATH = 4096
# The kernel refuses to execute with a longer single argument or variable.
MAX_ARGUMENT_BYTES = 131_071


def check_text(text: str, field: str) -> str:
    """A text that can be written to a file: no NUL, no broken Unicode."""
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise BadField(field, f"contains a NUL byte (line {line})", hint="remove it; scripts are text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadField(field, "is not valid UTF-8", hint="save it as UTF-8") from None
    return text


def check_line(text: str, field: str, longest: int = MAX_NAME) -> str:
    """One printable line; may be empty."""
    if len(text) > longest:
        raise BadField(field, "is too long", current=f"{len(text):,} characters", limit=f"{longest:,} characters")
    if not text.isprintable():
        raise BadField(field, "contains characters that cannot be printed", hint="use one line of plain text")
    return text


def check_name(text: str, field: str) -> str:
    if not check_line(text, field).strip():
        raise BadField(field, "is empty")
    return text


def check_names(texts: Sequence[str], field: str) -> tuple[str, ...]:
    """Names of nodes or features, each once, in the order given."""
    if len(texts) > MAX_LIST:
        raise BadField(field, "has too many entries", current=f"{len(texts):,}", limit=f"{MAX_LIST:,}")
    if not texts:
        return ()
    return tuple(dict.fromkeys(check_name(text, f"{field}[{place}]") for place, text in enumerate(texts)))


def check_users(texts: Sequence[str], field: str) -> tuple[str, ...]:
    """Names of users as tokens have them, each once, in the order given."""
    if len(texts) > MAX_LIST:
        raise BadField(field, "has too many entries", current=f"{len(texts):,}", limit=f"{MAX_LIST:,}")
    for place, text in enumerate(texts):
        if not 0 < len(text) <= MAX_USER or not text.isprintable() or any(char in text for char in " ,"):
            raise BadField(f"{field}[{place}]", f'"{text[:60]}" cannot be the name of a user')
    return tuple(dict.fromkeys(texts))


def check_path(text: str, field: str) -> str:
    check_line(text, field, MAX_PATH)
    if text and not text.startswith("/"):
        raise BadField(field, f'"{text[:60]}" is not an absolute path', hint="start it with /")
    return text


def check_argument(text: str, field: str) -> str:
    check_text(text, field)
    if len(text) > MAX_ARGUMENT_BYTES or len(text.encode()) > MAX_ARGUMENT_BYTES:
        raise BadField(field, "is too long for one argument", limit=f"{MAX_ARGUMENT_BYTES:,} bytes")
    return text


def check_environment(variables: Mapping[str, str]) -> dict[str, str]:
    if len(variables) > MAX_VARIABLES:
        raise BadField(
            "environment",
            "has too many variables",
            current=f"{len(variables):,}",
            limit=f"{MAX_VARIABLES:,}",
        )
    for name, value in variables.items():
        if not name or "=" in name or not name.isprintable():
            raise BadField("environment", f'"{name[:60]}" cannot be the name of a variable')
        if len(value) > MAX_ARGUMENT_BYTES or not value.isascii() or "\0" in value:  # as nearly none is
            check_argument(value, f"environment.{name[:60]}")
    return dict(variables)


def parse_tag(text: str, field: str = "tag") -> tuple[str, str]:
    """Key and value of a filter `KEY=VALUE`."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise BadField(field, f'cannot read "{text[:60]}"', hint=f"write {field}=KEY=VALUE")
    return key, value


def check_tags(tags: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Tags sorted by key, so that the same tags are the same record."""
    if len(tags) > MAX_TAGS:
        raise BadField("tags", "has too many entries", current=f"{len(tags)}", limit=f"{MAX_TAGS}")
    return tuple(
        (check_name(key, "tags"), check_line(value, f"tags.{key[:60]}", MAX_TAG_VALUE))
        for key, value in sorted(tags.items())
    )
