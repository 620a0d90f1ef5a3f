"""An identity provider in memory: keys that can be rotated, tokens that say whatever a test wants."""

import json
from collections.abc import Mapping
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from lattice.api.auth.issuer import Issuer, IssuerUnusable, Reply
from lattice.api.auth.oidc import OidcPolicy, OidcVerifier
from lattice.testing import HandClock

ISSUER = "https://idp.example.org/realms/hpc"
RSA_KEYS = [rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2)]
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def rsa_jwk(key: rsa.RSAPrivateKey, kid: str, **more: str) -> dict[str, Any]:
    return {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())), "kid": kid, "use": "sig", **more}


def ec_jwk(key: ec.EllipticCurvePrivateKey, kid: str) -> dict[str, Any]:
    return {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key())), "kid": kid, "use": "sig"}


class Provider:
    """What the fetches of an issuer find."""

    def __init__(self) -> None:
        self.clock = HandClock(ms=1_772_700_000_000)
        self.keys = [rsa_jwk(RSA_KEYS[0], "k1"), ec_jwk(EC_KEY, "e1")]
        self.description: dict[str, Any] = {
            "issuer": ISSUER,
            "jwks_uri": f"{ISSUER}/certs",
            "userinfo_endpoint": f"{ISSUER}/userinfo",
            "introspection_endpoint": f"{ISSUER}/introspect",
        }
        self.asked: list[str] = []
        self.is_away = False
        self.revoked: set[str] = set()

    async def fetch(self, url: str, form: Mapping[str, str] | None = None, token: str = "") -> Reply:
        self.asked.append(url)
        if self.is_away:
            raise IssuerUnusable("no route to host")
        if url.endswith("/openid-configuration"):
            return Reply(200, json.dumps(self.description).encode())
        if url.endswith("/certs"):
            return Reply(200, json.dumps({"keys": self.keys}).encode())
        if url.endswith("/introspect"):
            return Reply(200, json.dumps({"active": (form or {})["token"] not in self.revoked}).encode())
        return Reply(401 if token in self.revoked else 200, b"{}")

    def issuer(self, *algorithms: str) -> Issuer:
        return Issuer(ISSUER, self.fetch, self.clock, algorithms=algorithms or ("RS256", "ES256"))

    async def verifier(self, policy: OidcPolicy | None = None, *algorithms: str) -> OidcVerifier:
        verifier = OidcVerifier(self.issuer(*algorithms), policy or OidcPolicy(client_id="lattice"), self.clock)
        await verifier.learn()
        return verifier

    def token(self, *, key: Any = RSA_KEYS[0], kid: str | None = "k1", algorithm: str = "RS256", **claims: Any) -> str:  # noqa: ANN401 - any key, any claim
        now_s = self.clock.ms // 1000
        said = {"sub": "ada", "iss": ISSUER, "aud": "lattice", "iat": now_s, "exp": now_s + 300, **claims}
        said = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(said, key, algorithm=algorithm, headers={"kid": kid} if kid else None)
