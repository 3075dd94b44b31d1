"""Decoded values of entries: display, conditions, and masks of fields inside encoded values."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import fastavro
import msgpack
import pytest
import redis

from pystreams.connect import Wanted
from pystreams.dashboard.reading import MASKED, Decoders, Masks, Reader
from streamclient.errors import PystreamsError
from streamclient.formats.registry import Registry
from tests import servers
from tests.pystreams.dashboard.conftest import dashboard_of
from tests.spark_streams.formats import fuzz

SECRET = "4929-1111-2222-3333"
PAYMENT = {"id": 2**60 + 1, "card": SECRET}
SCHEMA = {
    "type": "record",
    "name": "Payment",
    "fields": [{"name": "id", "type": "long"}, {"name": "card", "type": "string"}],
}
PROTO = 'syntax = "proto3"; package pay; message Payment { int64 id = 1; string card = 2; }'


def _avro(value: dict[str, Any]) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(SCHEMA), value)
    return written.getvalue()


def _protobuf(value: dict[str, Any]) -> bytes:
    """Return the two fields encoded as Protobuf: a varint and a string."""
    number, digits = value["id"], bytearray()
    while number:
        digits.append(number & 0x7F | (0x80 if number > 0x7F else 0))
        number >>= 7
    text = value["card"].encode()
    return b"\x08" + bytes(digits) + b"\x12" + bytes([len(text)]) + text


VALUES = {"avro": _avro(PAYMENT), "protobuf": _protobuf(PAYMENT), "msgpack": msgpack.packb(PAYMENT)}


@pytest.fixture
def rules(tmp_path: Path) -> list[str]:
    """A decoding rule for each format that needs a schema."""
    (tmp_path / "payment.avsc").write_text(json.dumps(SCHEMA))
    (tmp_path / "payment.proto").write_text(PROTO)
    return [f"avro*=avro:{tmp_path}/payment.avsc", f"protobuf*=protobuf:{tmp_path}/payment.proto"]


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
@pytest.mark.parametrize("form", list(VALUES))
def test_values_are_decoded(instance: servers.Running, client: redis.Redis, rules: list[str], form: str) -> None:
    """An entry shows the decoded value with all digits, and conditions can use its members."""
    client.xadd(form, {"payload": VALUES[form], "n": 1}, id="1-0")
    with dashboard_of(Wanted(instance.url), decodes=rules) as dashboard:
        dashboard.log_in()
        decoded, other = dashboard.get("entry", stream=form, id="1-0")["decoded"]
        assert (decoded["format"], other) == (form, None)
        found = json.loads(decoded["json"])
        assert {name: str(value) for name, value in found.items()} == {"id": str(2**60 + 1), "card": SECRET}
        rows = dashboard.get("entries", stream=form, where=f"card == '{SECRET}'")["rows"]
        assert [row["id"] for row in rows] == ["1-0"]
        assert rows[0]["fields"] == [["payload", decoded["json"]], ["n", "1"]]
        letter = {"_original_stream": form, "_original_id": "1-0", "_original_deliveries": 6, "_reason": "why"}
        client.xadd("failed", {**letter, "payload": VALUES[form]}, id="1-0")
        failed = dashboard.get("letters/page", stream="failed")["rows"]
        assert failed[0]["fields"] == [["payload", decoded["json"]]]
        assert dashboard.get("entries", stream=form, where="card == 'x'")["rows"] == []


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
@pytest.mark.parametrize("form", list(VALUES))
def test_masked_fields_of_encoded_values_are_not_sent(
    instance: servers.Running, client: redis.Redis, rules: list[str], form: str
) -> None:
    """An encoded value with masked fields is sent as JSON without them, and its bytes are not sent."""
    client.xadd(form, {"payload": VALUES[form]}, id="1-0")
    with dashboard_of(Wanted(instance.url), decodes=rules, masks=["card"]) as dashboard:
        dashboard.log_in()
        for answer in (
            dashboard.web.get("/api/entry", params={"stream": form, "id": "1-0"}),
            dashboard.web.get("/api/entries", params={"stream": form}),
        ):
            assert answer.status_code == 200
            assert SECRET not in answer.text
            assert MASKED in answer.text
        assert dashboard.get("entries", stream=form, where=f"card == '{SECRET}'")["rows"] == []


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
@pytest.mark.parametrize("form", ["avro", "auto"])
def test_undecodable_values_are_shown(
    instance: servers.Running, client: redis.Redis, tmp_path: Path, form: str
) -> None:
    """Pages and searches include entries whose values cannot be decoded, with and without masks."""
    (tmp_path / "row.avsc").write_text(json.dumps(fuzz.AVRO))
    (tmp_path / "row.proto").write_text(fuzz.PROTO)
    rules = [f"avro=avro:{tmp_path}/row.avsc", f"protobuf=protobuf:{tmp_path}/row.proto"]
    draw, (make, _) = random.Random(3), fuzz.records()
    for at in range(50):
        client.xadd(form, {"v": fuzz.value_of(draw, make)}, id=f"{at + 1}-0")
    for masks in ([], ["note"]):
        with dashboard_of(Wanted(instance.url), decodes=rules, masks=masks) as dashboard:
            dashboard.log_in()
            page = dashboard.get("entries", stream=form)
            found = len(page["rows"])
            while page["next"] is not None:  # on a slow machine a page may end early
                page = dashboard.get("entries", stream=form, cursor=page["next"])
                found += len(page["rows"])
            assert found == 50
            for at in range(0, 50, 10):
                assert dashboard.get("entry", stream=form, id=f"{at + 1}-0")["decoded"]
            assert dashboard.get("entries", stream=form, where="id == 'none'")["rows"] == []


def test_values_of_an_unreachable_registry_are_masked_as_a_whole() -> None:
    """If the registry is unreachable, values are masked as a whole; without masks they are
    unchanged, with the error.
    """
    registry = Registry.at("http://127.0.0.1:1")
    decoders = Decoders((), registry)
    value = b"\0\0\0\0\x07" + _avro(PAYMENT)
    assert Reader(decoders, Masks(["card"]), b"s").words([b"payload", value]) == [b"payload", MASKED.encode()]
    reader = Reader(decoders, Masks(), b"s")
    assert reader.words([b"payload", value]) == [b"payload", value]
    found = reader.decoded(value)
    assert found is not None
    assert "REGISTRY_UNREACHABLE" in found["problem"]
    assert reader.members([b"n", b"1", b"payload", value]).get("n") == "1"


def test_rules_are_checked(tmp_path: Path) -> None:
    """A rule without a stream, with an unknown format, or with an unreadable schema is rejected."""
    for wrong in ("avro", "s=xml", "=avro:x", f"s=avro:{tmp_path}/missing"):
        with pytest.raises(PystreamsError):
            Decoders([wrong])
