"""The registry's client: its requests, its cache, and its errors."""

from __future__ import annotations

import json
import pickle
import ssl
from pathlib import Path

import pytest

from pystreams.testing import schema_registry
from streamclient.config.address import Tls
from streamclient.errors import PystreamsError
from streamclient.formats.registry import Registry
from streamclient.formats.schemas import Reference, Schema
from streamwire.errors import InvalidTextError
from tests.servers.certificates import authority, certificate


def record(*fields: object) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": list(fields)})


ONE = record({"name": "id", "type": "int"})
TWO = record({"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None})


def test_references_without_a_subject_are_registered_under_their_name() -> None:
    """References without a subject are registered first, under their names, and the schema refers to their versions."""
    money = Schema("AVRO", '{"type": "record", "name": "Money", "fields": []}')
    bill = Schema("AVRO", record({"name": "sum", "type": "Money"}), (Reference("Money", money),))
    with schema_registry() as server:
        registry = Registry.at(server.url)
        schema_id = registry.register("bills-value", bill)
        found = registry.schema(schema_id)
        assert found is not None
        assert found.references == (Reference("Money", money, "Money", 1),)


def test_ids_of_unrelated_bytes_cost_few_requests() -> None:
    """A thousand unknown IDs cost at most a hundred requests a minute, and known IDs are found meanwhile."""
    with schema_registry() as server:
        registry, now = Registry.at(server.url), [1000.0]
        schema_id = server.add("known-value", ONE)
        assert registry.schema(schema_id, lambda: now[0]) == Schema("AVRO", ONE)
        for number in range(1000):
            assert registry.schema(1_000_000 + number * 4_000_000, lambda: now[0]) is None
        assert len(server.requests) <= 102
        assert registry.schema(schema_id, lambda: now[0]) == Schema("AVRO", ONE)
        now[0] += 61
        later = server.add("later-value", record({"name": "n", "type": "long"}))
        assert registry.schema(later, lambda: now[0]) is not None


def test_errors_name_the_registry_and_no_password() -> None:
    """A rejected login, an unexpected reply and an unreachable registry each raise a condition without the password."""
    with schema_registry(login="ann:secret") as server:
        registry = Registry.at(server.url.replace("//", "//ann:wrong-secret@"))
        assert "secret" not in f"{registry!r} {registry}"
        with pytest.raises(PystreamsError, match=r"REGISTRY_LOGIN_REFUSED.*Unauthorized") as raised:
            registry.latest("x")
        assert "wrong-secret" not in str(raised.value)
        assert Registry.at(server.url, user="ann", password="secret").latest("x") is None
        server.status = 418
        with pytest.raises(PystreamsError, match=r"REGISTRY_REFUSED.*status 418"):
            registry.latest("x")
    with pytest.raises(PystreamsError, match=r"REGISTRY_UNREACHABLE.*refused"):
        registry.latest("x")
    with pytest.raises(InvalidTextError):
        Registry.at("redis://localhost")


def test_a_temporary_failure_is_retried() -> None:
    """A request to an overloaded registry is sent three times before it raises an error."""
    with schema_registry() as server:
        server.status = 503
        with pytest.raises(PystreamsError, match="status 503"):
            Registry.at(server.url).latest("x")
        assert server.requests == ["GET /subjects/x/versions/latest"] * 3


def test_tls_is_verified(tmp_path: Path) -> None:
    """The registry's certificate must be signed by a trusted CA; the TLS settings also apply in workers."""
    signer = authority(tmp_path, "ca")
    issued = certificate(tmp_path, "registry", signer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    with schema_registry(tls=context) as server:
        trusting = Registry.at(server.url, tls=Tls(str(signer.certificate)))
        assert pickle.loads(pickle.dumps(trusting)).latest("x") is None
        with pytest.raises(PystreamsError, match=r"REGISTRY_UNREACHABLE.*certificate verify failed"):
            Registry.at(server.url).latest("x")
