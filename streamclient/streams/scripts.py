"""Read-only Lua scripts: what Redis has no command to say without sending whole entries.

XINFO STREAM replies with a stream's first and last entry, and XRANGE with all of a range; a script replies with their
IDs. It runs where the entries are large and the server allows it (`EVAL`); everything can be had without it. Knows the
scripts, their replies and what was learned about a server; sends nothing itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from streamclient.connection import Command, Connection
from streamwire.stream_id import StreamId

_LARGE = 1024  # bytes of an entry: sending larger ones costs more than running a script
_SCRIPT_BYTES = 1 << 24  # what a script may load at a time, about
_SCRIPT_ENTRIES = 1000

_STATE = """
local found = {}
for i, value in ipairs(redis.call('XINFO', 'STREAM', KEYS[1])) do
  found[i] = type(value) == 'table' and value[1] or value
end
return found
"""

_IDS = """
local entries = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[2], 'COUNT', ARGV[3])
local size = 0
for _, entry in ipairs(entries) do
  for _, word in ipairs(entry[2]) do size = size + #word end
end
local found = {#entries, size, #entries > 0 and entries[#entries][1] or false}
for i = tonumber(ARGV[4]), #entries, tonumber(ARGV[5]) do found[#found + 1] = entries[i][1] end
return found
"""


@dataclass(frozen=True)
class Ids:
    """A range without its values: the number of entries, the size of their fields in bytes, and the last one's ID.

    `marks` are the IDs that were asked for besides.
    """

    count: int
    size: int
    last: StreamId | None
    marks: Sequence[StreamId]


@dataclass
class Knowledge:
    """What was learned about a server through one connection.

    `runs_scripts`, `tells_news`: whether it does; true until it refuses. `delivers`: whether the user is known to be
    allowed to read for a group. `deletes`: whether the user may delete consumers; true until that is refused. `sizes`:
    the size of an entry in bytes, of streams whose entries are large.
    """

    runs_scripts: bool = True
    tells_news: bool = True
    delivers: bool = False
    deletes: bool = True
    sizes: dict[str, int] = field(default_factory=dict)

    def learn(self, stream: str, reply: Sequence[Any]) -> None:
        """The reply of XINFO STREAM, with its entries, was this one."""
        size = max((sum(map(len, entry[1])) for entry in reply if isinstance(entry, list)), default=0)
        if size > _LARGE:
            self.sizes[stream] = size

    def pays(self, stream: str) -> bool:
        """Whether a script is better than having the stream's entries sent."""
        return self.runs_scripts and stream in self.sizes

    def page(self, stream: str) -> int:
        """How many of the stream's entries a script may look at."""
        return max(1, min(_SCRIPT_ENTRIES, _SCRIPT_BYTES // self.sizes.get(stream, 1)))


_known: WeakKeyDictionary[Connection, Knowledge] = WeakKeyDictionary()


def knowledge(connection: Connection) -> Knowledge:
    """What was learned through this connection."""
    return _known.setdefault(connection, Knowledge())


def state_of(stream: str | bytes) -> Command:
    """The script that replies as XINFO STREAM does, with the IDs of entries in their place."""
    return ("EVAL", _STATE, 1, stream)


def ids_of(stream: str | bytes, after: StreamId, upto: StreamId, count: int, first: int, step: int) -> Command:
    """The script that replies with `Ids` of at most `count` entries: marks are the first-th, every step-th behind."""
    return ("EVAL", _IDS, 1, stream, f"({after}", str(upto), count, first, step)


def parsed_ids(reply: Any) -> Ids:
    """The reply to `ids_of`."""
    count, size, last, *marks = reply
    return Ids(int(count), int(size), None if last is None else StreamId.parse(last), [*map(StreamId.parse, marks)])
