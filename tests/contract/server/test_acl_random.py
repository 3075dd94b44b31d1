"""Random rules and random commands: the engine and a real Redis allow the same commands, and reject the others for the
same reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.core import commands as _commands  # noqa: F401 - fills the command table
from engine.core.clients.acl import RuleError, User, merged
from engine.core.table.registry import COMMANDS
from engine.text import messages
from tests.harness.clients import SocketClient
from tests.harness.replies import Error
from tests.servers import Running

pytestmark = pytest.mark.redis

_COMMAND_RULES = """
    +@all -@all +@read +@write -@write +@stream -@stream +@keyspace -@dangerous +@fast -@slow +@connection +@pubsub
    +get -get +set +xadd -xadd +xread +xreadgroup +xinfo -xinfo|stream +xinfo|groups +xgroup +xgroup|create
    -select +select +client|id -client +client -client|kill +copy +mget +publish +subscribe +psubscribe
"""
_OTHER_RULES = """
    ~* ~a* ~b %R~a %W~a %R~b* %W~b* ~[ab]c ~?x %RW~ab allkeys resetkeys &* &a* &b resetchannels
"""
_RULES = st.lists(st.one_of(st.sampled_from(_COMMAND_RULES.split()), st.sampled_from(_OTHER_RULES.split())), max_size=6)
_SELECTORS = st.lists(_RULES.map(lambda rules: "(" + " ".join(rules) + ")"), max_size=2)
_KEY = st.sampled_from(["a", "b", "ab", "ac", "bx", "c"])
#: Commands with placeholders for two keys.
_CALLS = """
    GET {0}|SET {0} v|SET {0} v GET|MGET {0} {1}|MSET {0} v {1} v|DEL {0} {1}|COPY {0} {1}|RENAME {0} {1}|INCR {0}|
    EXISTS {0} {1}|TYPE {0}|GETDEL {0}|EXPIRE {0} 1|XADD {0} * f v|XLEN {0}|XRANGE {0} - +|XREAD STREAMS {0} {1} 0 0|
    XREAD COUNT 1 BLOCK 0 STREAMS {0} 0|XREADGROUP GROUP g c STREAMS {0} {1} > >|XREAD COUNT 1 {0} 0|
    XREADGROUP GROUP STREAMS c STREAMS {0} >|XREADGROUP GROUP g STREAMS STREAMS {0} >|XPENDING {0} g|
    XACK {0} g 1-1|XCLAIM {0} g c 0 1-1|XAUTOCLAIM {0} g c 0 0|XINFO STREAM {0}|XINFO GROUPS {0}|
    XGROUP CREATE {0} g 0|XGROUP DESTROY {0} g|XDEL {0} 1-1|XTRIM {0} MAXLEN 0|XSETID {0} 1-1|HSET {0} f v|HGET {0} f|
    HEXISTS {0} f|HINCRBY {0} f 1|HDEL {0} f|
    PUBLISH {0} m|SUBSCRIBE {0} {1}|PSUBSCRIBE {0}|UNSUBSCRIBE {0}|SELECT 0|SELECT 1|CLIENT ID|CLIENT KILL ID 1|PING|
    KEYS *|FLUSHALL|CONFIG GET x|AUTH x|WATCH {0} {1}|RESTORE {0} 0 x|DUMP {0}|PERSIST {0}|
    STRLEN {0}|APPEND {0} v|MOVE {0} 1|TOUCH {0}
"""


@pytest.fixture(scope="module")
def real(redis_process: Running) -> Iterator[SocketClient]:
    with SocketClient(redis_process.connect(), 2, None) as client:
        yield client
        client.run("ACL", "DELUSER", "random")


def _engine_verdict(user: User, argv: list[str]) -> tuple[str, str]:
    words = [word.encode() for word in argv]
    command = COMMANDS[words[0].upper()]
    if command.subcommands:
        command = command.subcommands[words[1].upper()]
    denial = user.denial(command, words)
    return ("", "") if denial is None else (denial.reason, denial.name.decode())


def _taken(user: User, op: bytes) -> object:
    """Apply a rule to the user, and return ACL SETUSER's reply to the rule."""
    try:
        user.apply(op)
    except RuleError as error:
        return Error(messages.rule_refused(op, error.reason).decode())
    return b"OK"


_DENIED = re.compile(r"This user has no permissions to (?:run|access) the '(.*)' (command|key|channel)")


def _redis_verdict(reply: object) -> tuple[str, str]:
    assert isinstance(reply, bytes), reply
    if reply == b"OK":
        return "", ""
    found = _DENIED.search(reply.decode().replace("User random has", "This user has"))
    assert found is not None, reply
    return found[2], found[1]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rules=_RULES,
    selectors=_SELECTORS,
    calls=st.lists(st.tuples(st.sampled_from(_CALLS.split("|")), _KEY, _KEY), min_size=1, max_size=20),
)
def test_the_same_commands_are_allowed(
    real: SocketClient, rules: list[str], selectors: list[str], calls: list[tuple[str, str, str]]
) -> None:
    """The engine's rules agree with ACL DRYRUN for a user with random rules, and both reject the same invalid rules."""
    ops, _ = merged([rule.encode() for rule in (*rules, *selectors)])
    user = User(b"random")
    real.run("ACL", "SETUSER", "random", "reset")
    for op in ops:
        reply = real.run("ACL", "SETUSER", "random", op)
        assert reply == _taken(user, op), op
    for call, first, second in calls:
        argv = call.format(first, second).split()
        assert _engine_verdict(user, argv) == _redis_verdict(real.run("ACL", "DRYRUN", "random", *argv)), (
            call,
            first,
            second,
        )
