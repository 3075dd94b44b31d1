"""Read-only Lua scripts: facts that no command of Redis reports without sending whole entries.

XINFO STREAM replies with a stream's first and last entry, and XRANGE with all entries of a range. A script replies with
only the IDs. Scripts are used if the entries are large and the server allows `EVAL`; everything works without them.
This module owns the scripts and the parsing of their replies. It sends nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streamclient.commands import Command
from streamwire.stream_id import StreamId

_STATE = """
local found, largest = {}, 0
for i, value in ipairs(redis.call('XINFO', 'STREAM', KEYS[1])) do
  if type(value) == 'table' then
    local size = 0
    for _, word in ipairs(value[2]) do size = size + #word end
    largest = math.max(largest, size)
    value = value[1]
  end
  found[i] = value
end
found[#found + 1] = 'entry-bytes'
found[#found + 1] = largest
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
    """A range without its values: the number of entries, the size of their fields in bytes, and the ID of the last
    entry.

    `marks` are the requested IDs.
    """

    count: int
    size: int
    last: StreamId | None
    marks: Sequence[StreamId]


def state_of(stream: str | bytes) -> Command:
    """Return the script that replies like XINFO STREAM, with IDs in place of entries, followed by `entry-bytes`.

    `entry-bytes` is the size of the larger of the two entries.
    """
    return ("EVAL", _STATE, 1, stream)


def ids_of(stream: str | bytes, after: StreamId, upto: StreamId, count: int, first: int, step: int) -> Command:
    """Return the script that replies with `Ids` of at most `count` entries in (after, upto].

    Its marks are the IDs of the `first`-th entry and of every `step`-th entry after it.
    """
    return ("EVAL", _IDS, 1, stream, f"({after}", str(upto), count, first, step)


def parsed_ids(reply: Any) -> Ids:
    """Parse the reply to `ids_of`."""
    count, size, last, *marks = reply
    return Ids(int(count), int(size), None if last is None else StreamId.parse(last), [*map(StreamId.parse, marks)])
