"""What was signed with a secret is read with that secret alone."""

import jwt
import pytest

from lattice.wire.text.signed_claims import own_claims, signed_claims

SECRET = b"0123456789abcdef" * 2
CLAIMS = {"sub": "ada", "scope": "admin", "exp": 1}


def test_own_claims_are_read_even_when_expired() -> None:
    assert own_claims(signed_claims(CLAIMS, SECRET), SECRET) == CLAIMS


def test_the_library_reads_what_was_signed_and_the_other_way_round() -> None:
    token = signed_claims(CLAIMS, SECRET)
    assert jwt.decode(token, SECRET, algorithms=["HS256"], options={"verify_exp": False}) == CLAIMS
    assert own_claims(jwt.encode(CLAIMS, SECRET, algorithm="HS256"), SECRET) == CLAIMS


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "nonsense",
        "a.b.c",
        "ä.b.c",
        signed_claims(CLAIMS, SECRET[::-1]),
        signed_claims(CLAIMS, SECRET)[:-1],
    ],
)
def test_anything_else_is_refused(token: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever is wrong with it
        own_claims(token, SECRET)
