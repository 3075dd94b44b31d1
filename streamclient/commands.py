"""Table of the commands that are sent to servers.

A row has the position of the key, whether the command may be sent again, and its purposes, which determine the user's
ACL rules. It also has the consequence of a missing permission, and arguments to test the permission. This module sends
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

#: A command's words.
Command = tuple[bytes | str | int, ...]


class Need(StrEnum):
    """Purpose of commands.

    If the commands for a purpose marked "(not needed)" are not permitted, the connector works, but is slower, checks
    less or reports less.
    """

    ANY = "every read and write"
    WRITE_ONCE = "writing with exactlyOnce, atomic or staged"
    WRITE_AGAIN = "writing a batch again with staged, and writing in foreachBatch"
    MOVE_STAGED = "moving staged rows on the server (not needed)"
    WRITE_COLUMNS = "sending rows to the engine as columns (not needed)"
    SEE_EVICTION = "checking that records of exactly-once writes are not evicted (not needed)"
    SEE_DELETION = "detecting that a stream of exactly-once writes was deleted and refilled (not needed)"
    APPEND = "writing with append"
    TRIM_ON_WRITE = "maxlen, retentionMs"
    OVERWRITE = "mode overwrite"
    WAIT_REPLICAS = "waitReplicas"
    READ = "reading without a group"
    READ_GROUP = "reading with a group"
    READ_CURSOR = "reading with a group and ack=cursor"
    SHARED = "consume=shared"
    DEAD_LETTERS = "deadLetterStream"
    MALFORMED = "counts of values that do not parse, for a StreamMonitor (not needed)"
    MOVE_LETTERS = "moving dead letters while other programs add entries (not needed)"
    ENGINE = "recognising the engine (not needed)"
    READ_COLUMNS = "reading ranges from the engine as columns (not needed)"
    WATCH_CHEAPLY = "checking cheaply for new entries (not needed)"
    PATTERN = "streamPattern"
    TRIM_ON_COMMIT = "trimOnCommit"
    DATABASE = "a database other than 0"
    CLUSTER = "a cluster"
    SENTINEL_SERVER = "Sentinel: rules at the server"
    SENTINELS = "Sentinel: rules at the Sentinels"
    IDLE = "connections that were idle for 30 seconds"


#: Placeholder for a key in `Sent.probe`.
KEY = object()
#: Value of `Sent.key` if the keys follow the word STREAMS.
STREAMS = -1


@dataclass(frozen=True)
class Sent:
    """Properties of a command that is sent.

    `key`: the index of its first key among the words; 0 if it has no key. `again`: whether executing it twice has the
    same effect as once. `needs`: its purposes; if empty, only the command line sends it. `without`: the consequence of
    a missing permission; empty if it is an error, or if `needs` describes it. `probe`: arguments without effect, to
    test the permission; None if it is not tested.
    """

    key: int
    again: bool
    needs: tuple[Need, ...] = ()
    without: str = ""
    probe: tuple[Any, ...] | None = None


COMMANDS: dict[str, Sent] = {
    "ECHO": Sent(0, True, (Need.ANY,), probe=("x",)),
    "WATCH": Sent(1, False, (Need.WRITE_ONCE, Need.SHARED), probe=(KEY,)),
    "UNWATCH": Sent(0, False, (Need.WRITE_ONCE,), without="the keys are watched until the next EXEC", probe=()),
    "MULTI": Sent(0, True, (Need.WRITE_ONCE, Need.SHARED)),
    "EXEC": Sent(0, True, (Need.WRITE_ONCE, Need.SHARED)),
    "HMGET": Sent(1, True, (Need.WRITE_ONCE, Need.SHARED), probe=(KEY, "f")),
    "HSET": Sent(1, True, (Need.WRITE_ONCE, Need.SHARED)),
    "HGETALL": Sent(1, True, (Need.WRITE_ONCE, Need.DEAD_LETTERS), probe=(KEY,)),
    "HDEL": Sent(1, True, (Need.WRITE_ONCE, Need.SHARED), probe=(KEY, "f")),
    "PEXPIRE": Sent(
        1,
        True,
        (Need.WRITE_ONCE, Need.READ_GROUP, Need.READ_CURSOR, Need.SHARED),
        without="there is no lease",
        probe=(KEY, 1),
    ),
    "XADD": Sent(
        1,
        False,
        (Need.WRITE_ONCE, Need.APPEND, Need.DEAD_LETTERS, Need.MALFORMED),
        probe=(KEY, "NOMKSTREAM", "*", "f", "v"),
    ),
    "XINFO STREAM": Sent(
        2,
        True,
        (Need.WRITE_ONCE, Need.OVERWRITE, Need.READ, Need.READ_GROUP, Need.READ_CURSOR, Need.SHARED),
        probe=(KEY,),
    ),
    "HSETNX": Sent(1, True, (Need.WRITE_ONCE,)),
    "HEXISTS": Sent(1, True, (Need.WRITE_AGAIN,)),
    "COMMAND INFO": Sent(
        0,
        True,
        (Need.MOVE_STAGED, Need.WRITE_COLUMNS, Need.MOVE_LETTERS, Need.ENGINE, Need.READ_COLUMNS),
        probe=("XADD",),
    ),
    "EVAL": Sent(3, True, (Need.MOVE_STAGED, Need.MOVE_LETTERS)),
    "PS.EXEC": Sent(0, True, (Need.MOVE_STAGED, Need.MOVE_LETTERS)),
    "PS.APPEND": Sent(1, False, (Need.MOVE_STAGED,)),
    "PS.ADD": Sent(1, False, (Need.WRITE_COLUMNS,)),
    "INFO": Sent(0, True, (Need.SEE_EVICTION,)),
    "XRANGE": Sent(
        1,
        True,
        (Need.SEE_DELETION, Need.OVERWRITE, Need.READ, Need.READ_GROUP, Need.READ_CURSOR, Need.SHARED),
        probe=(KEY, "-", "+", "COUNT", 1),
    ),
    "XTRIM": Sent(1, True, (Need.TRIM_ON_WRITE, Need.OVERWRITE, Need.TRIM_ON_COMMIT), probe=(KEY, "MAXLEN", 0)),
    "EXISTS": Sent(1, True, (Need.CLUSTER,)),
    "WAIT": Sent(0, False, (Need.WAIT_REPLICAS,)),
    "XINFO GROUPS": Sent(
        2,
        True,
        (Need.OVERWRITE, Need.READ_GROUP, Need.READ_CURSOR, Need.SHARED),
        probe=(KEY,),
    ),
    "XINFO CONSUMERS": Sent(
        2,
        True,
        (Need.READ_GROUP, Need.SHARED),
        without="a query that continues from its checkpoint does not notice other consumers",
        probe=(KEY, "g"),
    ),
    "XGROUP CREATE": Sent(2, True, (Need.READ_GROUP, Need.READ_CURSOR, Need.SHARED), probe=(KEY, "g", "$")),
    "XGROUP CREATECONSUMER": Sent(
        2,
        True,
        (Need.READ_GROUP, Need.READ_CURSOR),
        without="the group is not marked as a query's",
        probe=(KEY, "g", "c"),
    ),
    "XGROUP SETID": Sent(2, True, (Need.READ_GROUP, Need.READ_CURSOR), probe=(KEY, "g", "$")),
    "XGROUP DELCONSUMER": Sent(2, True, (Need.READ_GROUP, Need.SHARED), probe=(KEY, "g", "c")),
    "SET": Sent(
        1,
        False,
        (Need.READ_GROUP, Need.READ_CURSOR, Need.SHARED),
        without="there is no lease, so a second run of the query is not noticed",
        probe=(KEY, "v", "XX"),
    ),
    "GET": Sent(1, True, (Need.READ_GROUP, Need.READ_CURSOR, Need.SHARED), without="there is no lease", probe=(KEY,)),
    "DEL": Sent(
        1,
        True,
        (Need.READ_GROUP, Need.READ_CURSOR, Need.SHARED),
        without="the lease of a query that has stopped expires instead",
        probe=(KEY,),
    ),
    "XREADGROUP": Sent(
        STREAMS, False, (Need.READ_GROUP, Need.SHARED), probe=("GROUP", "g", "c", "COUNT", 1, "STREAMS", KEY, ">")
    ),
    "CLIENT REPLY": Sent(
        0, True, (Need.READ_GROUP,), without="each delivery also sends the entries, which are discarded"
    ),
    "XPENDING": Sent(1, True, (Need.OVERWRITE, Need.READ_GROUP, Need.SHARED), probe=(KEY, "g")),
    "XACK": Sent(1, True, (Need.READ_GROUP, Need.SHARED, Need.DEAD_LETTERS), probe=(KEY, "g", "0-1")),
    "HGET": Sent(1, True, (Need.SHARED,)),
    "HKEYS": Sent(1, True, (Need.SHARED,)),
    "PS.STATE": Sent(1, True, (Need.ENGINE,)),
    "PS.NTH": Sent(1, True, (Need.ENGINE,)),
    "PS.SPLIT": Sent(1, True, (Need.ENGINE,)),
    "PS.DELIVER": Sent(1, True, (Need.ENGINE,)),
    "PS.ACKRANGE": Sent(1, True, (Need.ENGINE,)),
    "PS.COLUMNS": Sent(1, True, (Need.READ_COLUMNS,)),
    "XREAD": Sent(STREAMS, True, (Need.WATCH_CHEAPLY,), probe=("COUNT", 1, "STREAMS", KEY, "0")),
    "XLEN": Sent(1, True, (Need.WATCH_CHEAPLY,), probe=(KEY,)),
    "SCAN": Sent(0, True, (Need.PATTERN,), probe=(0, "COUNT", 1)),
    "SELECT": Sent(0, True, (Need.DATABASE,)),
    "CLUSTER SLOTS": Sent(0, True, (Need.CLUSTER,)),
    "ASKING": Sent(0, False, (Need.CLUSTER,)),
    "ROLE": Sent(0, True, (Need.SENTINEL_SERVER,)),
    "SENTINEL REPLICAS": Sent(0, True),
    "SENTINEL GET-MASTER-ADDR-BY-NAME": Sent(0, True, (Need.SENTINELS,)),
    "PING": Sent(0, True, (Need.IDLE,), without="idle connections are replaced"),
    "XCLAIM": Sent(1, False, probe=(KEY, "g", "c", 0, "0-1")),
    "XDEL": Sent(1, True, probe=(KEY, "0-1")),
    "MEMORY USAGE": Sent(2, True, probe=(KEY,)),
    "ACL": Sent(0, True),
    "CONFIG": Sent(0, True),
    "DBSIZE": Sent(0, True),
    "DISCARD": Sent(0, False),
    "TIME": Sent(0, True),
    "TYPE": Sent(1, True),
    "PTTL": Sent(1, True),
    "UNLINK": Sent(1, True),
    "XREVRANGE": Sent(1, True),
}
#: The engine's own commands for states, positions and deliveries. They are used only if a server has all of them.
EXTENSIONS = tuple(name for name, sent in COMMANDS.items() if sent.needs == (Need.ENGINE,))


def rule_of(name: str) -> str:
    """Return the rule of ACL SETUSER that permits a command."""
    return "+" + name.lower().replace(" ", "|")


#: The ACL rules for each need.
RULES: dict[Need, str] = {
    need: " ".join(rule_of(name) for name, sent in COMMANDS.items() if need in sent.needs) for need in Need
}
ENGINE_RULES = " ".join(map(rule_of, EXTENSIONS))
_BY_WORD = {
    name.partition(" ")[0]: sent for name, sent in COMMANDS.items()
}  # the subcommands of a command do not differ in `key` and `again`


def is_idempotent(command: Command) -> bool:
    """Return whether executing the command twice has the same effect as once."""
    word = str(command[0]).upper()
    if word == "XREADGROUP":  # idempotent for a consumer's history, but not for new entries
        return ">" not in command
    return word in _BY_WORD and _BY_WORD[word].again


def key_of(command: Command) -> bytes | None:
    """Return the first key of a command; None if it has no keys."""
    sent = _BY_WORD.get(str(command[0]).upper())
    at = 1 if sent is None else sent.key
    if at == STREAMS:
        at = streams_at(command) + 1
    if at == 0 or at >= len(command):
        return None
    key = command[at]
    return key if isinstance(key, bytes) else str(key).encode()


def keys_of(commands: Sequence[Command]) -> list[bytes | None]:
    """Return the key that routes each command.

    A command without a key (MULTI, EXEC) gets the key of the next command that has one. If no later command has a key,
    it gets the last key before it.
    """
    keys = [key_of(command) for command in commands]
    last = next((key for key in reversed(keys) if key is not None), None)
    for at in range(len(keys) - 1, -1, -1):
        if keys[at] is None:
            keys[at] = last
        last = keys[at]
    return keys


def streams_at(command: Command) -> int:
    """Return the index of the word STREAMS in an XREAD or XREADGROUP.

    The search starts after the names of the group and the consumer, since these may also be STREAMS.
    """
    return command.index("STREAMS", 4 if command[0] == "XREADGROUP" else 1)
