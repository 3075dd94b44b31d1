"""Logins with OpenID Connect: the code flow with PKCE, state and nonce, by authlib.

At the start of a login the browser gets a cookie with a number, under which this process keeps the state and nonce. The
ID token must be signed by one of the provider's keys, name this client as its audience, come from the configured issuer
and not be expired. One of its claims has the user's roles. Viewers see everything that the dashboard's own user may
read. Operators may also make changes, if the dashboard allows changes.
"""

from __future__ import annotations

import logging
import secrets
import time
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from pystreams.dashboard.endpoints import Endpoints

# authlib warns of changes in its own dependencies, which an operator cannot influence.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from authlib.integrations.base_client import OAuthError
    from authlib.integrations.starlette_client import OAuth

_log = logging.getLogger("pystreams.dashboard")

_MOST_STARTED, _STARTED_SECONDS = 1_000, 600.0  # maximum number of unfinished logins, and their maximum duration
_LEEWAY_SECONDS = 30  # tolerated difference between the clocks of the provider and of this machine
_PROVIDER_SECONDS = 10.0  # timeout of a request to the provider
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_NAMES = ("preferred_username", "email", "sub")  # claims that name a user; the first claim that exists is shown
_MOST_CHARACTERS = 200  # maximum length of a user's name


@dataclass(frozen=True)
class Provider:
    """The provider, and the dashboard's registration as its client.

    `claim`: name of the claim with the roles, or its path in nested claims, such as `a.b`.
    """

    issuer: str
    client: str
    secret: str = field(repr=False, default="")
    claim: str = "roles"
    viewer: str = "viewer"
    operator: str = "operator"


def roles(claims: Mapping[str, Any], path: str) -> list[str]:
    """Return the roles in a claim, which is a list of roles, or a string with roles separated by spaces."""
    value: Any = claims.get(path)
    if value is None:
        value = claims
        for part in path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, str):
        return value.split()
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


class Oidc:
    """Logins with one provider."""

    def __init__(self, provider: Provider, cookie: str) -> None:
        self._provider = provider
        self._cookie = f"{cookie}-oidc"
        self._started: OrderedDict[str, tuple[float, dict[str, Any]]] = OrderedDict()
        self._client = OAuth().register(
            "oidc",
            client_id=provider.client,
            client_secret=provider.secret or None,
            server_metadata_url=f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={
                "scope": "openid profile email",
                "code_challenge_method": "S256",
                "timeout": _PROVIDER_SECONDS,
                **({} if provider.secret else {"token_endpoint_auth_method": "none"}),
            },
        )

    def routes(self, endpoints: Endpoints) -> list[BaseRoute]:
        """Return the routes for the start and end of a login."""

        async def callback(request: Request) -> Response:
            return await self._finish_login(request, endpoints)

        return [Route("/oidc/login", self._start_login), Route("/oidc/callback", callback)]

    async def _start_login(self, request: Request) -> Response:
        """Redirect the browser to the provider."""
        now = time.monotonic()
        while self._started and (
            len(self._started) >= _MOST_STARTED or now - next(iter(self._started.values()))[0] > _STARTED_SECONDS
        ):
            self._started.popitem(last=False)
        number = secrets.token_urlsafe(32)
        session: dict[str, Any] = {}
        request.scope["session"] = session
        try:
            answer: Response = await self._client.authorize_redirect(request, f"{request.base_url}oidc/callback")
        except Exception as failure:  # noqa: BLE001 - a provider may fail in many ways, and the log shows each
            _log.warning("The OIDC provider cannot be used: %s.", failure)
            return _back("provider")
        self._started[number] = now, session
        # Lax, since the provider sends the browser back from another site.
        answer.set_cookie(
            self._cookie,
            number,
            path="/oidc",
            max_age=int(_STARTED_SECONDS),
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https",
        )
        return answer

    async def _finish_login(self, request: Request, endpoints: Endpoints) -> Response:
        """Check the provider's response, and start a session as the dashboard's own user of the server."""
        started, session = self._started.pop(request.cookies.get(self._cookie, ""), (0.0, {}))
        if time.monotonic() - started > _STARTED_SECONDS:
            session = {}
        request.scope["session"] = session
        provider = self._provider
        try:
            metadata = await self._client.load_server_metadata()
            if metadata.get("issuer") != provider.issuer:
                return _refused("provider", f"the provider's metadata name the issuer {metadata.get('issuer')!r}")
            signed = metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
            metadata["id_token_signing_alg_values_supported"] = [each for each in signed if each in _ALGORITHMS]
            token = await self._client.authorize_access_token(
                request,
                leeway=_LEEWAY_SECONDS,
                claims_options={
                    "iss": {"essential": True, "value": provider.issuer},
                    "aud": {"essential": True, "value": provider.client},
                    "exp": {"essential": True},
                    "sub": {"essential": True},
                },
            )
        except OAuthError as failure:
            return _refused("refused", str(failure))
        except Exception as failure:  # noqa: BLE001 - a token or provider may be wrong in many ways
            return _refused("refused", f"{type(failure).__name__}: {failure}")
        claims = token.get("userinfo")
        if not claims:
            return _refused("refused", "the provider sent no ID token")
        found = roles(claims, provider.claim)
        if provider.operator not in found and provider.viewer not in found:
            return _refused("role", f"the claim {provider.claim} has neither the viewer's nor the operator's role")
        user = next(str(claims[name]) for name in _NAMES if claims.get(name))[:_MOST_CHARACTERS]
        answer = RedirectResponse("/", 303)
        operator = provider.operator in found
        number, _ = endpoints.sessions.start(endpoints.rules.address, user, whole=True, operator=operator)
        endpoints.admit(request, answer, number)
        answer.delete_cookie(self._cookie, path="/oidc", httponly=True, samesite="lax")
        return answer


def _refused(kind: str, reason: str) -> Response:
    _log.warning("A login with OIDC was refused: %s.", reason)
    return _back(kind)


def _back(kind: str) -> Response:
    """Redirect the browser to the login page, which explains the kind of failure."""
    return RedirectResponse(f"/#login={kind}", 303)
