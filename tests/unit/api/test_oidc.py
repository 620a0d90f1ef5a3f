"""Tokens of an identity provider: which are accepted, which are refused, and when the provider is asked."""

import asyncio
import base64
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from lattice.api.auth.chain import VerifierChain
from lattice.api.auth.claims import ClaimNames, foreign_identity
from lattice.api.auth.issuer import ASK_AGAIN_S, IssuerUnusable
from lattice.api.auth.oidc import OidcPolicy
from lattice.api.auth.tokens import TokenVerifier, sign_token
from lattice.ports.site.identity import Unauthenticated, UnknownKey
from tests.unit.api.oidc_world import EC_KEY, ISSUER, RSA_KEYS, Provider, rsa_jwk

SECRET = b"0123456789abcdef0123456789abcdef"


def segment(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def run(coroutine: Any) -> Any:  # noqa: ANN401 - whatever it returns
    return asyncio.run(coroutine)


@pytest.mark.parametrize(("key", "kid", "algorithm"), [(RSA_KEYS[0], "k1", "RS256"), (EC_KEY, "e1", "ES256")])
def test_tokens_of_both_algorithms_are_accepted(key: Any, kid: str, algorithm: str) -> None:  # noqa: ANN401 - either kind
    async def history() -> None:
        provider = Provider()
        verifier = await provider.verifier()
        identity = verifier.verify(
            provider.token(key=key, kid=kid, algorithm=algorithm, tenants=["physics"], scope="openid operator")
        )
        assert (identity.user, identity.account, identity.tenants) == ("ada", "ada", ("physics",))
        assert identity.roles == ("Operator",)

    run(history())


def public_pem() -> bytes:
    return (
        RSA_KEYS[0]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


def signed_with_public_key(provider: Provider) -> str:
    """The classic confusion: the public key's text as the secret of an HMAC."""
    import hashlib
    import hmac

    now_s = provider.clock.ms // 1000
    claims = {"sub": "ada", "iss": ISSUER, "aud": "lattice", "exp": now_s + 300, "scope": "admin"}
    text = f"{segment({'alg': 'HS256', 'kid': 'k1'})}.{segment(claims)}"
    mac = hmac.new(public_pem(), text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def unsigned(provider: Provider) -> str:
    now_s = provider.clock.ms // 1000
    return f"{segment({'alg': 'none', 'kid': 'k1'})}.{segment({'sub': 'ada', 'iss': ISSUER, 'aud': 'lattice', 'exp': now_s + 300})}."


BAD: dict[str, Any] = {
    "none": unsigned,
    "public key as secret": signed_with_public_key,
    "signed by another key": lambda p: p.token(key=RSA_KEYS[1]),
    "algorithm of another key": lambda p: p.token(key=EC_KEY, kid="k1", algorithm="ES256"),
    "RS384": lambda p: p.token(algorithm="RS384"),
    "wrong audience": lambda p: p.token(aud="another"),
    "no audience": lambda p: p.token(aud=None),
    "wrong issuer": lambda p: p.token(iss="https://evil.example.org"),
    "no issuer": lambda p: p.token(iss=None),
    "expired": lambda p: p.token(exp=p.clock.ms // 1000 - 31),
    "no end": lambda p: p.token(exp=None),
    "not yet": lambda p: p.token(nbf=p.clock.ms // 1000 + 31),
    "issued later": lambda p: p.token(iat=p.clock.ms // 1000 + 31),
    "no user": lambda p: p.token(sub=None),
    "tenants of the wrong kind": lambda p: p.token(tenants={"a": 1}),
    "too long": lambda p: p.token(filler="x" * 9000),
    "not a token": lambda p: "rubbish",
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_refused(case: str) -> None:
    async def history() -> None:
        provider = Provider()
        verifier = await provider.verifier()
        chain = VerifierChain(TokenVerifier(SECRET, provider.clock), verifier)
        for each in (verifier, chain):
            with pytest.raises(Unauthenticated) as refusal:
                each.verify(BAD[case](provider))
            assert "k1" not in str(refusal.value)

    run(history())


def test_clocks_may_differ_a_little() -> None:
    async def history() -> None:
        provider = Provider()
        verifier = await provider.verifier()
        now_s = provider.clock.ms // 1000
        assert verifier.verify(provider.token(exp=now_s - 20)).user == "ada"
        assert verifier.verify(provider.token(nbf=now_s + 20, iat=now_s + 20)).user == "ada"

    run(history())


def test_only_configured_algorithms_are_accepted() -> None:
    async def history() -> None:
        provider = Provider()
        verifier = await provider.verifier(None, "RS256")
        assert verifier.verify(provider.token()).user == "ada"
        with pytest.raises(Unauthenticated):
            verifier.verify(provider.token(key=EC_KEY, kid="e1", algorithm="ES256"))

    run(history())


def test_a_new_key_is_fetched_when_a_token_names_it_but_not_for_every_stranger() -> None:
    async def history() -> None:
        provider = Provider()
        verifier = await provider.verifier()
        provider.keys = [rsa_jwk(RSA_KEYS[1], "k2")]
        fresh = provider.token(key=RSA_KEYS[1], kid="k2")
        with pytest.raises(UnknownKey):
            verifier.verify(fresh)
        asked = len(provider.asked)
        await verifier.learn()  # a moment after the first time: not asked again
        assert len(provider.asked) == asked
        provider.clock.pass_s(ASK_AGAIN_S)
        await asyncio.gather(*(verifier.learn() for _ in range(50)))
        assert len(provider.asked) == asked + 2, "fifty who ask at once share one request: description and keys"
        assert verifier.verify(fresh).user == "ada"
        with pytest.raises(UnknownKey):
            verifier.verify(provider.token(kid="stranger"))

    run(history())


def test_tokens_of_a_key_that_was_withdrawn_are_refused_although_they_were_remembered() -> None:
    async def history() -> None:
        provider = Provider()
        verifier = await provider.verifier()
        old = provider.token()
        assert verifier.verify(old) is verifier.verify(old)
        provider.keys = [rsa_jwk(RSA_KEYS[1], "k2")]
        provider.clock.pass_s(ASK_AGAIN_S)
        await verifier.learn()
        with pytest.raises(UnknownKey):
            verifier.verify(old)

    run(history())


def test_a_remembered_token_ends_with_its_own_time() -> None:
    async def history() -> None:
        provider = Provider()
        verifier = await provider.verifier()
        token = provider.token()
        verifier.verify(token)
        provider.clock.pass_s(331)
        with pytest.raises(Unauthenticated, match="expired"):
            verifier.verify(token)

    run(history())


def test_a_provider_that_is_away_changes_nothing_for_keys_that_are_known() -> None:
    async def history() -> None:
        provider = Provider()
        verifier = await provider.verifier()
        provider.is_away = True
        provider.clock.pass_s(ASK_AGAIN_S)
        await verifier.learn()
        assert verifier.verify(provider.token()).user == "ada"
        assert (await verifier.recheck(provider.token())).user == "ada"

    run(history())


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"issuer": "https://evil.example.org"}, "calls itself"),
        ({"jwks_uri": "http://idp.example.org/certs"}, "not https"),
        ({"jwks_uri": ""}, "where its keys are"),
    ],
)
def test_a_description_that_cannot_be_right_is_not_believed(change: dict[str, str], complaint: str) -> None:
    async def history() -> None:
        provider = Provider()
        provider.description.update(change)
        with pytest.raises(IssuerUnusable, match=complaint):
            await provider.issuer().refresh()

    run(history())


def test_weak_keys_shared_secrets_and_encryption_keys_are_passed_over() -> None:
    async def history() -> None:
        provider = Provider()
        weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505 - that is the point
        provider.keys = [
            rsa_jwk(weak, "weak"),
            {"kty": "oct", "k": "AAAA", "kid": "secret", "use": "sig"},
            {**rsa_jwk(RSA_KEYS[1], "enc"), "use": "enc"},
            rsa_jwk(RSA_KEYS[1], "other", alg="RS512"),
            {"kty": "RSA", "kid": "broken"},
            rsa_jwk(RSA_KEYS[0], "k1"),
        ]
        issuer = provider.issuer()
        await issuer.refresh()
        assert list(issuer.keys) == ["k1"]

    run(history())


def test_user_account_and_tenants_come_from_the_claims_that_the_site_names() -> None:
    async def history() -> None:
        provider = Provider()
        names = ClaimNames(user="email", account="unix", tenants="groups", default_tenants=("guests",))
        verifier = await provider.verifier(OidcPolicy(client_id="lattice", audiences=("api", "lattice"), names=names))
        identity = verifier.verify(provider.token(email="ada@x", unix="ada1", groups="physics,bio", aud=["api", "z"]))
        assert (identity.user, identity.account, identity.tenants) == ("ada@x", "ada1", ("physics", "bio"))
        assert verifier.verify(provider.token(email="ada@x", unix="ada1")).tenants == ("guests",)
        with pytest.raises(Unauthenticated, match="unix"):
            verifier.verify(provider.token(email="ada@x"))

    run(history())


ROLES = [
    ({"scope": "openid admin"}, "SystemAdmin"),
    ({"scope": "system:admin"}, "SystemAdmin"),
    ({"scp": ["tenant:admin"]}, "TenantAdmin"),
    ({"scope": "operator"}, "Operator"),
    ({"scope": "sensitive:claim"}, "ClaimingUser"),
    ({"scope": "readonly", "pact_role": "pact-platform-admin"}, "ReadOnly"),
    ({"pact_role": "pact-platform-admin"}, "SystemAdmin"),
    ({"pact_role": "system-admin"}, "SystemAdmin"),
    ({"lattice_role": "system-admin"}, "SystemAdmin"),
    ({"lattice_role": ["tenant-admin"]}, "TenantAdmin"),
    ({"pact_role": "operator"}, "Operator"),
    ({"lattice_role": "pact-viewer", "scope": "openid profile"}, "User"),
    ({"scope": "agent"}, "Agent"),
]


@pytest.mark.parametrize(("claims", "role"), ROLES)
def test_roles_come_from_scopes_and_then_from_role_claims(claims: dict[str, Any], role: str) -> None:
    async def history() -> None:
        provider = Provider()
        verifier = await provider.verifier()
        assert verifier.verify(provider.token(**claims)).roles == (role,)

    run(history())


@pytest.mark.parametrize("how", ["userinfo", "introspection"])
def test_a_token_that_was_revoked_is_found_when_the_provider_is_asked(how: Any) -> None:  # noqa: ANN401 - a literal
    async def history() -> None:
        provider = Provider()
        policy = OidcPolicy(client_id="lattice", recheck=how, client_secret="s")
        chain = VerifierChain(TokenVerifier(SECRET, provider.clock), await provider.verifier(policy))
        token = provider.token()
        assert (await chain.recheck(token)).user == "ada"
        provider.revoked.add(token)
        assert chain.verify(token).user == "ada", "only asking tells"
        with pytest.raises(Unauthenticated, match="revoked"):
            await chain.recheck(token)

    run(history())


def test_tokens_of_the_server_itself_are_accepted_beside_those_of_the_provider() -> None:
    async def history() -> None:
        provider = Provider()
        own = TokenVerifier(SECRET, provider.clock)
        now_s = provider.clock.ms // 1000
        person = sign_token(SECRET, user="bob", issued_at_s=now_s, lifetime_s=60)
        agent = sign_token(SECRET, user="n1", issued_at_s=now_s, lifetime_s=60, kind="agent")
        chain = VerifierChain(own, await provider.verifier())
        assert [chain.verify(each).user for each in (person, agent, provider.token())] == ["bob", "n1", "ada"]
        strict = VerifierChain(own, await provider.verifier(), own_users=False)
        assert strict.verify(agent).kind == "agent"
        with pytest.raises(Unauthenticated, match="lattice login"):
            strict.verify(person)
        alone = VerifierChain(own)
        with pytest.raises(Unauthenticated):
            alone.verify(provider.token())

    run(history())


def test_a_token_without_a_key_id_is_taken_when_only_one_key_can_be_meant() -> None:
    async def history() -> None:
        provider = Provider()
        verifier = await provider.verifier()
        assert verifier.verify(provider.token(kid=None)).user == "ada"
        provider.keys.append(rsa_jwk(RSA_KEYS[1], "k2"))
        provider.clock.pass_s(ASK_AGAIN_S)
        await verifier.learn()
        with pytest.raises(UnknownKey):
            verifier.verify(provider.token(kid=None))

    run(history())


def test_role_claims_count_in_tokens_of_the_server_as_well() -> None:
    provider = Provider()
    now_s = provider.clock.ms // 1000
    token = jwt.encode({"sub": "pam", "exp": now_s + 60, "pact_role": "operator"}, SECRET, algorithm="HS256")
    assert TokenVerifier(SECRET, provider.clock).verify(token).roles == ("Operator",)


@pytest.mark.parametrize(
    ("claims", "roles", "kind"),
    [
        ({"scope": "admin"}, ("User",), "user"),
        ({"scope": "agent"}, ("User",), "user"),
        ({"scope": "admin", "lattice_role": "operator"}, ("Operator",), "user"),
    ],
)
def test_scopes_give_no_role_where_the_provider_grants_any(
    claims: dict[str, Any], roles: tuple[str, ...], kind: str
) -> None:
    told = {"sub": "ada", "exp": 2_000_000_000, "tenants": ["a"], **claims}
    identity = foreign_identity(told, ClaimNames(takes_scopes=False))
    assert (identity.roles, identity.kind) == (roles, kind)
