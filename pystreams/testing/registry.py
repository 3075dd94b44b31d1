"""A schema registry for tests: the part of Confluent's interface that clients need, on a loopback port.

It keeps subjects, versions and IDs in memory. It does not compare schemas: `refusal` answers 409 as a real registry
does for a schema that is incompatible with its subject's others.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

_PATHS = (
    ("GET", r"/schemas/ids/(\d+)", "_by_id"),
    ("GET", r"/subjects/([^/]+)/versions/(\d+|latest)", "_by_version"),
    ("POST", r"/subjects/([^/]+)/versions", "_register"),
    ("POST", r"/subjects/([^/]+)", "_look_up"),
)


@dataclass(frozen=True)
class _Stored:
    schema_id: int
    subject: str
    version: int
    kind: str
    text: str
    references: tuple[dict[str, Any], ...]

    def answer(self) -> dict[str, Any]:
        found: dict[str, Any] = {"schema": self.text, "references": list(self.references)}
        if self.kind != "AVRO":  # registries omit the type AVRO, which was once the only type
            found["schemaType"] = self.kind
        return found


class _RefusedError(Exception):
    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error_code": code, "message": message}


class SchemaRegistry:
    """A running registry.

    `requests`: the received requests, such as "GET /schemas/ids/1". `login`: "user:password"; None for no login.
    `serialized`: whether Protobuf schemas are also available as descriptors. `status`: HTTP status of all answers,
    or 0 for normal answers. `refusal`: reason for refusing new versions of a subject; empty to accept them.
    """

    def __init__(
        self,
        *,
        login: str | None = None,
        serialized: bool = True,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.login = login
        self.serialized = serialized
        self.status = 0
        self.refusal = ""
        self.requests: list[str] = []
        self._stored: list[_Stored] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        host = "localhost" if tls is not None else "127.0.0.1"
        # Each registry has a unique path, since a process caches answers by URL, and ports are reused.
        self._path = f"/{uuid.uuid4().hex[:12]}"
        self.url = f"{'http' if tls is None else 'https'}://{host}:{self._server.server_address[1]}{self._path}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def add(
        self, subject: str, text: str, kind: Literal["AVRO", "PROTOBUF", "JSON"] = "AVRO", **references: str
    ) -> int:
        """Add a schema to a subject, and return its ID. `references`: subjects by the names that the text uses."""
        body = {
            "schema": text,
            "schemaType": kind,
            "references": [
                {"name": name, "subject": other, "version": self._of(other)[-1].version}
                for name, other in references.items()
            ],
        }
        found: int = self._register(body, subject)["id"]
        return found

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()

    def answer(self, method: str, path: str, login: str, body: Any) -> tuple[int, Any]:
        """Return the status and the answer to a request."""
        with self._lock:
            path = path.removeprefix(self._path)
            self.requests.append(f"{method} {path}")
            parts = urlsplit(path)
            try:
                if self.status:
                    raise _RefusedError(self.status, self.status, "status set by the test")
                expected = base64.b64encode((self.login or "").encode()).decode()
                if self.login is not None and login != f"Basic {expected}":
                    raise _RefusedError(401, 401, "Unauthorized")
                for verb, pattern, name in _PATHS:
                    found = re.fullmatch(pattern, parts.path)
                    if verb == method and found is not None:
                        answer = getattr(self, name)(body, *map(unquote, found.groups()))
                        return 200, self._serialized(answer) if "format=serialized" in parts.query else answer
                raise _RefusedError(404, 404, "HTTP 404 Not Found")
            except _RefusedError as refused:
                return refused.status, refused.body

    def _of(self, subject: str) -> list[_Stored]:
        return [each for each in self._stored if each.subject == subject]

    def _by_id(self, _: Any, schema_id: str) -> Any:
        found = next((each for each in self._stored if each.schema_id == int(schema_id)), None)
        if found is None:
            raise _RefusedError(404, 40403, f"Schema {schema_id} not found")
        return found.answer()

    def _by_version(self, _: Any, subject: str, version: str) -> Any:
        there = self._of(subject)
        if not there:
            raise _RefusedError(404, 40401, f"Subject '{subject}' not found.")
        found = there[-1] if version == "latest" else next((e for e in there if e.version == int(version)), None)
        if found is None:
            raise _RefusedError(404, 40402, f"Version {version} not found.")
        return {**found.answer(), "subject": subject, "version": found.version, "id": found.schema_id}

    def _look_up(self, body: Any, subject: str) -> Any:
        found = next((each for each in self._of(subject) if each.text == body["schema"]), None)
        if found is None:
            raise _RefusedError(404, 40403, "Schema not found")
        return self._by_version(None, subject, str(found.version))

    def _register(self, body: Any, subject: str) -> Any:
        kind, text = body.get("schemaType", "AVRO"), body["schema"]
        there = self._of(subject)
        known = next((each for each in there if each.text == text), None)
        if known is not None:
            return {"id": known.schema_id}
        if there and self.refusal:
            reason = f'Schema being registered is incompatible with an earlier schema for subject "{subject}"'
            raise _RefusedError(409, 409, f"{reason}, details: {self.refusal}")
        same = next((each for each in self._stored if (each.kind, each.text) == (kind, text)), None)
        schema_id = len({each.schema_id for each in self._stored}) + 1 if same is None else same.schema_id
        version = there[-1].version + 1 if there else 1
        self._stored.append(_Stored(schema_id, subject, version, kind, text, tuple(body.get("references") or ())))
        return {"id": schema_id}

    def _serialized(self, answer: Any) -> Any:
        """Return an answer with its schema as a descriptor, if `serialized` is set."""
        if not self.serialized:
            return answer
        from streamclient.formats import protobuf  # noqa: PLC0415 - only Protobuf needs its package

        return {**answer, "schema": protobuf.serialized(answer["schema"])}


def _handler(registry: SchemaRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply("GET", None)

        def do_POST(self) -> None:
            self._reply("POST", json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0)))))

        def _reply(self, method: str, body: Any) -> None:
            status, answer = registry.answer(method, self.path, self.headers.get("Authorization", ""), body)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
            """Log nothing, to keep the test's output clean."""

    return Handler


@contextmanager
def schema_registry(**settings: Any) -> Iterator[SchemaRegistry]:
    """Run a registry within a `with` block. The arguments are those of `SchemaRegistry`."""
    made = SchemaRegistry(**settings)
    try:
        yield made
    finally:
        made.close()
