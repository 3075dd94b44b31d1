"""Following streams: existing entries of all streams in the order of IDs, then new entries.

While the caller iterates, a broken connection is opened again, and reading continues after the last entry.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pystreams.streams import entries
from pystreams.streams.paged_calls import ask_all
from pystreams.values.fields import Entry
from streamclient.connection import BROKEN, Command, Connection
from streamclient.errors import PystreamsError
from streamclient.refusals import Refusal, refusal_of
from streamwire.slots import slot_of
from streamwire.stream_id import StreamId

#: An entry with its stream's name.
Found = tuple[bytes, Entry]

_WAIT_MS = 1000  # time for which a request blocks, and thus the maximum delay of Ctrl-C
_POLL_SECONDS = 0.2  # interval of requests in a cluster, where one request cannot wait for streams of several slots
_COUNT = 500  # maximum number of entries of each stream per request
_PAUSE_SECONDS = 0.5  # pause after a failure
_WAITS_FOR = ("SERVER_UNREACHABLE", "CONNECTION_BROKEN")


def present(connection: Connection, spans: Mapping[bytes, tuple[StreamId, StreamId]]) -> Iterator[Found]:
    """Yield the entries of each stream in its range (after, upto], merged in the order of their IDs."""

    def read(name: bytes, after: StreamId, upto: StreamId) -> Iterator[Found]:
        for page in entries.pages(connection, name, after, upto):
            for entry in page:
                yield name, entry

    return _merged([read(name, *span) for name, span in spans.items()])


def last(
    connection: Connection, ends: Mapping[bytes, StreamId], wanted: Callable[[Found], bool], count: int
) -> Iterator[Found]:
    """Yield the last `count` wanted entries of each stream up to its end, merged in the order of their IDs.

    Each stream is searched backwards, up to its first entry if fewer entries are wanted.
    """

    def search(name: bytes, upto: StreamId) -> list[Found]:
        every = ((name, entry) for page in entries.pages_back(connection, name, upto) for entry in page)
        return list(itertools.islice(filter(wanted, every), count))[::-1]

    return _merged([search(name, upto) for name, upto in ends.items()])


def _merged(streams: Sequence[Iterable[Found]]) -> Iterator[Found]:
    return heapq.merge(*streams, key=lambda found: (StreamId.parse(found[1][0]), found[0]))


def follow(
    connection: Connection, positions: Mapping[bytes, StreamId], lost: Callable[[str], None]
) -> Iterator[list[Found]]:
    """Yield new entries after these IDs endlessly, and empty lists in between. `lost` gets messages about the
    connection.
    """
    after = dict(positions)
    for page in retry_forever(lambda: _news(connection, after), lost):
        for name, entry in page:
            after[name] = StreamId.parse(entry[0])
        yield page


def retry_forever(read: Callable[[], list[Found]], lost: Callable[[str], None]) -> Iterator[list[Found]]:
    """Yield results of `read` endlessly.

    Call `lost` with a message when the server becomes unreachable, and when it is back.
    """
    unreachable = False
    while True:
        try:
            page = read()
        except (PystreamsError, *BROKEN) as failure:
            if isinstance(failure, PystreamsError) and not _may_pass(failure):
                raise
            if not unreachable:
                lost("The server is unreachable. Waiting for it.")
            unreachable = True
            time.sleep(_PAUSE_SECONDS)
            continue
        if unreachable:
            lost("The server is reachable again.")
        unreachable = False
        yield page


def _may_pass(failure: PystreamsError) -> bool:
    """Return whether the server, or another one in its place, may answer later: it is unreachable, or has just become a
    replica.
    """
    refused = failure.condition == "SERVER_REFUSED" and refusal_of(failure.parameters["reason"]) is Refusal.LATER
    return refused or failure.condition in _WAITS_FOR


def _news(connection: Connection, after: Mapping[bytes, StreamId]) -> list[Found]:
    together: dict[int, list[bytes]] = {}
    for name in after:
        together.setdefault(slot_of(name) if connection.topology.is_cluster else 0, []).append(name)
    blocks: Command = ("BLOCK", _WAIT_MS) if len(together) == 1 else ()
    commands: list[Command] = [
        ("XREAD", "COUNT", _COUNT, *blocks, "STREAMS", *some, *(str(after[name]) for name in some))
        for some in together.values()
    ]
    found = [entry for reply in ask_all(connection, commands) for entry in listed(reply)]
    if not found and not blocks:
        time.sleep(_POLL_SECONDS)
    return found


def listed(reply: Any) -> list[Found]:
    """Return the entries of a reply to XREAD or XREADGROUP, in the order of their IDs."""
    found = [(name, (entry[0], entry[1] or [])) for name, page in reply or () for entry in page]
    return sorted(found, key=lambda each: StreamId.parse(each[1][0])) if len(reply or ()) > 1 else found
