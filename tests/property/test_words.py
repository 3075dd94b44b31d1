"""Any command with any words gets a reply or an error reply: no handler raises an unexpected exception."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from engine.core.dispatch import Core, FatalError
from engine.core.protocol.replies import BLOCKED, NO_REPLY
from engine.settings.config import Config
from engine.text import messages
from engine.wire.encode import encoded
from tests.harness.injection import by_name
from tests.harness.replay import NOW_US
from tests.suite.long import FULL

#: Number of commands for each seed.
COUNT = 1500 if FULL else 500
COMMANDS = by_name()
#: Commands that are left out because they have effects outside the core, or run what the test draws.
LEFT_OUT = {"debug", "shutdown", "save", "bgsave", "bgrewriteaof", "config|rewrite"}
NAMES = sorted(name for name, command in COMMANDS.items() if not command.subcommands and name not in LEFT_OUT)
LONG = b"1" * 5000
KEYS = [b"k", b"s", b"h", b"n", b"new"]
WORDS = [
    *(LONG, b"-" + LONG, LONG + b"-" + LONG, b"0." + LONG, LONG + b"gb", b"normal " + LONG + b" 0 0", b"1e400"),
    *(b"-1", b"0", b"1", b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808"),
    *(b"18446744073709551615", b"18446744073709551616", b"inf", b"nan", b"", b" ", b"\xff\xfe", b"\0", b"1e-5"),
    *b"* $ > - + ( [ (1-1 1-1 1-* ~ = g c ~* +@all >pw (~* %R~x 0x10 1gb".split(),
    *b"EX PX NX GET COUNT LIMIT MAXLEN MINID IDS GROUP STREAMS BLOCK IDLE TIME RETRYCOUNT MATCH TYPE IDMP".split(),
    *b"CLAIM ENTRIESREAD FREQ ID maxmemory save client-output-buffer-limit appendfsync port dir".split(),
]
SETUP = (
    "SET n 5",
    "SET k v",
    "HSET h f 1 n 2",
    "XADD s 1-1 f v",
    "XADD s 1-2 f v",
    "XGROUP CREATE s g 0",
    "XREADGROUP GROUP g c COUNT 1 STREAMS s >",
)


def drawn(random: Random) -> list[bytes]:
    """Return a command with about the right number of words: keys, words of its syntax, and invalid ones."""
    name = random.choice(NAMES)
    command = COMMANDS[name]
    words = name.upper().encode().split(b"|")
    count = max(abs(command.arity) - len(words), 0)
    if command.arity < 0:
        count += random.choice((0, 0, 0, 1, 2, 3, 5))
    known = command.syntax.replace("[", " ").replace("]", " ").replace("|", " ").encode().split()
    arguments = [random.choice(random.choice((WORDS, WORDS, KEYS, known or WORDS))) for _ in range(count)]
    if arguments and random.random() < 0.6 and (command.writes or "readonly" in command.flags):
        arguments[0] = random.choice(KEYS)
    return words + arguments


@pytest.mark.parametrize("seed", range(4))
def test_every_command_replies_to_any_arguments(seed):
    """Each random command with random arguments gets a reply that can be encoded, and no internal error."""
    random = Random(seed)
    core: Any = None
    for number in range(COUNT):
        if number % 50 == 0:
            core = Core(Config())
            session = core.open_session(NOW_US)
            for text in SETUP:
                core.execute(session, text.encode().split(), NOW_US)
        argv = drawn(random)
        shown = [word[:30] for word in argv]
        try:
            reply = core.execute(session, argv, NOW_US)
        except FatalError as error:
            pytest.fail(f"{shown}: {error.__cause__!r}")
        if reply is BLOCKED:
            core.sessions.cancel_wait(session)
        elif reply is not NO_REPLY:
            assert messages.INTERNAL_ERROR not in encoded(reply, random.choice((2, 3))), shown
        session.multi = None
        core.outbox.clear()
