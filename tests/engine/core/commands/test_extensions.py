"""The engine's own commands give the same results as the equivalent Redis commands."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.admission import Refusal
from engine.core.dispatch import Core
from engine.core.protocol import ids, pace
from engine.core.protocol.replies import NIL_ARRAY, CommandError, Steps
from engine.core.protocol.xadd import XaddRun
from engine.settings.config import Config
from engine.wire import encode
from engine.wire.parser import RequestParser
from tests.harness.replay import check_replay

NOW = 1_700_000_000_000_000


class Client:
    """A client of a separate core."""

    def __init__(self) -> None:
        self.core = Core(Config())
        self.session = self.core.open_session(NOW)

    def __call__(self, *words: object):
        argv = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        return self.core.execute(self.session, argv, NOW)


def dumped(client: Client) -> bytes:
    """Return the encoded reply to DUMP of the stream, which is a `Pages` object if the stream is long."""
    return encode.encoded(client("DUMP", "s"))


def filled(numbers: list[int], deleted: set[int]) -> Client:
    run = Client()
    for number in numbers:
        run("XADD", "s", f"{number}-0", "f", "v")
    for number in deleted:
        run("XDEL", "s", f"{number}-0")
    return run


STREAMS = st.tuples(
    st.lists(st.integers(1, 60), min_size=1, max_size=30, unique=True).map(sorted), st.sets(st.integers(1, 60))
)


@given(STREAMS, st.integers(0, 61), st.integers(1, 40))
def test_ps_nth_counts_like_xrange(stream, after, count):
    """PS.NTH returns the ID of the count-th entry after the given ID, or of the last entry, and the number counted."""
    numbers, deleted = stream
    run = filled(numbers, deleted)
    behind = [number for number in numbers if number not in deleted and number > after][:count]
    expected = [b"%d-0" % behind[-1], len(behind)] if behind else [None, 0]
    assert run("PS.NTH", "s", after, count) == expected


@given(STREAMS, st.integers(0, 9))
def test_ps_state_has_the_values_of_xinfo(stream, read):
    """PS.STATE has the values of XINFO STREAM and XINFO GROUPS, with the first entry's ID instead of the entry."""
    run = filled(*stream)
    run("XGROUP", "CREATE", "s", "g", "0")
    run("XREADGROUP", "GROUP", "g", "c", "COUNT", read or 1, "STREAMS", "s", ">")
    info, (group,) = run("XINFO", "STREAM", "s"), run("XINFO", "GROUPS", "s")
    info, group = (dict(zip(reply[0::2], reply[1::2], strict=True)) for reply in (info, group))
    names = (b"last-generated-id", b"length", b"recorded-first-entry-id", b"entries-added", b"max-deleted-entry-id")
    expected = [info[name] for name in names]
    expected[2] = expected[2] if info[b"length"] else None
    position = [group[name] for name in (b"last-delivered-id", b"lag", b"pending", b"entries-read")]
    assert run("PS.STATE", "s", "g") == [*expected, position]
    assert run("PS.STATE", "s", "h") == run("PS.STATE", "s") == [*expected, None]


@given(STREAMS, st.integers(0, 61), st.integers(0, 61), st.integers(1, 9))
def test_split_parts_are_even_and_cover_the_range(stream, after, upto, parts):
    """PS.SPLIT's parts are contiguous, cover the range up to its end, and differ in size by at most one entry."""
    numbers, deleted = stream
    run = filled(numbers, deleted)
    within = [number for number in numbers if number not in deleted and after < number <= upto]
    cuts = run("PS.SPLIT", "s", after, upto, parts)
    sizes = [size for _, size in cuts]
    assert sum(sizes) == len(within)
    assert len(cuts) == min(parts, len(within))
    low = after
    for text, size in cuts:
        high = ids.parse(text) >> 64
        assert len([number for number in within if low < number <= high]) == size > 0
        low = high
    if cuts:
        assert max(sizes) - min(sizes) <= 1
        assert ids.parse(cuts[-1][0]) == ids.parse(b"%d" % upto, ids.U64_MAX)


@given(STREAMS, st.lists(st.tuples(st.integers(0, 61), st.integers(0, 61)), min_size=1, max_size=4))
def test_ps_deliver_and_ps_ackrange_update_the_pending_list(stream, ranges):
    """PS.DELIVER makes each entry pending once, and PS.ACKRANGE removes those in the range."""
    numbers, deleted = stream
    run = filled(numbers, deleted)
    run("XGROUP", "CREATE", "s", "g", "0")
    live = [number for number in numbers if number not in deleted]
    pending: set[int] = set()
    last = 0
    for after, upto in ranges:
        new = [number for number in live if max(after, last) < number <= upto]
        assert run("PS.DELIVER", "s", "g", "c", after, upto) == len(new)
        assert run("PS.DELIVER", "s", "g", "c", after, upto) == 0
        pending.update(new)
        last = max([last, *new])
        removed = {number for number in pending if after < number <= upto - 2}
        assert run("PS.ACKRANGE", "s", "g", after, max(upto - 2, 0)) == len(removed)
        pending -= removed
        listed = run("XPENDING", "s", "g", "-", "+", "100")
        assert [ids.parse(row[0]) >> 64 for row in listed] == sorted(pending)
    group = dict(zip(*[iter(run("XINFO", "GROUPS", "s")[0])] * 2, strict=True))
    assert group[b"pending"] == len(pending)
    assert ids.parse(group[b"last-delivered-id"]) >> 64 == last


def test_errors_are_those_of_redis_commands():
    """Missing streams and groups, wrong types and counts below one get the replies of the equivalent Redis commands."""
    run = filled([1], set())
    run("SET", "text", "x")
    assert run("PS.STATE", "none", "g") is None
    assert run("PS.NTH", "none", 0, 1) == [None, 0]
    assert run("PS.SPLIT", "none", 0, 1, 1) == []
    assert run("PS.ACKRANGE", "none", "g", 0, 1) == 0
    for words, code in (
        (("PS.STATE", "text"), b"WRONGTYPE"),
        (("PS.STATE", "s", "g", "h"), b"ERR syntax error"),
        (("PS.NTH", "text", 0, 1), b"WRONGTYPE"),
        (("PS.NTH", "s", 0, 0), b"ERR count must be a positive integer"),
        (("PS.NTH", "s", "x", 1), b"ERR Invalid stream ID"),
        (("PS.SPLIT", "s", 0, 1, 0), b"ERR parts must be a positive integer"),
        (("PS.DELIVER", "s", "g", "c", 0, 1), b"NOGROUP"),
        (("PS.ACKRANGE", "text", "g", 0, 1), b"WRONGTYPE"),
        (("PS.NTH", "s", 0), b"ERR wrong number of arguments for 'ps.nth' command"),
    ):
        reply = run(*words)
        assert isinstance(reply, CommandError), words
        assert reply.text.startswith(code), words


_RANGES = st.lists(
    st.tuples(
        st.sampled_from(["deliver", "acknowledge", "read", "delete", "rewind"]), st.integers(0, 61), st.integers(0, 61)
    ),
    max_size=12,
)


@given(STREAMS, _RANGES)
def test_ranges_are_the_same_after_a_replay(stream, steps):
    """Replaying PS.DELIVER, PS.ACKRANGE and reads restores the same group, including times."""
    numbers, deleted = stream
    run = filled([], set())
    run.core.changes.recording = True
    for number in numbers:
        run("XADD", "s", f"{number}-0", "f", "v")
    run("XGROUP", "CREATE", "s", "g", "0")
    for number in deleted:
        run("XDEL", "s", f"{number}-0")
    for action, low, high in steps:
        if action == "deliver":
            run("PS.DELIVER", "s", "g", f"c{low % 2}", low, high)
        elif action == "acknowledge":
            run("PS.ACKRANGE", "s", "g", low, high)
        elif action == "read":
            run("XREADGROUP", "GROUP", "g", "c0", "COUNT", high + 1, "STREAMS", "s", ">" if low % 2 else low)
        elif action == "delete":
            run("XDEL", "s", f"{low}-0")
        else:
            run("XGROUP", "SETID", "s", "g", low)
    check_replay(run.core, NOW + 5_000_000)


def test_a_range_is_one_command_in_the_log():
    """PS.DELIVER and PS.ACKRANGE are logged as one command with the range, for any number of entries."""
    run = filled(list(range(1, 3001)), set())
    run("XGROUP", "CREATE", "s", "g", "0")
    run.core.changes.recording = True
    assert run("PS.DELIVER", "s", "g", "c", 0, 3000) == 3000
    assert run("PS.ACKRANGE", "s", "g", 0, 2000) == 2000
    assert run("PS.ACKRANGE", "s", "g", 0, 2000) == 0
    names = [argv[0] for _, argv in run.core.changes.effects]
    assert names == [b"MULTI", b"XGROUP", b"PS.DELIVER", b"XGROUP", b"EXEC", b"PS.ACKRANGE"]


def test_a_long_range_is_delivered_in_steps(monkeypatch):
    """Each step logs its own range; entries that another consumer reads meanwhile stay with it, and are not counted.

    All steps together count as one lookup of the stream.
    """
    monkeypatch.setattr(pace, "DELIVERED", 100)
    run = Client()
    run.core.changes.recording = True
    run.core.allow_steps()
    for number in range(1, 3001):
        run("XADD", "s", f"{number}-0", "f", "v")
    run("XGROUP", "CREATE", "s", "g", "0")
    steps = run("PS.DELIVER", "s", "g", "c", 0, 2700)
    assert type(steps) is Steps
    read = run("XREADGROUP", "GROUP", "g", "other", "COUNT", 500, "STREAMS", "s", ">")
    while run.core.go_on(run.session, read, NOW) is read:
        pass
    hits = run.core.databases[0].hits
    while (reply := run.core.go_on(run.session, steps, NOW)) is steps:
        pass
    assert reply == 2200
    assert run.core.databases[0].hits == hits
    assert run("XPENDING", "s", "g")[3] == [[b"c", b"2200"], [b"other", b"500"]]
    delivered = [argv[4:6] for _, argv in run.core.changes.effects if argv[0] == b"PS.DELIVER"]
    assert delivered == [[b"0-0", b"1000-0"], [b"1500-0", b"2500-0"], [b"2500-0", b"2700-0"]]
    check_replay(run.core, NOW)


def test_a_read_of_many_entries_logs_few_commands():
    """XREADGROUP of many new or old entries is logged as XCLAIMs of up to a thousand IDs each."""
    run = filled(list(range(1, 2501)), set())
    run("XGROUP", "CREATE", "s", "g", "0")
    run("XGROUP", "CREATECONSUMER", "s", "g", "c")
    run.core.changes.recording = True
    for word, names in ((">", [b"XCLAIM", b"XCLAIM", b"XCLAIM", b"XGROUP"]), ("0", [b"XCLAIM", b"XCLAIM", b"XCLAIM"])):
        run("XREADGROUP", "GROUP", "g", "c", "COUNT", 2500, "STREAMS", "s", word)
        assert [argv[0] for _, argv in run.core.changes.effects] == [b"MULTI", *names, b"EXEC"]
        run.core.changes.effects.clear()


def test_the_time_of_a_delivery_is_not_in_the_future():
    """PS.DELIVER accepts a past time, replaces a future time with the present, and rejects other options."""
    run = filled([1, 2, 3], set())
    run("XGROUP", "CREATE", "s", "g", "0")
    run("PS.DELIVER", "s", "g", "c", 0, 1, "TIME", NOW // 1000 - 5000)
    run("PS.DELIVER", "s", "g", "c", 1, 2, "TIME", NOW // 1000 + 5000)
    assert [idle for _, _, idle, _ in run("XPENDING", "s", "g", "-", "+", 9)] == [5000, 0]
    assert isinstance(run("PS.DELIVER", "s", "g", "c", 2, 3, "WHEN", 1), CommandError)


def encoded(*commands: list[bytes]) -> bytes:
    """Return the commands as a client would send them."""
    parts = []
    for words in commands:
        parts.append(b"*%d\r\n" % len(words))
        parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


WORDS = st.lists(st.sampled_from([b"", b"a", b"field", b"\r\n", b"*3\r\n$4\r\nXADD\r\n", b"x" * 300]), min_size=2)
ROWS = st.lists(
    st.one_of(WORDS.map(lambda words: words[: len(words) // 2 * 2]), st.just([b"n", b"1", b"city", b"Ulm"])),
    min_size=1,
    max_size=4,
)


@given(ROWS, st.sampled_from([1, 20]))
def test_ps_append_equals_its_xadds(rows, times):
    """PS.APPEND adds the entries of the XADDs in the field, returns their number, and its effect can be replayed."""
    commands = [[b"XADD", b"s", b"*", *row] for row in rows] * times
    client, twin = Client(), Client()
    client.core.changes.recording = True
    client("HSET", "h", "0", encoded(*commands))
    assert client("PS.APPEND", "s", "h", "0") == len(commands)
    check_replay(client.core, NOW)
    for words in commands:
        twin(*words)
    assert dumped(client) == dumped(twin)


def test_ps_append_rejects_fields_without_plain_xadds():
    """A field with another key, an ID, an option, another command or half a command is an error and adds nothing."""
    run = Client()
    good = [b"XADD", b"s", b"*", b"f", b"v"]
    bad = [
        [b"XADD", b"t", b"*", b"f", b"v"],
        [b"XADD", b"s", b"1-1", b"f", b"v"],
        [b"XADD", b"s", b"NOMKSTREAM", b"*", b"f", b"v"],
        [b"XADD", b"s", b"*", b"f"],
        [b"DEL", b"s", b"*", b"f", b"v"],
    ]
    fields = [encoded(*[good] * 200, words, *[good] * 200) for words in bad]
    fields += [encoded(words) for words in bad] + [encoded(*[good] * 200)[:-1], encoded(good)[:9], b"", b"PING\r\n"]
    for number, data in enumerate(fields):
        run("HSET", "h", number, data)
        reply = run("PS.APPEND", "s", "h", number)
        assert isinstance(reply, CommandError), number
        assert b"must contain only commands XADD" in reply.text
    for words in (("s", "h", "none"), ("s", "none", "0")):
        assert b"no such" in run("PS.APPEND", *words).text
    assert run("EXISTS", "s", "t") == 0
    run("SET", "s", "text")
    run("HSET", "h", "0", encoded(good))
    assert b"WRONGTYPE" in run("PS.APPEND", "s", "h", "0").text
    assert b"WRONGTYPE" in run("PS.APPEND", "h", "s", "0").text


@given(st.integers(0, 700), st.sampled_from([b"", b"0", b"1", b"9", b"$", b"\r", b"\n", b"*", b"v"]), st.integers(0, 2))
def test_a_field_is_accepted_only_if_a_client_could_have_sent_it(at, byte, width):
    """A field with changed, removed or inserted bytes is rejected, or adds the entries of the commands in it."""
    good = encoded(*[[b"XADD", b"s", b"*", b"field", b"%d" % n, b"", b"v" * (n % 12)] for n in range(20)])
    at %= len(good)
    data = good[:at] + byte + good[at + width :]
    run = Client()
    run("HSET", "h", "0", data)
    reply = run("PS.APPEND", "s", "h", "0")
    if isinstance(reply, CommandError):
        assert run("EXISTS", "s") == 0
        return
    commands = RequestParser().parse(data)
    assert encoded(*commands) == data
    other = Client()
    for words in commands:
        other(*words)
    assert dumped(run) == dumped(other)


@pytest.mark.parametrize(
    ("words", "rules"),
    [
        (("PS.APPEND", "s", "h", "0"), ("~s ~h +ps.append", "~s +@all", "~h +@all", "%R~s ~h +@all")),
        (
            ("PS.ADD", "s", 1, "f", struct.pack("<2i", 0, 1), b"v"),
            ("~s +ps.add", "~s +@all -xadd", "~t +@all", "%R~s +@all"),
        ),
    ],
)
def test_adding_needs_permission_for_xadd(words, rules):
    """PS.APPEND and PS.ADD need the right to run XADD, to write the stream and to read the hash."""
    run = Client()
    run("HSET", "h", "0", encoded([b"XADD", b"s", b"*", b"f", b"v"]))
    for rule in rules:
        run("ACL", "SETUSER", "u", "reset", "on", "nopass", *rule.split())
        user = Client()
        user.core, user.session = run.core, run.core.open_session(NOW)
        user("AUTH", "u", "x")
        assert b"NOPERM" in user(*words).text, rule
    assert run("EXISTS", "s") == 0


def test_ps_append_adds_nothing_if_the_ids_run_out():
    """If the stream has fewer IDs left than the field has entries, PS.APPEND adds none of them."""
    run = Client()
    run("HSET", "h", "0", encoded(*[[b"XADD", b"s", b"*", b"f", b"v"]] * 3))
    run("XADD", "s", "18446744073709551615-18446744073709551613", "f", "v")
    assert b"exhausted" in run("PS.APPEND", "s", "h", "0").text
    assert run("XLEN", "s") == 1


def queued(run: Client, *lines: str) -> None:
    assert run("MULTI") == b"OK"
    for line in lines:
        assert run(*line.split()) == b"QUEUED"


def test_ps_exec_ends_a_transaction_at_the_first_error():
    """Commands after a failed one do not run; the reply ends with the error. The effects before it can be replayed."""
    run = Client()
    run.core.changes.recording = True
    run("SET", "text", "v")
    queued(run, "XADD s 1-1 f v", "INCR n", "XADD text * f v", "INCR n", "DEL s")
    first, number, refusal = run("PS.EXEC")
    assert (first, number, refusal.text[:9]) == (b"1-1", 1, b"WRONGTYPE")
    assert (run("GET", "n"), run("XLEN", "s")) == (b"1", 1)
    check_replay(run.core, NOW)
    queued(run, "INCR n", "INCR n")
    assert run("PS.EXEC") == [2, 3]


def test_ps_exec_ends_within_a_run_of_xadds():
    """PS.EXEC ends at an XADD that fails, even if it was queued as one of many."""
    run = Client()
    run("XADD", "s", "18446744073709551615-18446744073709551613", "f", "v")
    assert run("MULTI") == b"OK"
    body = b"$1\r\nf\r\n$1\r\nv\r\n"
    run.core.execute_run(run.session, XaddRun(20, [b"XADD", b"s", b"*"], 2, [body] * 20, [len(body)] * 20), NOW)
    assert run("SET", "k", "v") == b"QUEUED"
    replies = run("PS.EXEC")
    assert (len(replies), b"exhausted" in replies[-1].text, run("XLEN", "s"), run("GET", "k")) == (3, True, 3, None)


def test_ps_exec_is_refused_like_exec():
    """PS.EXEC needs MULTI, runs nothing if a watched key has changed, and fails after a command that was not queued."""
    run, other = Client(), Client()
    other.core, other.session = run.core, run.core.open_session(NOW)
    assert run("PS.EXEC").text == b"ERR EXEC without MULTI"
    run("WATCH", "k")
    queued(run, "SET k v")
    other("SET", "k", "w")
    assert (run("PS.EXEC"), run("GET", "k")) == (NIL_ARRAY, b"w")
    run("MULTI")
    run("NO-COMMAND")
    assert run("PS.EXEC").text.startswith(b"EXECABORT")
    run.core.admission.refuse(Refusal.READONLY, b"READONLY x")
    run("MULTI")
    run("SET", "k", "v")
    assert run("PS.EXEC").text.startswith(b"EXECABORT")
    assert run("PS.EXEC").text == b"ERR EXEC without MULTI"
