"""The client of a schema registry with Confluent's interface: schemas by ID, the latest of a subject, registering.

The schema of an ID never changes, so each process requests it once. An unknown ID is also cached for a while, so that a
stream with unrelated bytes does not cause a request per entry. Every response becomes a schema or an error with advice.
Errors never contain the password.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from streamclient.config.address import Tls
from streamclient.errors import error, fail
from streamclient.formats.schemas import Kind, Reference, Schema
from streamclient.sockets import tls_context
from streamwire.errors import InvalidTextError

if TYPE_CHECKING:  # HTTP takes time to import, and few queries need it
    import urllib.error
    import urllib.request

_TYPE = "application/vnd.schemaregistry.v1+json"
_ATTEMPTS = 3
_PAUSE_SECONDS = 0.2  # before the second attempt; doubled before the third
_TRANSIENT = (429, 500, 502, 503, 504)
_UNKNOWN_SECONDS = 60.0  # time for which an unknown ID is not requested again
_DEEPEST = 20  # maximum depth of references
#: Maximum size of a reply in bytes.
_MOST_BYTES = 16 << 20
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

    `seconds`: timeout of a response. `token`: bearer token, instead of `user` and `password`.
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
        if found is None and clock() >= cache.unknown.get(schema_id, 0.0):
            answer = self._ask("GET", f"/schemas/ids/{schema_id}", missing=True)
            if answer is None:
                cache.unknown[schema_id] = clock() + _UNKNOWN_SECONDS
            else:
                found = cache.schemas[schema_id] = self._schema(answer, f"/schemas/ids/{schema_id}")
        return found

    def latest(self, subject: str) -> Registered | None:
        """Return the latest schema of a subject; None if the subject has none."""
        return self._version(subject, "latest")

    def _version(self, subject: str, version: str | int) -> Registered | None:
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        answer = self._ask("GET", path, missing=True)
        if answer is None:
            return None
        return Registered(self._schema(answer, path), int(answer["id"]), int(answer["version"]))

    def register(self, subject: str, schema: Schema) -> int:
        """Register a schema in a subject, and return its new or existing ID. Raises SCHEMA_INCOMPATIBLE."""
        body: dict[str, Any] = {"schema": schema.text, "schemaType": schema.kind}
        if schema.references:
            body["references"] = [self._registered(each) for each in schema.references]
        answer = self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", body, subject=subject)
        return int(answer["id"])

    def id_of(self, subject: str, schema: Schema) -> int | None:
        """Return the ID of a schema in a subject; None if the subject does not have it."""
        body = {"schema": schema.text, "schemaType": schema.kind}
        answer = self._ask("POST", f"/subjects/{quote(subject, safe='')}", body, missing=True)
        return None if answer is None else int(answer["id"])

    def _registered(self, reference: Reference) -> dict[str, Any]:
        """Return a reference in the registry's form. A schema without a version is registered first."""
        subject, version = reference.subject or reference.name, reference.version
        if not version:
            self.register(subject, reference.schema)
            answer = self._ask(
                "POST",
                f"/subjects/{quote(subject, safe='')}",
                {"schema": reference.schema.text, "schemaType": reference.schema.kind},
            )
            version = int(answer["version"])
        return {"name": reference.name, "subject": subject, "version": version}

    def _schema(self, answer: Any, path: str, depth: int = 0) -> Schema:
        """Return the schema in a response, with the schemas that it refers to."""
        kind: Kind = answer.get("schemaType") or "AVRO"
        text = str(answer["schema"])
        if kind == "PROTOBUF":
            text = self._serialized(path) or text
        if depth == _DEEPEST:
            fail("SCHEMA_UNUSABLE", source=f"at {self.url}{path}", reason="its references are nested too deep")
        references = []
        for each in answer.get("references") or ():
            name, subject, version = each["name"], each["subject"], int(each["version"])
            there = f"/subjects/{quote(subject, safe='')}/versions/{version}"
            schema = self._schema(self._ask("GET", there), there, depth + 1)
            references.append(Reference(name, schema, subject, version))
        return Schema(kind, text, tuple(references))

    def _serialized(self, path: str) -> str | None:
        """Return a Protobuf schema as the Base64 of a FileDescriptorProto; None if the registry has only its text.

        This form is requested first, since the text needs a compiler.
        """
        answer = self._ask("GET", f"{path}?format=serialized", missing=True)
        text = str((answer or {}).get("schema", ""))
        try:
            return text if base64.b64decode(text, validate=True) else None
        except ValueError:
            return None

    def _ask(self, method: str, path: str, body: Any = None, *, missing: bool = False, subject: str = "") -> Any:
        """Return the response to a request. `missing`: whether to return None if the object does not exist."""
        import http.client  # noqa: PLC0415 - as above
        import urllib.error  # noqa: PLC0415
        import urllib.request  # noqa: PLC0415

        request = urllib.request.Request(  # noqa: S310 - `at` takes http and https alone
            self.url + path,
            None if body is None else json.dumps(body).encode(),
            {"Accept": f"{_TYPE}, application/json", **({} if body is None else {"Content-Type": _TYPE})},
            method=method,
        )
        if self.token is not None:
            request.add_header("Authorization", f"Bearer {self.token}")
        elif self.user is not None:
            login = base64.b64encode(f"{self.user}:{self.password or ''}".encode()).decode()
            request.add_header("Authorization", f"Basic {login}")
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_PAUSE_SECONDS * 2 ** (attempt - 1))
            try:
                return self._answer(request)
            except urllib.error.HTTPError as refused:
                with refused:
                    if refused.code == 404 and missing:
                        return None
                    if refused.code in _TRANSIENT and attempt + 1 < _ATTEMPTS:
                        continue
                    self._refused(refused, f"{method} {path}", subject)
            except (OSError, http.client.HTTPException) as failure:
                if attempt + 1 == _ATTEMPTS:
                    reason = getattr(failure, "reason", None) or failure
                    raise error("REGISTRY_UNREACHABLE", registry=self.url, reason=reason) from failure
        return None  # the last attempt answered or raised

    def _answer(self, request: urllib.request.Request) -> Any:
        import urllib.request  # noqa: PLC0415 - as above

        context = tls_context(self.tls) if self.url.startswith("https") else None
        with urllib.request.urlopen(request, timeout=self.seconds, context=context) as reply:  # noqa: S310 - as above
            text = reply.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            reason = f"a reply of more than {_MOST_BYTES:,} bytes"
            raise error("REGISTRY_REFUSED", registry=self.url, request=request.get_method(), status=200, reason=reason)
        try:
            return json.loads(text)
        except ValueError as cause:
            shown = text[:_SHOWN].decode("utf-8", "replace")
            raise error(
                "REGISTRY_REFUSED", registry=self.url, request=request.get_method(), status=200, reason=shown
            ) from cause

    def _refused(self, refused: urllib.error.HTTPError, request: str, subject: str) -> None:
        """Raise the error for a response with an error status."""
        text = refused.read(_MOST_BYTES).decode("utf-8", "replace")
        try:
            reason = str(json.loads(text)["message"])
        except (ValueError, KeyError, TypeError):
            reason = text or str(refused.reason)
        parameters = {"registry": self.url, "reason": reason[:_SHOWN].strip().rstrip(".")}
        if refused.code == 409 and subject:
            raise error("SCHEMA_INCOMPATIBLE", subject=subject, **parameters) from refused
        condition = "REGISTRY_LOGIN_REFUSED" if refused.code in (401, 403) else "REGISTRY_REFUSED"
        raise error(condition, request=request, status=refused.code, **parameters) from refused


@dataclass
class _Cache:
    """Schemas of a registry by ID. `unknown`: time, in seconds of the clock, until which an ID counts as missing."""

    schemas: dict[int, Schema] = field(default_factory=dict)
    unknown: dict[int, float] = field(default_factory=dict)


_CACHES: dict[Registry, _Cache] = {}
