"""`pystreams dlq` and `pystreams trim`: dead letters, and entries that are no longer needed."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from pystreams.commands.verbs import Run
from tests.pystreams.conftest import Cli


@pytest.fixture
def letters(client: redis.Redis) -> redis.Redis:
    """`failed` with three letters from `orders` and one from a stream whose name is not UTF-8."""
    for number in range(1, 5):
        origin = {
            "_original_stream": "orders" if number < 4 else b"\xff",
            "_original_id": f"{number}-0",
            "_original_deliveries": 3 + number,
            "_reason": "delivered more than 3 times" if number > 1 else "poison",
        }
        client.xadd("failed", {**origin, "n": number, b"\xfe": b"\x00"}, id=f"{number}00-0")
    client.xadd("other", {"n": 1})
    return client


def _left(client: redis.Redis, stream: str = "failed") -> list[bytes]:
    return [entry_id for entry_id, _ in client.xrange(stream)]


def test_letters_are_listed_and_shown(cli_of: Cli, letters: redis.Redis) -> None:
    """`dlq ls` without a stream lists streams with letters; with a stream it filters letters by origin and reason."""
    assert cli_of.json("dlq", "ls") == {"streams": [{"stream": "failed", "length": 4}]}
    lines = [json.loads(line) for line in cli_of("dlq", "ls", "failed", "--json").splitlines()]
    assert [(each["id"], each["deliveries"]) for each in lines] == [
        ("100-0", 4),
        ("200-0", 5),
        ("300-0", 6),
        ("400-0", 7),
    ]
    assert lines[3]["stream"] == {"base64": "/w=="}
    assert len(cli_of("dlq", "ls", "failed", "--from-stream", "orders", "--reason", "DELIVERED").splitlines()) == 3
    assert lines[1]["fields"] == [["n", "2"], [{"base64": "/g=="}, "\x00"]]
    assert "[NO_SUCH_STREAM]" in cli_of.failure("dlq", "ls", "nope", status=4)


def test_letters_are_replayed_to_their_origin(cli_of: Cli, letters: redis.Redis) -> None:
    """A replay adds the original fields to the original stream and removes the letter. IDs, a filter or `--all` are
    required.
    """
    assert cli_of.result("dlq", "replay", "failed", "-y").exit_code == 2
    assert "Would replay 4 dead letters" in cli_of("dlq", "replay", "failed", "--all", "--dry-run")
    some = ("dlq", "replay", "failed", "--from-stream", "orders", "-y", "--limit", "2", "--rate", "1000")
    assert [cli_of.json(*some) for _ in range(2)] == [{"replayed": 2}, {"replayed": 1}]
    assert [fields for _, fields in letters.xrange("orders")] == [
        {b"n": b"%d" % n, b"\xfe": b"\x00"} for n in (1, 2, 3)
    ]
    assert _left(letters) == [b"400-0"]
    assert cli_of.json("dlq", "replay", "failed", "400-0", "--to", "fixed", "-y") == {"replayed": 1}
    assert (letters.xlen("fixed"), _left(letters)) == (1, [])
    assert cli_of.json("dlq", "replay", "failed", "9-9", "-y") == {"replayed": 0}


def test_letters_are_removed_by_age(cli_of: Cli, letters: redis.Redis) -> None:
    """`--older-than` compares the letter's own ID."""
    before = letters.xrange("failed", "100-0", "100-0")[0][1]
    young = letters.xadd("failed", {**before, "n": 9})
    assert isinstance(young, bytes)
    assert cli_of.json("dlq", "purge", "failed", young.decode(), "--older-than", "1h", "-y") == {"removed": 0}
    assert cli_of.json("dlq", "purge", "failed", "--older-than", "1h", "-y") == {"removed": 4}
    assert cli_of.json("dlq", "purge", "failed", "--all", "-y") == {"removed": 1}


@pytest.fixture
def stream(client: redis.Redis) -> redis.Redis:
    """`orders` with 3,000 entries. `fast` has read all of them; `slow` has read up to 2000-0, and 500-0 is pending."""
    with client.pipeline() as pipe:
        for number in range(1, 3001):
            pipe.xadd("orders", {"n": number}, id=f"{number}-0")
        pipe.execute()
    client.xgroup_create("orders", "fast", "$")
    client.xgroup_create("orders", "slow", "499-0")
    client.xreadgroup("slow", "c", {"orders": ">"}, count=1)
    client.xgroup_setid("orders", "slow", "2000-0")
    return client


def test_entries_that_no_group_needs_are_trimmed(cli_of: Cli, stream: redis.Redis) -> None:
    """`--acked` keeps all entries from the first pending one on or, without pending entries, from the first unread one
    on.
    """
    preview = cli_of.json("trim", "orders", "--acked", "--dry-run")
    assert (preview["minid"], 400 < preview["entries"] < 600) == ("500-0", True)
    assert cli_of.json("trim", "orders", "--acked", "-y") == {"removed": 499}
    stream.xack("orders", "slow", "500-0")
    assert cli_of.json("trim", "orders", "--acked", "-y") == {"removed": 1501}
    assert stream.xinfo_stream("orders")["first-entry"][0] == b"2001-0"
    assert cli_of.json("trim", "orders", "--acked", "-y") == {"removed": 0}


def test_other_limits_warn_of_lost_entries(cli_of: Cli, stream: redis.Redis) -> None:
    """`--maxlen` and `--older-than` trim unread entries as well; `--maxlen` warns about them."""
    result = cli_of.result("trim", "orders", "--maxlen", "10", "-y")
    assert result.stdout == "Removed 2,990 entries from orders.\n"
    assert "Groups still need entries from 500-0 on" in result.stderr
    stream.xadd("orders", {"n": "new"})
    assert cli_of.json("trim", "orders", "--older-than", "1h", "-y") == {"removed": 10}
    assert cli_of.result("trim", "orders", "-y").exit_code == 2
    stream.xadd("alone", {"n": 1})
    assert "[NO_GROUPS]" in cli_of.failure("trim", "alone", "--acked", "-y", status=1)


def test_a_letter_with_an_invalid_delivery_count_is_listed(cli_of: Cli, client: redis.Redis) -> None:
    """A letter whose delivery count has 5,000 digits is listed, with an unknown count."""
    odd = {"_original_stream": "s", "_original_id": "1-0", "_original_deliveries": "9" * 5000, "_reason": "r", "n": 1}
    client.xadd("failed", odd, id="1-0")
    assert cli_of.json("dlq", "ls")["streams"] == [{"stream": "failed", "length": 1}]
    assert cli_of.json("dlq", "ls", "failed")["deliveries"] is None


def test_trimming_respects_a_group_created_during_confirmation(
    cli_of: Cli, stream: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--acked` keeps the entries needed by a group that was created while the command waited for confirmation."""

    def asked(self: Run, plan: str, document: dict[str, Any] | None = None) -> bool:
        stream.xgroup_create("orders", "late", 0)
        return True

    before = stream.xlen("orders")
    monkeypatch.setattr(Run, "may", asked)
    assert cli_of("trim", "orders", "--acked") == "Removed 0 entries from orders.\n"
    assert stream.xlen("orders") == before


def test_a_letter_without_an_original_is_left_alone(cli_of: Cli, letters: redis.Redis) -> None:
    """A letter without original fields is reported and stays; the others are replayed."""
    origin = {"_original_stream": "orders", "_original_id": "9-0", "_original_deliveries": 4, "_reason": "by hand"}
    letters.xadd("failed", origin, id="450-0")
    result = cli_of.result("dlq", "replay", "failed", "--from-stream", "orders", "-y")
    assert (result.exit_code, result.stdout) == (0, "Replayed 3 dead letters of failed to the original streams.\n")
    assert result.stderr == "warning: Left in place because they have no fields of an original entry: 1 dead letter.\n"
    assert (_left(letters), letters.xlen("orders")) == ([b"400-0", b"450-0"], 3)
