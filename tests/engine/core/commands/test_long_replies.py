"""Long replies are made in small pages and show the data at the time of their command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from engine.core.dispatch import Core
from engine.core.protocol import pace
from engine.core.protocol.replies import Pages
from engine.core.streams import pending, segment
from engine.wire.encode import encoded, pages_of
from tests.engine.core.streams.test_storage import pack_cold
from tests.harness.limits import lower
from tests.harness.replay import NOW_US, new_core

ENTRIES = 300
#: Maximum number of entries or other elements per page with the limits below, plus the entries of one segment.
PAGE = 40


@pytest.fixture(scope="module", autouse=True)
def small_segments() -> Iterator[None]:
    """Use short segments and short blocks of pending entries, so that there are many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment, "SEGMENT_ENTRIES", 12)
        patch.setattr(pending, "BLOCK", 8)
        yield


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat replies of a few elements as long, and make their pages short."""
    sizes = {
        "MANY_WORDS": 20, "PAGE_WORDS": 10, "MANY_ROWS": 5, "PAGE_ROWS": 5, "MANY_ENTRIES": 20, "MANY_SEGMENTS": 2,
        "PAGE_BYTES": 300, "PAGE_BUFFERS": 10, "PAGE_ENTRIES": 10, "PAGE_STRETCHES": 2, "GROUPS": 5, "SORTED": 5,
        "PAGE_FIELDS": 10,
    }  # fmt: skip
    lower(monkeypatch, [(pace, sizes)])


class Side:
    """A core with a partly packed stream that has gaps, a group of many consumers, a hash and other keys."""

    def __init__(self) -> None:
        self.core: Core = new_core()
        self.session = self.core.open_session(NOW_US)
        for number in range(1, ENTRIES + 1):
            self.run(f"XADD s {number}-1 field value-{number}")
        self.run("XGROUP CREATE s g 0")
        for number in range(12):
            self.run(f"XGROUP CREATECONSUMER s g idle-{number * 7 % 12}")
        for number in range(10):
            self.run(f"XREADGROUP GROUP g c-{9 - number} COUNT 25 STREAMS s >")
        self.run("XCLAIM s g c-3 0 3-1 7-1 33-1 100-1 101-1 200-1")
        self.run("XNACK s g FAIL IDS 2 5-1 6-1")
        self.run("XDEL s 1-1 2-1 50-1 51-1 77-1 299-1")
        for number in range(0, ENTRIES, 3):
            self.run(f"XDEL s {number}-1")
        for number in range(1, 13):
            self.run(f"XADD t {number}-1 field value; XGROUP CREATE t g-{number * 7 % 12} {number // 2}-1")
        self.run("XREADGROUP GROUP g-2 c COUNT 3 STREAMS t >")
        for number in range(50):
            self.run(f"HSET h field-{number} {number}")
            self.run(f"SET key-{number} {number}")
        stream = self.core.databases[0].stream(b"s")
        assert stream is not None
        pack_cold(stream, 6)

    def run(self, command: str, *, after_ms: int = 0) -> Any:
        reply: Any = None
        for line in command.split(";"):
            argv = [word.encode() for word in line.split()]
            reply = self.core.execute(self.session, argv, NOW_US + after_ms * 1000)
        return reply


#: Commands of other clients between two pages.
MEANWHILE = """XADD s * field new; XDEL s 10-1 11-1 13-1 150-1 151-1 152-1; XTRIM s MAXLEN 100; XACK s g 4-1 8-1 22-1;
    XCLAIM s g other 0 100-1 110-1 111-1; XREADGROUP GROUP g c-3 STREAMS s >; XREADGROUP GROUP g idle-4 STREAMS s >;
    XGROUP DELCONSUMER s g c-5; XGROUP CREATECONSUMER s g a-new-one; XNACK s g FATAL IDS 2 121-1 122-1;
    XADD t * field new; XDEL t 3-1; XGROUP SETID t g-3 9-1; XGROUP DESTROY t g-4; XGROUP CREATE t g-40 0;
    XREADGROUP GROUP g-11 c STREAMS t >;
    HSET h field-3 changed new new; HDEL h field-40 field-41; DEL key-1; SET key-3 changed"""

COMMANDS = [
    "XRANGE s - +",
    "XRANGE s (20-1 222 COUNT 60",
    "XREVRANGE s + -",
    "XREVRANGE s 290 20-1 COUNT 71",
    "XREAD COUNT 150 STREAMS s 0",
    "XREAD STREAMS s nothing 0 0",
    "XPENDING s g - + 1000",
    "XPENDING s g 20-1 (222-1 100",
    "XPENDING s g - + 1000 c-3",
    "XPENDING s g IDLE 1 - + 1000",
    "PS.SPLIT s - + 30",
    "PS.SPLIT s 20-1 250-1 77",
    "XINFO CONSUMERS s g",
    "XINFO GROUPS t",
    "XINFO STREAM s FULL",
    "XINFO STREAM s FULL COUNT 0",
    "XINFO STREAM s FULL COUNT 22",
    "HGETALL h",
    "HKEYS h",
    "HVALS h",
    "HRANDFIELD h -60",
    "HRANDFIELD h 40 WITHVALUES",
    "KEYS *",
    "MGET " + " ".join(f"key-{number}" for number in range(60)),
    "MULTI; XPENDING s g - + 1000; GET key-1; XRANGE s - +; XLEN s; EXEC",
    "MULTI" + "; XLEN s" * 30 + "; EXEC",
    "XREADGROUP GROUP g late STREAMS s >",
    "XREADGROUP GROUP g c-3 STREAMS s 0",
    "XREADGROUP GROUP g c-4 COUNT 21 STREAMS s 110-1",
]


@pytest.fixture(scope="module")
def whole() -> dict[tuple[str, int], bytes]:
    """Return each command's reply on a core that makes no pages."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pace, "MANY_SEGMENTS", 1000)
        for command in COMMANDS:
            reply = Side().run(command, after_ms=5)
            assert type(reply) is not Pages
            found.update({(command, proto): encoded(reply, proto) for proto in (2, 3)})
    return found


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[:30])
def test_a_long_reply_shows_the_data_at_its_command(whole, small_pages, command):
    """A long reply equals the reply of the same command in one piece, even if the data changes between its pages."""
    for proto, made_before in ((2, 0), (3, 2)):
        side = Side()
        reply = side.run(command, after_ms=5)
        assert type(reply) is Pages
        pages: Iterator[Any] = pages_of(reply, proto)
        made = [next(pages) for _ in range(made_before)]
        side.run(MEANWHILE, after_ms=1000)
        if proto == 3:
            side.run("FLUSHALL", after_ms=2000)
        made += pages
        assert b"".join(b"".join(page) for page in made) == whole[command, proto]
        assert len(made) > 2


@pytest.mark.parametrize(
    "command", [command for command in COMMANDS if command[0] in "XHP"], ids=lambda command: command[:30]
)
def test_every_page_is_small(small_pages, command):
    """No page of a long reply exceeds the maximum number of elements, regardless of the length of the reply."""
    pages = [b"".join(page) for page in pages_of(Side().run(command, after_ms=5), 2)]
    assert len(pages) > 2
    assert max(page.count(b"-1\r\n") for page in pages) <= PAGE
    assert max(map(len, pages)) < 2500
