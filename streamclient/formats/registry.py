"""The client of a schema registry with Confluent's interface: schemas by ID, latest schemas of subjects, registration.

The schema of an ID never changes, so each process requests it once. Unknown IDs are also cached, for a minute. After a
hundred of them, further IDs count as unknown without a request, so that a stream with unrelated bytes does not cause a
request per entry. Every response, even a malformed or slow one, becomes a schema or an error with advice. Errors never
contain the password. A redirect is an error, since following it would send the password to another server.

A request and its reply have one deadline. A timeout of a socket starts again with each byte, so a server that sends
slowly would never exceed such a timeout.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import io
import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, get_args
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from streamclient.config.address import Tls
from streamclient.errors import error
from streamclient.formats.schemas import Kind, Reference, Schema
from streamclient.sockets import tls_context
from streamwire.errors import InvalidTextError


def reply(request: urllib.request.Request, until: float, context: ssl.SSLContext | None, most: int) -> bytes:
    """Return the reply's content, or its first `most` bytes. `until`: deadline on the clock `time.monotonic`.

    Raises HTTPException and OSError, which includes HTTPError and TimeoutError.
    """
    handlers: list[Any] = [_NoRedirects(), _handler(urllib.request.HTTPHandler, http.client.HTTPConnection, until)]
    if context is not None:
        handlers.append(_handler(urllib.request.HTTPSHandler, http.client.HTTPSConnection, until, context=context))
    opener = urllib.request.build_opener(*handlers)
    with opener.open(request, timeout=_left(until)) as found:
        content: bytes = found.read(most)
        if found.length and len(content) < most:
            raise http.client.IncompleteRead(content, found.length)
        return content


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Turns redirects into HTTPErrors: following a redirect would send the login to another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _handler(handler: Any, connection: Any, until: float, **settings: Any) -> Any:
    """Return a handler of urllib that stops reading a reply at the deadline `until`."""

    class Response(http.client.HTTPResponse):
        def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
            super().__init__(sock, *args, **kwargs)
            self.fp = io.BufferedReader(_Timed(self.fp.detach(), sock, until))

    class Connection(connection):  # type: ignore[misc]
        response_class = Response

    class Handler(handler):  # type: ignore[misc]
        def do_open(self, _: Any, request: Any, **arguments: Any) -> Any:
            return super().do_open(Connection, request, **arguments)

    return Handler(**settings)


class _Timed(io.RawIOBase):
    """Reads a socket's stream. Raises TimeoutError after a deadline."""

    def __init__(self, stream: Any, sock: socket.socket, until: float) -> None:
        self._stream = stream
        self._socket = sock
        self._until = until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Any:
        self._socket.settimeout(_left(self._until))
        return self._stream.readinto(buffer)

    def close(self) -> None:
        self._stream.close()
        super().close()


_TYPE = "application/vnd.schemaregistry.v1+json"
_ATTEMPTS = 3  # maximum number of attempts of a request
_PAUSE_SECONDS = 0.2  # pause after the first attempt; doubled after the second
_TRANSIENT = (429, 500, 502, 503, 504)  # HTTP statuses after which a request is repeated
_UNKNOWN_SECONDS = 60.0  # time for which an unknown ID is not requested again
_MOST_UNKNOWN = 100  # maximum number of unknown IDs that are requested in this time
_ID_LIMIT = 2**31  # IDs are positive 32-bit integers
_DEEPEST = 20  # maximum depth of references
_MOST_REFERENCES = 1000  # maximum number of a schema's direct and indirect references
#: Maximum size of a reply in bytes.
MOST_BYTES = 16 << 20
_SHOWN = 300  # maximum number of characters of a response in an error


@dataclass(frozen=True)
class Registered:
    """A schema registered in a subject."""

    schema: Schema
    schema_id: int
    version: int


@dataclass(frozen=True)
class Registry:
    """A registry's address and login. It is pickled for the workers; responses are cached per process.

    `seconds`: maximum time of a call, including retries and references. `token`: bearer token, instead of `user` and
    `password`.
    """

    url: str
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls: Tls = field(default_factory=Tls)
    seconds: float = 10.0

    @classmethod
    def at(cls, url: str, **settings: Any) -> Registry:
        """Return the registry at an HTTP URL, which may contain user and password. Raises InvalidTextError."""
        parts = urlsplit(url.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidTextError("it must begin with http:// or https:// and name a host", shown="(not shown)")
        host = parts.netloc.rpartition("@")[2]
        bare = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        made = cls(bare, **{name: value for name, value in settings.items() if value is not None})
        if made.user is None and parts.username:
            made = replace(made, user=unquote(parts.username), password=unquote(parts.password or ""))
        return made

    def __str__(self) -> str:
        return self.url

    def schema(self, schema_id: int, clock: Callable[[], float] = time.monotonic) -> Schema | None:
        """Return the schema with an ID; None if the registry does not have it."""
        cache = _CACHES.setdefault(self, _Cache())
        found = cache.schemas.get(schema_id)
        if found is None and schema_id < _ID_LIMIT and cache.may_ask(schema_id, clock()):
            call, path = _Call(self), f"/schemas/ids/{schema_id}"
            answer = call.find(path)
            if answer is None:
                cache.unknown[schema_id] = clock() + _UNKNOWN_SECONDS
            else:
                found = cache.schemas[schema_id] = call.schema(answer, path)
        return found

    def latest(self, subject: str) -> Registered | None:
        """Return the latest schema of a subject; None if the subject has none."""
        call, path = _Call(self), f"{_subject(subject)}/versions/latest"
        answer = call.find(path)
        if answer is None:
            return None
        return Registered(call.schema(answer, path), call.number(answer, "id"), call.number(answer, "version"))

    def register(self, subject: str, schema: Schema) -> int:
        """Register a schema in a subject, and return its new or existing ID. Raises SCHEMA_INCOMPATIBLE."""
        call = _Call(self)
        body = _body(schema)
        if schema.references:
            body["references"] = [self._registered(each) for each in schema.references]
        return call.number(call.post(f"{_subject(subject)}/versions", body, subject), "id")

    def id_of(self, subject: str, schema: Schema) -> int | None:
        """Return the ID of a schema in a subject; None if the subject does not have it."""
        call = _Call(self)
        answer = call.find(_subject(subject), _body(schema))
        return None if answer is None else call.number(answer, "id")

    def _registered(self, reference: Reference) -> dict[str, Any]:
        """Return a reference in the registry's form. A schema without a version is registered first."""
        subject, version = reference.subject or reference.name, reference.version
        if not version:
            self.register(subject, reference.schema)
            call = _Call(self)
            version = call.number(call.post(_subject(subject), _body(reference.schema)), "version")
        return {"name": reference.name, "subject": subject, "version": version}


def _pause(attempt: int) -> float:
    return _PAUSE_SECONDS * (1 << attempt)


def _subject(name: str) -> str:
    return f"/subjects/{quote(name, safe='')}"


def _body(schema: Schema) -> dict[str, Any]:
    return {"schema": schema.text, "schemaType": schema.kind}


class _Call:
    """The requests of one method call of `Registry`, with a common deadline. Malformed replies are raised as errors."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._url = registry.url
        self._until = time.monotonic() + registry.seconds
        self._references = 0
        self._asked = ""  # the last request, for errors

    def find(self, path: str, body: Any = None) -> Mapping[str, Any] | None:
        """Return the object at a path; with `body`, a subject's version with that schema. None if it does not exist."""
        return self._ask(path, body, missing=True)

    def post(self, path: str, body: Any, subject: str = "") -> Mapping[str, Any]:
        """Post `body` and return the answer. `subject`: subject in which the request registers a schema."""
        return self._ask(path, body, subject=subject) or {}

    def number(self, answer: Mapping[str, Any], name: str) -> int:
        """Return the number with this name in an answer. Raises REGISTRY_REFUSED if it is missing."""
        found = answer.get(name)
        return found if type(found) is int else self._malformed(f"it has no number '{name}'")

    def text(self, answer: Mapping[str, Any], name: str) -> str:
        """Return the text with this name in an answer. Raises REGISTRY_REFUSED if it is missing."""
        found = answer.get(name)
        return found if isinstance(found, str) else self._malformed(f"it has no text '{name}'")

    def schema(self, answer: Mapping[str, Any], path: str, depth: int = 0) -> Schema:
        """Return the schema in a response, with the schemas that it refers to."""
        kind: Kind = answer.get("schemaType") or "AVRO"
        if kind not in get_args(Kind):
            self._unusable(path, f"its type is {_shown(kind)}, not one of {', '.join(get_args(Kind))}")
        text = self.text(answer, "schema")
        if kind == "PROTOBUF":
            text = self._serialized(path) or text
        if depth == _DEEPEST:
            self._unusable(path, "its references are nested too deep")
        references = []
        found = answer.get("references") or []
        for each in found if isinstance(found, list) else self._malformed("its 'references' are not a list"):
            if not isinstance(each, dict):
                self._malformed("it has a reference that is not an object")
            self._references += 1
            if self._references > _MOST_REFERENCES:
                self._unusable(path, f"it has more than {_MOST_REFERENCES} references")
            name, subject, version = self.text(each, "name"), self.text(each, "subject"), self.number(each, "version")
            there = f"{_subject(subject)}/versions/{version}"
            schema = self.schema(self._ask(there) or {}, there, depth + 1)
            references.append(Reference(name, schema, subject, version))
        return Schema(kind, text, tuple(references))

    def _serialized(self, path: str) -> str | None:
        """Return a Protobuf schema as the Base64 of a FileDescriptorProto; None if the registry has only its text.

        This form is preferred, since the text needs a compiler.
        """
        answer = self.find(f"{path}?format=serialized")
        text = "" if answer is None else self.text(answer, "schema")
        try:
            return text if base64.b64decode(text, validate=True) else None
        except ValueError:
            return None

    def _ask(
        self, path: str, body: Any = None, *, missing: bool = False, subject: str = ""
    ) -> Mapping[str, Any] | None:
        """Return the response to a request. `missing`: whether to return None if the object does not exist."""
        request = self._request(path, body)
        self._asked = f"{request.get_method()} {path}"
        for attempt in range(_ATTEMPTS):
            try:
                return self._answer(request)
            except urllib.error.HTTPError as refused:
                with refused:
                    if refused.code == 404 and missing:
                        return None
                    if refused.code not in _TRANSIENT or self._is_last(attempt):
                        self._refused(refused, subject)
            except (OSError, http.client.HTTPException) as failure:
                if self._is_last(attempt):
                    reason = getattr(failure, "reason", None) or failure
                    shown = _shown(reason) or type(reason).__name__
                    raise error("REGISTRY_UNREACHABLE", registry=self._url, reason=shown) from failure
            time.sleep(_pause(attempt))
        return None  # not reached: the last attempt returns or raises

    def _is_last(self, attempt: int) -> bool:
        return attempt + 1 == _ATTEMPTS or time.monotonic() + _pause(attempt) >= self._until

    def _request(self, path: str, body: Any) -> urllib.request.Request:
        request = urllib.request.Request(  # noqa: S310 - `at` accepts only http and https
            self._url + path,
            None if body is None else json.dumps(body).encode(),
            {"Accept": f"{_TYPE}, application/json", **({} if body is None else {"Content-Type": _TYPE})},
        )
        registry = self._registry
        if registry.token is not None:
            request.add_header("Authorization", f"Bearer {registry.token}")
        elif registry.user is not None:
            login = base64.b64encode(f"{registry.user}:{registry.password or ''}".encode()).decode()
            request.add_header("Authorization", f"Basic {login}")
        return request

    def _answer(self, request: urllib.request.Request) -> Mapping[str, Any]:
        context = tls_context(self._registry.tls) if self._url.startswith("https") else None
        text = reply(request, self._until, context, MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            self._malformed(f"it has more than {MOST_BYTES:,} bytes")
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            self._malformed(f"it is not JSON: {_shown(text[:_SHOWN].decode('utf-8', 'replace'))}")
        return found if isinstance(found, dict) else self._malformed("it is not a JSON object")

    def _malformed(self, problem: str) -> NoReturn:
        """Raise the error for a reply that no registry would send."""
        reason = f"no registry would send this reply: {problem}"
        raise error("REGISTRY_REFUSED", registry=self._url, request=self._asked, status=200, reason=reason)

    def _unusable(self, path: str, reason: str) -> NoReturn:
        raise error("SCHEMA_UNUSABLE", source=f"at {self._url}{path}", reason=reason)

    def _refused(self, refused: urllib.error.HTTPError, subject: str) -> NoReturn:
        """Raise the error for a response with an error status."""
        text = ""
        with contextlib.suppress(OSError, http.client.HTTPException):
            text = refused.read(MOST_BYTES).decode("utf-8", "replace")
        try:
            reason = str(json.loads(text)["message"])
        except (ValueError, LookupError, TypeError, RecursionError):
            reason = text or str(refused.reason)
        if 300 <= refused.code < 400:
            reason = f"it redirects to {refused.headers.get('Location')}, which is not followed"
        parameters = {"registry": self._url, "reason": _shown(reason).rstrip(".")}
        if refused.code == 409 and subject:
            raise error("SCHEMA_INCOMPATIBLE", subject=subject, **parameters) from refused
        condition = "REGISTRY_LOGIN_REFUSED" if refused.code in (401, 403) else "REGISTRY_REFUSED"
        raise error(condition, request=self._asked, status=refused.code, **parameters) from refused


def _shown(value: object) -> str:
    """Return the text of a value from a registry, shortened and without control characters."""
    text = str(value)[:_SHOWN].strip()
    return "".join(each if each.isprintable() else " " for each in text)


@dataclass
class _Cache:
    """Schemas of a registry by ID. `unknown`: time, in seconds of the clock, until which an ID counts as missing."""

    schemas: dict[int, Schema] = field(default_factory=dict)
    unknown: dict[int, float] = field(default_factory=dict)

    def may_ask(self, schema_id: int, now: float) -> bool:
        """Return whether a schema that is not cached may be requested."""
        self.unknown = {each: until for each, until in self.unknown.items() if now < until}
        return schema_id not in self.unknown and len(self.unknown) < _MOST_UNKNOWN


_CACHES: dict[Registry, _Cache] = {}
