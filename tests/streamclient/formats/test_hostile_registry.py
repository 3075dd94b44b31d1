"""Hostile registries: each bad or missing reply raises an error with a condition within the time limit of a call."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from streamclient.errors import PystreamsError
from streamclient.formats.decoder import Decoder
from streamclient.formats.registry import Registry
from streamclient.formats.schemas import Schema, header

SECONDS = 0.5
#: Seconds until a call must have ended, on a machine that is busy.
DEADLINE = 20.0

Reply = Callable[[socket.socket, threading.Event], object]


def sent(content: bytes, status: str = "200 OK", *headers: str) -> Reply:
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(content)}", "Connection: close", *headers, "", "")
    return raw("\r\n".join(lines).encode() + content)


def raw(content: bytes) -> Reply:
    return lambda connection, _: connection.sendall(content)


def found(value: Any) -> Reply:
    return sent(json.dumps(value).encode())


def dripped(start: bytes, octet: bytes) -> Reply:
    """Return a reply that sends the start, and then one byte every 50 ms until the test ends."""

    def drip(connection: socket.socket, is_over: threading.Event) -> None:
        connection.sendall(start)
        while not is_over.wait(0.05):
            connection.sendall(octet)

    return drip


def endless(connection: socket.socket, is_over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while not is_over.is_set():
        connection.sendall(b" " * 65_536)


def silent(_: socket.socket, is_over: threading.Event) -> None:
    is_over.wait(DEADLINE)


@contextlib.contextmanager
def server(reply: Reply) -> Iterator[tuple[str, list[bytes]]]:
    """Answer every request with the same reply. Yields the URL and the requests."""
    is_over = threading.Event()
    requests: list[bytes] = []
    threads: list[threading.Thread] = []

    def answer(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            requests.append(connection.recv(65_536))
            reply(connection, is_over)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threads.append(threading.Thread(target=answer, args=(connection,)))
                threads[-1].start()

    listening = socket.create_server(("127.0.0.1", 0))
    threads.append(threading.Thread(target=accept))
    threads[0].start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", requests
    finally:
        is_over.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        for thread in threads:
            thread.join(DEADLINE)


OWN = {"name": "a", "subject": "a", "version": 1}
REPLIES: dict[str, tuple[Reply, str, str]] = {
    "never answers": (silent, "REGISTRY_UNREACHABLE", "timed out"),
    "drips its status": (dripped(b"HTTP/1.1 200", b"x"), "REGISTRY_UNREACHABLE", "timed out"),
    "drips headers": (dripped(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"), "REGISTRY_UNREACHABLE", "timed out|more than 100"),
    "drips its reply": (dripped(b"HTTP/1.1 200 OK\r\n\r\n", b" "), "REGISTRY_UNREACHABLE", "timed out"),
    "drips an error": (dripped(b"HTTP/1.1 500 No\r\n\r\n", b" "), "REGISTRY_REFUSED", "status 500: No"),
    "never ends": (endless, "REGISTRY_(REFUSED|UNREACHABLE)", "more than 16,777,216 bytes|timed out"),
    "closes at once": (raw(b""), "REGISTRY_UNREACHABLE", "closed connection"),
    "closes early": (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}"), "REGISTRY_UNREACHABLE", "97 more"),
    "is not HTTP": (raw(b"\x15\x03\x01\x00\x02\x02\x16\r\n\r\n"), "REGISTRY_UNREACHABLE", "answer: "),
    "chunks of no size": (
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        "REGISTRY_UNREACHABLE",
        "0 bytes read",
    ),
    "401": (sent(b"{}", "401 Unauthorized"), "REGISTRY_LOGIN_REFUSED", "status 401"),
    "403": (sent(b'{"message": "no \\u001b[31m"}', "403 Forbidden"), "REGISTRY_LOGIN_REFUSED", r"403: no  \[31m"),
    "409": (sent(b'{"message": ["x"]}', "409 Conflict"), "REGISTRY_REFUSED", "status 409"),
    "429": (sent(b"[" * 100_000, "429 Too Many"), "REGISTRY_REFUSED", "status 429"),
    "500": (sent(b"", "500 Internal"), "REGISTRY_REFUSED", "status 500: Internal"),
    "redirects": (
        sent(b"", "302 Found", "Location: http://other:1/"),
        "REGISTRY_REFUSED",
        "redirects to http://other:1/",
    ),
    "HTML": (sent(b"<html>"), "REGISTRY_REFUSED", "not JSON: <html>"),
    "bytes": (sent(b"\xff\xfe"), "REGISTRY_REFUSED", "not JSON"),
    "deep": (sent(b"[" * 100_000), "REGISTRY_REFUSED", "not JSON"),
    "list": (found([]), "REGISTRY_REFUSED", "not a JSON object"),
    "null": (found(None), "REGISTRY_REFUSED", "not a JSON object"),
    "no schema": (found({}), "REGISTRY_REFUSED", "no text 'schema'"),
    "schema of objects": (found({"schema": {}}), "REGISTRY_REFUSED", "no text 'schema'"),
    "type of a list": (found({"schema": "{}", "schemaType": [1]}), "SCHEMA_UNUSABLE", r"type is \[1\]"),
    "unknown type": (found({"schema": "{}", "schemaType": "XML"}), "SCHEMA_UNUSABLE", "type is XML"),
    "references of a text": (found({"schema": "{}", "references": "a"}), "REGISTRY_REFUSED", "not a list"),
    "references of numbers": (found({"schema": "{}", "references": [1]}), "REGISTRY_REFUSED", "not an object"),
    "reference of a name": (found({"schema": "{}", "references": [{"name": "a"}]}), "REGISTRY_REFUSED", "'subject'"),
    "reference to itself": (found({"schema": "{}", "references": [OWN]}), "SCHEMA_UNUSABLE", "too deep"),
    "many references": (
        found({"schema": "{}", "references": [OWN] * 5000}),
        "SCHEMA_UNUSABLE|REGISTRY_UNREACHABLE",
        "too deep|1000 references|timed out",
    ),
    "no Avro": (found({"schema": "[[["}), "SCHEMA_UNUSABLE", "JSONDecodeError"),
    "deep Avro": (
        found({"schema": '{"type":"array","items":' * 400 + '"int"' + "}" * 400}),
        "SCHEMA_UNUSABLE",
        "more than 200 levels",
    ),
    "deeper Avro": (found({"schema": "[" * 100_000}), "SCHEMA_UNUSABLE", "RecursionError|JSONDecodeError"),
    "Avro of no type": (found({"schema": '{"type": {"type": {"fields": 3}}}'}), "SCHEMA_UNUSABLE", "."),
    "Avro of numbers": (found({"schema": "17"}), "SCHEMA_UNUSABLE", "."),
    "no Protobuf": (found({"schema": "AAAA", "schemaType": "PROTOBUF"}), "SCHEMA_UNUSABLE", "."),
}


@pytest.mark.parametrize("name", REPLIES)
def test_a_hostile_registry_is_an_error_with_a_condition(name: str) -> None:
    """The error names the registry and the problem within the time limit, even if the reply arrives byte by byte."""
    reply, condition, text = REPLIES[name]
    with server(reply) as (url, _):
        started = time.monotonic()
        with pytest.raises(PystreamsError) as raised:
            Decoder(registry=Registry.at(url, seconds=SECONDS)).decode(header(1) + b"\0")
        assert time.monotonic() - started < DEADLINE
        assert re.fullmatch(condition, raised.value.condition)
        assert re.search(text, str(raised.value))
        assert url in str(raised.value)
        assert not any(ord(each) < 32 and each != "\n" for each in str(raised.value))


def test_a_login_does_not_follow_a_redirect() -> None:
    """If the registry redirects to another server, that server gets no request."""
    with server(sent(b"{}")) as (other, requests):
        with server(sent(b"", "302 Found", f"Location: {other}/x")) as (url, _), pytest.raises(PystreamsError):
            Registry.at(url, user="ann", password="secret", seconds=SECONDS).schema(1)
        assert not requests


@pytest.mark.parametrize("answer", [{}, {"id": "7"}, {"id": True}])
def test_an_answer_to_a_registration_without_a_number_is_an_error(answer: Any) -> None:
    """A reply to a registration whose ID is not a number is an error."""
    with server(found(answer)) as (url, _), pytest.raises(PystreamsError, match="no number 'id'"):
        Registry.at(url, seconds=SECONDS).register("a-value", Schema("AVRO", '"int"'))


def test_a_decoder_does_not_wait_for_a_silent_registry_with_each_value() -> None:
    """After a timeout, a decoder does not send requests to the registry for a while, although each value may name
    another schema.
    """
    with server(silent) as (url, requests):
        decoder = Decoder(registry=Registry.at(url, seconds=0.1))
        for schema_id in range(50):
            with pytest.raises(PystreamsError, match="timed out"):
                decoder.decode(header(schema_id) + b"\0")
        assert len(requests) <= 3
