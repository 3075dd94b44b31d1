"""Masked fields: no answer of the API holds their values."""

from __future__ import annotations

import json

import pytest
import redis

from pystreams.connect.target import Wanted
from pystreams.dashboard.security.masks import MASKED, Masks
from tests import servers
from tests.pystreams.dashboard.conftest import dashboard_of

SECRET = "4929-1111-2222-3333"
RULES = ("email", "orders:card.number", "pay*:iban")


def _masked(stream: str, **fields: str) -> dict[str, str]:
    words = [word.encode() for pair in fields.items() for word in pair]
    found = Masks(RULES).of(stream.encode()).words(words)
    return {name.decode(): value.decode() for name, value in zip(found[::2], found[1::2], strict=True)}


def test_rules_name_fields_of_any_stream_or_of_some() -> None:
    """A rule without a stream holds everywhere, wildcards match names, and other fields stay as they are."""
    assert _masked("orders", email="a@b", iban="DE1") == {"email": MASKED, "iban": "DE1"}
    assert _masked("payments", email="a@b", iban="DE1") == {"email": MASKED, "iban": MASKED}


def test_rules_reach_into_json() -> None:
    """A nested field is masked by its path or its name, in lists too; an object that cannot be parsed as a whole."""
    card = json.dumps({"number": SECRET, "list": [{"email": "a@b", "n": 12345678901234567890}]})
    found = json.loads(_masked("orders", card=card)["card"])
    assert found == {"number": MASKED, "list": [{"email": MASKED, "n": 12345678901234567890}]}
    assert json.loads(_masked("others", card='{"number": 1}')["card"]) == {"number": 1}
    assert _masked("orders", card='{"number": "' + SECRET) == {"card": MASKED}


@pytest.mark.parametrize("place", ["engine"], indirect=True)
def test_no_answer_holds_a_masked_value(place: servers.Running, client: redis.Redis) -> None:
    """Entries, one entry, conditions, statistics, dead letters, exports and slow commands."""
    client.config_set("slowlog-log-slower-than", 0)
    client.xadd("orders", {"email": SECRET, "n": 1, "card": json.dumps({"number": SECRET})}, id="1-0")
    letter = {"_original_stream": "orders", "_original_id": "1-0", "_original_deliveries": 6, "_reason": "why"}
    client.xadd("failed", {**letter, "email": SECRET, "card": json.dumps({"number": SECRET})}, id="1-0")
    client.config_set("slowlog-log-slower-than", 10_000)
    with dashboard_of(Wanted(place.url), masks=RULES) as dashboard:
        dashboard.log_in()
        answers = [
            dashboard.web.get("/api/entries", params={"stream": "orders"}),
            dashboard.web.get("/api/entries", params={"stream": "orders", "order": "rising", "where": "n == 1"}),
            dashboard.web.get("/api/entry", params={"stream": "orders", "id": "1-0"}),
            dashboard.web.get("/api/entry", params={"stream": "failed", "id": "1-0"}),
            dashboard.web.get("/api/fields", params={"stream": "orders"}),
            dashboard.web.get("/api/letters/page", params={"stream": "failed"}),
            dashboard.web.get("/api/export", params={"stream": "orders", "format": "jsonl"}),
            dashboard.web.get("/api/server"),
        ]
        for answer in answers:
            assert answer.status_code == 200, answer.text
            assert SECRET not in answer.text, answer.url
            assert MASKED in answer.text or "slow" in answer.text
        assert dashboard.get("entries", stream="orders", where=f"email == '{SECRET}'")["rows"] == []
        assert len(dashboard.get("entries", stream="orders", where=f"email == '{MASKED}'")["rows"]) == 1
