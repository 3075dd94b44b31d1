"""Login with OpenID Connect, against a local provider that verifies the client's requests."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import redis
from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.testclient import TestClient

from pystreams.dashboard.login import Rules
from pystreams.dashboard.oidc import Oidc, Provider, roles
from pystreams.dashboard.run import site
from pystreams.dashboard.sampler import Sampler
from tests import servers
from tests.pystreams.conftest import Cli
from tests.pystreams.dashboard.conftest import TOKEN, address_of

_ENGINE = pytest.mark.parametrize("instance", ["engine"], indirect=True)

_CLIENT = "dashboard"
_KEY = RSAKey.generate_key(2048, {"kid": "one"})


class _Provider(ThreadingHTTPServer):
    """A provider. `change` may modify the claims of issued tokens, and `signer` is the key that signs them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.issuer = self.named = f"http://127.0.0.1:{self.server_port}"
        self.key = self.signer = _KEY
        self.codes: dict[str, dict[str, str]] = {}
        self.change: Callable[[dict[str, Any]], None] = lambda _: None

    def answer(self, path: str) -> Any:
        if path == "/.well-known/openid-configuration":
            return {
                "issuer": self.named,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "id_token_signing_alg_values_supported": ["RS256", "none", "HS256"],
            }
        return {"keys": [self.key.as_dict(private=False)]} if path == "/keys" else None

    def authorize(self, url: str) -> str:
        """Return the redirect URL for the browser after its user has logged in."""
        given = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert (given["client_id"], given["response_type"], given["code_challenge_method"]) == (_CLIENT, "code", "S256")
        assert "openid" in given["scope"]
        code = secrets.token_urlsafe()
        self.codes[code] = given
        return f"{given['redirect_uri']}?{urlencode({'code': code, 'state': given['state']})}"

    def token(self, given: dict[str, str]) -> dict[str, Any] | None:
        asked = self.codes.pop(given.get("code", ""), None)
        if asked is None or given.get("redirect_uri") != asked["redirect_uri"]:
            return None
        digest = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != asked["code_challenge"]:
            return None
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": self.issuer,
            "aud": _CLIENT,
            "sub": "17",
            "nonce": asked["nonce"],
            "iat": now,
            "exp": now + 300,
            "preferred_username": "ada",
            "roles": ["viewer"],
        }
        self.change(claims)
        token = jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.signer)
        return {"access_token": "opaque", "token_type": "Bearer", "id_token": token}


class _Handler(BaseHTTPRequestHandler):
    server: _Provider

    def do_GET(self) -> None:
        self._send(self.server.answer(self.path))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        self._send(self.server.token({name: values[0] for name, values in parse_qs(body).items()}), 400)

    def _send(self, document: Any, missing: int = 404) -> None:
        body = json.dumps(document or {"error": "invalid_grant"}).encode()
        self.send_response(missing if document is None else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def provider() -> Iterator[_Provider]:
    """A running provider."""
    with _Provider() as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.01,))
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@contextmanager
def _dashboard(instance: servers.Running, provider: _Provider) -> Iterator[TestClient]:
    """Run a dashboard that uses this provider and allows changes."""
    address = address_of(instance.url)
    oidc = Oidc(Provider(provider.issuer, _CLIENT), "pystreams")
    app = site(Rules(address, TOKEN, True, True), Sampler(address, 0.05), oidc=oidc)
    with TestClient(app, base_url="http://127.0.0.1:8379", follow_redirects=False) as web:
        yield web


def _log_in(web: TestClient, provider: _Provider) -> str:
    """Log in as a browser does, and return the path of the page reached."""
    begun = web.get("/oidc/login")
    assert begun.status_code == 302, begun.text
    ended = web.get(provider.authorize(begun.headers["location"]))
    assert ended.status_code == 303
    return str(ended.headers["location"])


def _change(web: TestClient) -> int:
    csrf = web.get("/api/session").json()["session"]["csrf"]
    given = {"stream": "s", "ids": ["1-0"]}
    return web.post("/api/changes/purge", json=given, headers={"x-csrf-token": csrf}).status_code


@_ENGINE
def test_a_viewer_reads_and_an_operator_changes(
    instance: servers.Running, client: redis.Redis, provider: _Provider
) -> None:
    """Viewers and operators are logged in, and only operators may make changes."""
    client.xadd("s", {"a": 1})
    with _dashboard(instance, provider) as web:
        assert web.get("/api/session").json()["oidc"] is True
        assert _log_in(web, provider) == "/"
        facts = web.get("/api/session").json()
        assert (facts["session"]["user"], facts["changes"], facts["operator"]) == ("ada", False, False)
        assert _change(web) == 403
        provider.change = lambda claims: claims.update(roles="operator", preferred_username="grace")
        assert _log_in(web, provider) == "/"
        facts = web.get("/api/session").json()
        assert (facts["session"]["user"], facts["changes"]) == ("grace", True)
        assert _change(web) == 200


@_ENGINE
def test_a_login_without_a_password_gives_no_role(instance: servers.Running, provider: _Provider) -> None:
    """If a provider is configured, a login to a server without a password is rejected."""
    with _dashboard(instance, provider) as web:
        _log_in(web, provider)
        answer = web.post("/api/login", json={"user": "", "password": ""})
        assert (answer.status_code, answer.json()["error"]["id"]) == (403, "PASSWORD_PROVES_NOTHING")
        assert web.get("/api/session").json()["operator"] is False


@pytest.mark.parametrize(
    ("change", "ends"),
    [
        ({"exp": 1_000_000_000}, "refused"),
        ({"exp": None}, "refused"),
        ({"iss": "http://127.0.0.1:1"}, "refused"),
        ({"aud": "another"}, "refused"),
        ({"nonce": "another"}, "refused"),
        ({"sub": None}, "refused"),
        ({"roles": ["reader"]}, "role"),
        ({"roles": None}, "role"),
        ({"signer": RSAKey.generate_key(2048, {"kid": "one"})}, "refused"),
        ({"named": "http://127.0.0.1:1"}, "provider"),
    ],
)
@_ENGINE
def test_wrong_tokens_are_refused(
    instance: servers.Running, provider: _Provider, caplog: pytest.LogCaptureFixture, change: dict[str, Any], ends: str
) -> None:
    """Tokens that are expired, from another issuer, for another client or login, without a known role, or signed by
    another key are rejected, and so is a provider whose metadata names another issuer.
    """

    def changed(claims: dict[str, Any]) -> None:
        for name in change.keys() & claims.keys():
            claims[name] = change[name]
            if change[name] is None:
                del claims[name]

    provider.change = changed
    provider.signer, provider.named = change.get("signer", _KEY), change.get("named", provider.issuer)
    with _dashboard(instance, provider) as web, caplog.at_level(logging.WARNING):
        assert _log_in(web, provider) == f"/#login={ends}"
        assert web.get("/api/session").json()["session"] is None
    assert "A login with OIDC was refused" in caplog.text


@_ENGINE
def test_an_unexpected_callback_is_rejected(instance: servers.Running, provider: _Provider) -> None:
    """A callback fails without the browser's cookie, with another state or code, and if it is repeated."""
    with _dashboard(instance, provider) as web, _dashboard(instance, provider) as other:
        begun = web.get("/oidc/login")
        back = provider.authorize(begun.headers["location"])
        assert other.get(back).headers["location"] == "/#login=refused"
        wrong = back.replace("state=", "state=x")
        assert web.get(wrong).headers["location"] == "/#login=refused"
        begun = web.get("/oidc/login")
        back = provider.authorize(begun.headers["location"])
        stolen = parse_qs(urlsplit(provider.authorize(other.get("/oidc/login").headers["location"])).query)["code"][0]
        mixed = back.replace(parse_qs(urlsplit(back).query)["code"][0], stolen)
        assert web.get(mixed).headers["location"] == "/#login=refused"
        begun = web.get("/oidc/login")
        back = provider.authorize(begun.headers["location"])
        assert web.get(back).headers["location"] == "/"
        assert web.get(back).headers["location"] == "/#login=refused"


@_ENGINE
def test_an_unreachable_provider_is_reported(instance: servers.Running, provider: _Provider) -> None:
    """If the provider is unreachable, the login page says so, and a login with the token still works."""
    provider.shutdown()
    provider.server_close()
    with _dashboard(instance, provider) as web:
        assert web.get("/oidc/login").headers["location"] == "/#login=provider"
        assert web.post("/api/login", json={"token": TOKEN}).status_code == 200


def test_roles_are_found_in_claims_of_several_forms() -> None:
    """Roles may be a list, a space-separated text, a nested claim, or a claim whose name has dots."""
    assert roles({"roles": ["a", 1, "b"]}, "roles") == ["a", "b"]
    assert roles({"scope": "a b"}, "scope") == ["a", "b"]
    assert roles({"realm_access": {"roles": ["a"]}}, "realm_access.roles") == ["a"]
    assert roles({"urn:x.y/roles": ["a"]}, "urn:x.y/roles") == ["a"]
    assert roles({"roles": {"a": 1}}, "roles") == roles({}, "a.b") == []


def test_options_of_a_provider_are_checked(cli_of: Cli) -> None:
    """An issuer without a client ID, or without TLS, is rejected."""
    assert "--oidc-client" in cli_of.failure("ui", "--oidc-issuer", "https://x", status=2)
    plain = ("--oidc-issuer", "http://login.example.com", "--oidc-client", "c")
    assert "must begin with https://" in cli_of.failure("ui", *plain, status=2)
