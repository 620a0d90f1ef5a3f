"""How many values a JSON body may hold, counted before it is decoded: small ones cost far more time and room than their bytes.

Whatever is inside texts does not count, so a script may be as full of commas and braces as it likes.
"""

from lattice.api.errors import ApiError

MAX_OBJECTS = 20_000
MAX_VALUES = 100_000
MAX_TEXTS = 200_000


def check_elements(body: bytes) -> None:
    """Raises ApiError."""
    if len(body) <= MAX_OBJECTS:
        return  # each takes a byte at least
    if body.count(b",") <= MAX_VALUES and body.count(b"{") + body.count(b"[") <= MAX_OBJECTS:
        return
    # Escaped backslashes and quotes are no ends of texts.
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    if plain.count(b'"') > 2 * MAX_TEXTS:
        raise _too_many("texts", plain.count(b'"') // 2, MAX_TEXTS)
    outside = b"".join(plain.split(b'"')[::2])
    if outside.count(b",") > MAX_VALUES:
        raise _too_many("values", outside.count(b","), MAX_VALUES)
    nested = outside.count(b"{") + outside.count(b"[")
    if nested > MAX_OBJECTS:
        raise _too_many("objects and lists", nested, MAX_OBJECTS)


def _too_many(what: str, count: int, most: int) -> ApiError:
    return ApiError(
        "invalid",
        f"the request has too many {what}",
        current=f"{count:,}",
        limit=f"{most:,}",
        hint="send it in several requests",
    )
