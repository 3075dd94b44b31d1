"""Differences from the current redis-server (7.0.15 in CI) that are not compared, each with its reason.

For Redis 8.6 there are few differences. Times may always differ by a tolerance. Replies of XINFO are normalised before
they are compared. If a difference leaves the two servers with different states, an `Ending` stops the sequence after
that command.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests import servers
from tests.harness.replies import Error

#: Milliseconds by which times may differ: both sides read the same clock, but at different moments.
TOLERANCE = 20_000

#: Whether the server has the rules and fields of 8.6.
NEW = servers.redis_release().since("8.6")
#: Fields of XINFO's records that are not compared with any release, with the reason.
NEVER_COMPARED = {
    b"radix-tree-keys": "the engine reports segments; the specification says not to rely on it",
    b"radix-tree-nodes": "the engine reports segments; the specification says not to rely on it",
    b"nacked-count": "since 8.8",
}
#: Fields that are not compared with older releases.
IGNORED_FIELDS = {
    b"idle": "before 7.2 it is the time since the last success",
    b"inactive": "since 7.2",
    b"seen-time": "before 7.2 it is the time of the last success",
    b"active-time": "since 7.2",
    b"idmp-duration": "since 8.6",
    b"idmp-maxsize": "since 8.6",
    b"pids-tracked": "since 8.6",
    b"iids-tracked": "since 8.6",
    b"iids-added": "since 8.6",
    b"iids-duplicates": "since 8.6",
}
#: Fields that are compared with older releases only in sequences without deletions and explicit counters.
IGNORED_AFTER_DELETIONS = {
    b"entries-read": "7.0 continues from a number that a deletion made wrong; newer releases estimate it again",
    b"lag": "7.0 lacks two of the rules and returns stale or negative numbers",
}

#: Error texts changed by newer releases: the start of the old one, and the start of the new one.
CHANGED_TEXTS = [
    ("ERR Unbalanced XREAD list", "ERR Unbalanced 'xread' list", "7.4 names '+'"),
    ("ERR timeout is negative", "ERR timeout is out of range", "7.2 reports overflows"),
    ("ERR Unbalanced XREADGROUP list", "ERR Unbalanced 'xread", "7.4 quotes the command"),
    ("ERR Unbalanced XREAD list", "ERR Unbalanced 'xreadgroup' list", "7.0 names XREAD in some cases of XREADGROUP"),
]


@dataclass(frozen=True)
class Ending:
    """A valid reason for a difference, which ends the sequence. ``applies`` gets the words, the engine's reply and
    Redis's.
    """

    reason: str
    applies: Callable[[list[bytes], Any, Any], bool]
    #: Whether the difference also exists on Redis 8.6.
    still: bool = False


def _text(reply: Any) -> str:
    return reply.text if isinstance(reply, Error) else ""


def _only_read_more(reply: Any, expected: Any) -> bool:
    others = {*NEVER_COMPARED, *IGNORED_AFTER_DELETIONS}
    if not _loosely(_record(reply, others), _record(expected, others)):
        return False
    reads = list(zip(_reads(reply), _reads(expected), strict=True))
    return any(count != expected_count for count, expected_count in reads) and all(
        (count or 0) <= (expected_count or 0) for count, expected_count in reads
    )


def _reads(reply: Any) -> list[Any]:
    """Return every entries-read in a reply of XINFO, in order."""
    if isinstance(reply, dict):
        reply = [part for pair in reply.items() for part in pair]
    if not isinstance(reply, list):
        return []
    named = [after for name, after in pairwise(reply) if name == b"entries-read"]
    return [*named, *(read for part in reply for read in _reads(part))]


_ENDINGS = [
    Ending(
        "7.0 mentions the arguments of an unknown command even if it has none",
        lambda words, reply, expected: (
            len(words) == 1 and f"{_text(reply)}, with args beginning with: " == _text(expected)
        ),
    ),
    Ending(
        "7.0 allows XSETID below the greatest deleted ID",
        lambda words, reply, expected: "smaller than current max_deleted_entry_id" in _text(reply),
    ),
    Ending(
        "7.0 rejects ms-* with another text if the millisecond has no sequence number left",
        lambda words, reply, expected: "equal or smaller" in _text(reply) and "too large" in _text(expected),
    ),
    Ending(
        "8.8 lowers the groups' entries-read if XSETID sets fewer added entries",
        lambda words, reply, expected: _only_read_more(reply, expected),
        still=True,
    ),
    Ending(
        "the C library's parser of numbers accepts leading blanks in IDs",
        lambda words, reply, expected: isinstance(reply, Error) and any(word[:1] == b" " for word in words),
        still=True,
    ),
    Ending(
        "7.2 changed which cursors are valid",
        lambda words, reply, expected: (
            words[0].upper().endswith(b"SCAN") and "invalid cursor" in f"{_text(reply)}{_text(expected)}"
        ),
    ),
    Ending(
        "the server never returned this cursor",
        lambda words, reply, expected: (
            words[0].upper().endswith(b"SCAN")
            and words[1 if words[0].upper() == b"SCAN" else 2].strip() != b"0"
            and isinstance(reply, list)
            and isinstance(expected, list)
        ),
        still=True,
    ),
    Ending(
        "XREAD takes + since 7.4",
        lambda words, reply, expected: words[0].upper() == b"XREAD" and b"+" in words,
    ),
]


ENDINGS = [ending for ending in _ENDINGS if ending.still or not NEW]


def same(words: list[bytes], reply: Any, expected: Any, plain: bool = False) -> bool:
    """Return whether two replies to a command agree; ``plain`` is true if nothing was deleted in this sequence."""
    if isinstance(reply, Error) and isinstance(expected, Error):
        return reply == expected or any(
            expected.text.startswith(old) and reply.text.startswith(new) for old, new, _ in CHANGED_TEXTS
        )
    name = words[0].upper()
    if name in _UNORDERED:
        return bool(_in_order(name, words, reply) == _in_order(name, words, expected))
    if name in _FORMS:
        form = _FORMS[name]
        return _loosely(form(words, reply, plain), form(words, expected, plain))
    return _equal(reply, expected)


#: Commands whose replies have the order of a hash table.
_UNORDERED = {b"KEYS", b"SCAN", b"HGETALL", b"HKEYS", b"HVALS", b"HSCAN", b"HRANDFIELD"}


def _in_order(name: bytes, words: list[bytes], reply: Any) -> Any:
    """Return a reply in a fixed order."""
    if name.endswith(b"SCAN") and isinstance(reply, list) and len(reply) == 2 and isinstance(reply[1], list):
        found = reply[1]
        pairs = name == b"HSCAN" and b"NOVALUES" not in map(bytes.upper, words)
        return reply[0], sorted(zip(found[::2], found[1::2], strict=True) if pairs else found)
    if isinstance(reply, list) and (name == b"HGETALL" or b"WITHVALUES" in map(bytes.upper, words)):
        flat = not any(isinstance(part, list) for part in reply)
        return sorted(map(list, zip(reply[::2], reply[1::2], strict=True)) if flat else reply)
    return sorted(reply, key=repr) if isinstance(reply, list | set) else reply


def _equal(reply: Any, expected: Any) -> bool:
    return type(reply) is type(expected) and bool(reply == expected)


def _loosely(reply: Any, expected: Any) -> bool:
    """Return whether two replies are equal except for times, which may differ by `TOLERANCE`."""
    if isinstance(reply, list) and isinstance(expected, list):
        return len(reply) == len(expected) and all(map(_loosely, reply, expected))
    if isinstance(reply, dict) and isinstance(expected, dict):
        return list(reply) == list(expected) and all(_loosely(reply[key], expected[key]) for key in reply)
    if isinstance(reply, _Time) and isinstance(expected, _Time):
        return abs(reply - expected) <= TOLERANCE
    return _equal(reply, expected)


class _Time(int):
    """A number of milliseconds that depends on the clock."""


def _pending(words: list[bytes], reply: Any, plain: bool) -> Any:
    """Return the rows of XPENDING's long form with the third column as a time."""
    if isinstance(reply, list) and all(isinstance(row, list) and len(row) == 4 for row in reply) and len(words) > 3:
        return [[row[0], row[1], _Time(row[2]), row[3]] for row in reply]
    return reply


def _info(words: list[bytes], reply: Any, plain: bool) -> Any:
    if NEW:
        return _record(reply, set(NEVER_COMPARED))
    ignored = {*NEVER_COMPARED, *IGNORED_FIELDS}
    return _record(reply, ignored if plain else {*ignored, *IGNORED_AFTER_DELETIONS})


def _record(reply: Any, ignored: set[bytes]) -> Any:
    """Return a record of XINFO as a dict in both protocols, without the fields that are not compared."""
    if isinstance(reply, list) and reply and len(reply) % 2 == 0 and reply[0] in (b"name", b"length"):
        reply = dict(zip(reply[::2], reply[1::2], strict=True))
    if isinstance(reply, dict):
        return {key: _field(key, value, ignored) for key, value in reply.items() if key not in ignored}
    if isinstance(reply, list):
        return [_record(part, ignored) for part in reply]
    return reply


def _field(key: bytes, value: Any, ignored: set[bytes]) -> Any:
    if key in (b"groups", b"consumers") and isinstance(value, list):
        return [_record(row, ignored) for row in value]
    if key in (b"idle", b"inactive", b"seen-time", b"active-time") and isinstance(value, int) and value >= 0:
        return _Time(value)
    if key == b"pending" and isinstance(value, list):
        # Delivery times precede the delivery count.
        return [[*row[:-2], _Time(row[-2]), row[-1]] for row in value]
    return value


def _ttl(words: list[bytes], reply: Any, plain: bool) -> Any:
    if isinstance(reply, list):
        return [_ttl(words, part, plain) for part in reply]
    return _Time(reply) if isinstance(reply, int) and reply > 0 else reply


_FORMS: dict[bytes, Callable[[list[bytes], Any, bool], Any]] = {
    b"XPENDING": _pending,
    b"XINFO": _info,
    **dict.fromkeys((b"TTL", b"PTTL", b"EXPIRETIME", b"PEXPIRETIME"), _ttl),
}
