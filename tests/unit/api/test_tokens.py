"""Tokens: the cache, the secret, the roles."""

import pytest

from lattice.api.auth.membership import Membership, with_membership
from lattice.api.auth.rbac import Permission, Reach, Role, may_at_all, reach_of, roles_of
from lattice.api.auth.tokens import TokenVerifier, sign_token
from lattice.ports.site.identity import Identity, Unauthenticated
from lattice.testing import HandClock

SECRET = b"0123456789abcdef0123456789abcdef"


def token(user: str, clock: HandClock, lifetime_s: int = 60) -> str:
    return sign_token(SECRET, user=user, issued_at_s=clock.ms // 1000, lifetime_s=lifetime_s)


def test_verified_token_is_remembered_and_the_memory_is_bounded() -> None:
    clock = HandClock()
    verifier = TokenVerifier(SECRET, clock, remembered=10)
    first = token("u0", clock)
    assert verifier.verify(first) is verifier.verify(first)
    for number in range(50):
        assert verifier.verify(token(f"u{number}", clock)).user == f"u{number}"
    assert len(verifier._known) <= 10
    assert verifier.verify(first).user == "u0"


def test_expired_ones_make_room_first() -> None:
    clock = HandClock()
    verifier = TokenVerifier(SECRET, clock, remembered=3)
    lasting = token("lasting", clock, 1000)
    kept = verifier.verify(lasting)
    verifier.verify(token("a", clock, 10))
    verifier.verify(token("b", clock, 10))
    clock.pass_s(11)
    verifier.verify(token("c", clock))
    assert verifier.verify(lasting) is kept


def test_refused_tokens_are_not_remembered() -> None:
    clock = HandClock()
    verifier = TokenVerifier(SECRET, clock)
    for number in range(100):
        with pytest.raises(Unauthenticated):
            verifier.verify(f"{number}.x.y")
    assert not verifier._known


def test_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        TokenVerifier(b"short", HandClock())
    with pytest.raises(ValueError, match="32 bytes"):
        sign_token(b"short", user="u", issued_at_s=0, lifetime_s=1)


def test_secret_of_a_tampered_length_token_does_not_pass() -> None:
    clock = HandClock()
    verifier = TokenVerifier(SECRET, clock)
    good = token("u", clock)
    for bad in (good + "x", good[:-1], good + ".", "Bearer " + good, good.upper()):
        with pytest.raises(Unauthenticated, match="not valid"):
            verifier.verify(bad)


def test_scopes_become_roles() -> None:
    assert roles_of(["admin", "operator"], "user") == (Role.SYSTEM_ADMIN, Role.OPERATOR)
    assert roles_of(["openid", "email"], "user") == (Role.USER,)
    assert roles_of([], "user") == (Role.USER,)
    assert roles_of(["readonly"], "user") == (Role.READ_ONLY,)
    assert roles_of(["allocations:read", "openid"], "user") == (Role.READER,)
    assert roles_of(["allocations:attach"], "user", ["system-admin"]) == (Role.ATTACHER,)
    assert roles_of(["admin"], "agent") == (Role.AGENT,)
    assert roles_of(["admin"], "allocation") == (Role.USER,)


def test_widest_reach_of_several_roles_counts_and_unknown_roles_have_none() -> None:
    def who(*roles: str) -> Identity:
        return Identity(user="u", account="u", roles=roles)

    assert reach_of(who("ReadOnly", "Operator"), Permission.CONTROL_NODES) is Reach.ALL
    assert reach_of(who("User", "TenantAdmin"), Permission.CHANGE) is Reach.TENANT
    assert reach_of(who("Emperor"), Permission.READ_SELF) is Reach.NONE
    assert reach_of(who(), Permission.READ) is Reach.NONE


def test_a_token_that_was_narrowed_may_do_nothing_else() -> None:
    def allowed(role: Role) -> set[Permission]:
        narrowed = Identity(user="u", account="u", tenants=("t",), roles=(role,))
        administrator = with_membership(narrowed, Membership(tenants=("t",), admin_of=("t",)))
        return {each for each in Permission if may_at_all(administrator, each)}

    reading = {Permission.READ, Permission.READ_DETAILS, Permission.READ_OUTPUT, Permission.READ_SELF}
    assert allowed(Role.READER) == reading
    attaching = {Permission.READ, Permission.READ_OUTPUT, Permission.ATTACH, Permission.STEER, Permission.READ_SELF}
    assert allowed(Role.ATTACHER) == attaching
