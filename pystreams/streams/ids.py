"""IDs without values: the state of a stream and the first entry behind a position, where entries are large.

XINFO STREAM and XRANGE send whole entries along. The engine has PS.NTH instead; elsewhere a read-only script leaves the
values out of streams whose entries were seen to be large (`spark_streams.server.scripts`), where scripts may run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import redis

from pystreams.values.names import to_shell
from spark_streams.client.connection import Command, Connection
from spark_streams.server import scripts
from spark_streams.stream_id import LAST, StreamId

_nth: WeakKeyDictionary[Connection, bool] = WeakKeyDictionary()


def states(connection: Connection, names: Sequence[bytes]) -> list[Any]:
    """The replies of XINFO STREAM, refusals among them. Large entries are replaced by their IDs."""
    known = scripts.knowledge(connection)
    scripted = {name for name in names if known.pays(to_shell(name))}
    commands = [scripts.state_of(name) if name in scripted else _state(name) for name in names]
    replies = connection.pipeline(commands)
    refused = [at for at, name in enumerate(names) if name in scripted and _is_refusal(replies[at])]
    if refused:
        known.runs_scripts = False
        for at, reply in zip(refused, connection.pipeline([_state(names[at]) for at in refused]), strict=True):
            replies[at] = reply
    for name, reply in zip(names, replies, strict=True):
        if name not in scripted and isinstance(reply, list):
            known.learn(to_shell(name), reply)
    return replies


def _state(name: bytes) -> Command:
    return ("XINFO", "STREAM", name)


def _is_refusal(reply: Any) -> bool:
    return isinstance(reply, redis.ResponseError) and "no such key" not in str(reply) and "WRONGTYPE" not in str(reply)


def first_behind(connection: Connection, name: bytes, position: StreamId) -> Command:
    """The command whose reply `first_of` understands: the first entry behind the position."""
    if _has_nth(connection):
        return ("PS.NTH", name, str(position), 1)
    if scripts.knowledge(connection).pays(to_shell(name)):
        return scripts.ids_of(name, position, LAST, 1, 2, 1)
    return ("XRANGE", name, f"({position}", "+", "COUNT", 1)


def _has_nth(connection: Connection) -> bool:
    """Whether the server has PS.NTH. It is asked once per connection; a refusal means that it has not."""
    if connection not in _nth:
        (reply,) = connection.pipeline([("COMMAND", "INFO", "PS.NTH")])
        _nth[connection] = isinstance(reply, list) and all(reply)
    return _nth[connection]


def first_of(reply: Any) -> StreamId | None:
    """The ID in a reply to `first_behind`; None if there is no entry."""
    if not reply:
        return None
    if isinstance(reply[0], list):
        return StreamId.parse(reply[0][0])
    found = reply[2] if len(reply) > 2 else reply[0]
    return None if found is None else StreamId.parse(found)
