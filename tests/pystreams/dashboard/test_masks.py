"""Masked fields: no response of the API contains their values."""

from __future__ import annotations

import json

import pytest
import redis

from pystreams.connect import Wanted
from pystreams.dashboard.reading import MASKED, Masks
from tests import servers
from tests.pystreams.dashboard.conftest import dashboard_of

SECRET = "4929-1111-2222-3333"
RULES = ("email", "orders:card.number", "pay*:iban")


def _masked(stream: str, **fields: str) -> dict[str, str]:
    words = [word.encode() for pair in fields.items() for word in pair]
    found = Masks(RULES).of(stream.encode()).words(words)
    return {name.decode(): value.decode() for name, value in zip(found[::2], found[1::2], strict=True)}


def test_rules_apply_to_all_or_to_named_streams() -> None:
    """A rule without a stream applies to all streams, stream names may have wildcards, and other
    fields are unchanged.
    """
    assert _masked("orders", email="a@b", iban="DE1") == {"email": MASKED, "iban": "DE1"}
    assert _masked("payments", email="a@b", iban="DE1") == {"email": MASKED, "iban": MASKED}


def test_rules_reach_into_json() -> None:
    """A nested field is masked by its name or by the end of its path, also in lists. Malformed JSON is masked as a
    whole.
    """
    card = json.dumps({"number": SECRET, "list": [{"email": "a@b", "n": 12345678901234567890}]})
    found = json.loads(_masked("orders", card=card)["card"])
    assert found == {"number": MASKED, "list": [{"email": MASKED, "n": 12345678901234567890}]}
    assert json.loads(_masked("orders", doc=json.dumps({"card": {"number": SECRET}, "n": 1}))["doc"]) == {
        "card": {"number": MASKED},
        "n": 1,
    }
    assert json.loads(_masked("others", card='{"number": 1}')["card"]) == {"number": 1}
    assert _masked("orders", card='{"number": "' + SECRET) == {"card": MASKED}


@pytest.mark.parametrize(
    "value",
    [
        b'\xef\xbb\xbf{"email": "%s"}' % SECRET.encode(),
        json.dumps({"email": SECRET}).encode("utf-16"),
        json.dumps(json.dumps({"email": SECRET})).encode(),
        json.dumps({"inner": json.dumps([{"email": SECRET}])}).encode(),
        json.dumps({"inner": '{"email": "' + SECRET}).encode(),
        b'{"a":' * 900 + b'{"email": "%s"}' % SECRET.encode() + b"}" * 900,
    ],
    ids=["mark", "utf-16", "text", "nested text", "broken text", "deep"],
)
def test_rules_reach_into_json_in_any_form(value: bytes) -> None:
    """Fields are masked in JSON with a byte-order mark, in UTF-16, and nested in JSON strings."""
    found = Masks(RULES).of(b"s").words([b"v", value])[1]
    assert SECRET.encode() not in found.replace(b"\0", b"")
    assert MASKED.encode() in found


@pytest.mark.parametrize("value", [b"\x81\xa4card\xa44111\xc0", b"\x81\xa4card\xa4411", b"\0\0\0\0\x07\x084111"])
def test_encoded_values_that_cannot_be_decoded_are_masked_as_a_whole(value: bytes) -> None:
    """Truncated MessagePack, and records with an unknown schema, are masked as a whole."""
    assert Masks(["card"]).of(b"s").words([b"payload", value]) == [b"payload", MASKED.encode()]


def test_brackets_in_a_rule_are_literal() -> None:
    mask = Masks(["card[0]"]).of(b"s")
    assert (mask.hides("card[0]"), mask.hides("card0")) == (True, False)


@pytest.mark.parametrize("value", [b'"quoted" text', b"text", b'{"n": 1, "text": "a {b}"}', b"[1, 2]", b"12"])
def test_values_without_masked_fields_stay_as_they_are(value: bytes) -> None:
    """A value without masked fields is unchanged byte for byte."""
    assert Masks(RULES).of(b"s").words([b"v", value]) == [b"v", value]


@pytest.mark.parametrize("instance", ["engine"], indirect=True)
def test_no_answer_holds_a_masked_value(instance: servers.Running, client: redis.Redis) -> None:
    """Lists, single entries, conditions and dead letters contain no masked value; a reason can be masked, too."""
    text = json.dumps({"email": SECRET})
    quoted = {"text": json.dumps(text), "marked": b"\xef\xbb\xbf" + text.encode()}
    client.xadd("orders", {"email": SECRET, "n": 1, "card": json.dumps({"number": SECRET}), **quoted}, id="1-0")
    letter = {"_original_stream": "orders", "_original_id": "1-0", "_original_deliveries": 6, "_reason": f"no {SECRET}"}
    client.xadd("failed", {**letter, "email": SECRET, "card": json.dumps({"number": SECRET})}, id="1-0")
    with dashboard_of(Wanted(instance.url), masks=(*RULES, "failed:_reason")) as dashboard:
        dashboard.log_in()
        answers = [
            dashboard.web.get("/api/entries", params={"stream": "orders"}),
            dashboard.web.get("/api/entries", params={"stream": "orders", "order": "rising", "where": "n == 1"}),
            dashboard.web.get("/api/entry", params={"stream": "orders", "id": "1-0"}),
            dashboard.web.get("/api/entry", params={"stream": "failed", "id": "1-0"}),
            dashboard.web.get("/api/entries", params={"stream": "failed"}),
            dashboard.web.get("/api/letters/overview", params={"stream": "failed"}),
            dashboard.web.get("/api/letters/page", params={"stream": "failed"}),
        ]
        for answer in answers:
            assert answer.status_code == 200, answer.text
            assert SECRET not in answer.text, answer.url
            assert MASKED in answer.text
        assert dashboard.get("entries", stream="orders", where=f"email == '{SECRET}'")["rows"] == []
        assert len(dashboard.get("entries", stream="orders", where=f"email == '{MASKED}'")["rows"]) == 1
