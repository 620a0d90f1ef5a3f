"""A small OpenID provider, run as a process of its own: code with PKCE, device code, refresh with rotation, revocation, new keys.

    python oidc_provider.py PORT [CERTIFICATE KEY]

It prints its address when it listens. `POST /control` changes what it does: {"rotate": true}, {"lifetime": 30}, {"claims": {...}}.
"""

import base64
import hashlib
import html
import json
import secrets
import ssl
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT = "lattice"
PASSWORD = "sesame"
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"


class Refused(Exception):
    def __init__(self, error: str, status: int = 400) -> None:
        super().__init__(error)
        self.error = error
        self.status = status


class Provider:
    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.lifetime = 300
        self.claims: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.devices: dict[str, dict[str, Any]] = {}
        self.refresh: dict[str, str] = {}
        self.revoked: set[str] = set()
        self.rotate()

    def rotate(self) -> None:
        self.kid = secrets.token_hex(4)
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def description(self) -> dict[str, Any]:
        at = self.issuer
        return {
            "issuer": at,
            "authorization_endpoint": f"{at}/authorize",
            "token_endpoint": f"{at}/token",
            "device_authorization_endpoint": f"{at}/device_authorization",
            "revocation_endpoint": f"{at}/revoke",
            "userinfo_endpoint": f"{at}/userinfo",
            "jwks_uri": f"{at}/jwks",
        }

    def jwks(self) -> dict[str, Any]:
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [{**public, "kid": self.kid, "use": "sig", "alg": "RS256"}]}

    def tokens(self, user: str) -> dict[str, Any]:
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": user,
            "iat": now,
            "exp": now + self.lifetime,
            "jti": secrets.token_hex(8),
            "tenants": ["default"],
            **self.claims,
        }
        refresh = secrets.token_urlsafe(16)
        self.refresh[refresh] = user
        token = jwt.encode(claims, self.key, algorithm="RS256", headers={"kid": self.kid})
        return {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime, "refresh_token": refresh}

    def login(self, query: dict[str, str]) -> str:
        """Where the browser goes after the person typed name and password."""
        if query.get("password") != PASSWORD:
            raise Refused("wrong password", 403)
        if query["code_challenge_method"] != "S256" or query["client_id"] != CLIENT:
            raise Refused("invalid_request")
        code = secrets.token_urlsafe(12)
        self.codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def grant(self, form: dict[str, str]) -> dict[str, Any]:
        match form.get("grant_type"):
            case "authorization_code":
                return self.tokens(self.redeem(form))
            case "refresh_token":
                user = self.refresh.pop(form["refresh_token"], None)
                if user is None:
                    raise Refused("invalid_grant")
                return self.tokens(user)
            case kind if kind == DEVICE:
                return self.tokens(self.approved(form["device_code"]))
            case _:
                raise Refused("unsupported_grant_type")

    def redeem(self, form: dict[str, str]) -> str:
        asked = self.codes.pop(form["code"], None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or proof != asked["code_challenge"] or form["redirect_uri"] != asked["redirect_uri"]:
            raise Refused("invalid_grant")
        return asked["user"]

    def device(self) -> dict[str, Any]:
        code, shown = secrets.token_urlsafe(12), secrets.token_hex(2).upper()
        self.devices[code] = {"shown": shown, "user": ""}
        address = f"{self.issuer}/device"
        return {
            "device_code": code,
            "user_code": shown,
            "verification_uri": address,
            "verification_uri_complete": f"{address}?user_code={shown}",
            "expires_in": 60,
            "interval": 0.1,
        }

    def approved(self, code: str) -> str:
        device = self.devices.get(code)
        if device is None:
            raise Refused("expired_token")
        if device["user"] == "nobody":
            raise Refused("access_denied")
        if not device["user"]:
            raise Refused("authorization_pending")
        del self.devices[code]
        return str(device["user"])

    def approve(self, form: dict[str, str]) -> None:
        for device in self.devices.values():
            if device["shown"] == form["user_code"]:
                device["user"] = form["user"]

    def revoke(self, token: str) -> None:
        self.revoked.add(token)
        self.refresh.pop(token, None)


class Page(BaseHTTPRequestHandler):
    provider: Provider

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        match parts.path:
            case "/.well-known/openid-configuration":
                self.answer(200, self.provider.description())
            case "/jwks":
                self.answer(200, self.provider.jwks())
            case "/userinfo":
                token = self.headers.get("Authorization", "").removeprefix("Bearer ")
                self.answer(401 if token in self.provider.revoked else 200, {})
            case "/authorize":
                hidden = "".join(
                    f'<input type="hidden" name="{html.escape(name)}" value="{html.escape(value)}">'
                    for name, value in query.items()
                )
                form = (
                    f'<form method="post" action="/authorize">{hidden}<input name="user"><input name="password"></form>'
                )
                self.answer(200, form.encode(), kind="text/html")
            case _:
                self.answer(404, {"error": "not_found"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        if self.path == "/control":
            return self.control(json.loads(body))
        form = {name: values[0] for name, values in parse_qs(body).items()}
        try:
            match self.path:
                case "/authorize":
                    self.send_response(302)
                    self.send_header("Location", self.provider.login(form))
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                case "/token":
                    self.answer(200, self.provider.grant(form))
                case "/device_authorization":
                    self.answer(200, self.provider.device())
                case "/device":
                    self.provider.approve(form)
                    self.answer(200, {})
                case "/revoke":
                    self.provider.revoke(form["token"])
                    self.answer(200, {})
                case _:
                    self.answer(404, {"error": "not_found"})
        except Refused as refusal:
            self.answer(refusal.status, {"error": refusal.error})

    def control(self, asked: dict[str, Any]) -> None:
        if asked.get("rotate"):
            self.provider.rotate()
        self.provider.lifetime = asked.get("lifetime", self.provider.lifetime)
        self.provider.claims = asked.get("claims", self.provider.claims)
        self.answer(200, {"revoked": sorted(self.provider.revoked)})

    def answer(self, status: int, body: dict[str, Any] | bytes, *, kind: str = "application/json") -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main() -> None:
    port, *files = sys.argv[1:]
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Page)
    if files:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    issuer = f"{'https' if files else 'http'}://localhost:{server.server_address[1]}"
    Page.provider = Provider(issuer)
    sys.stdout.write(f"{issuer}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
