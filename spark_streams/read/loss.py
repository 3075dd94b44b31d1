"""Whether data was lost between two triggers: what a stream's state says about entries that nobody has read.

A stream that only grows has its last ID at or behind every position ever read, has had at least as many entries added
as were counted then, and still holds everything behind the position. Whatever contradicts that was deleted, trimmed or
made anew. Pure: states and positions in, findings out; who asks decides whether a finding is an error or a warning.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from spark_streams.config.address import Address
from spark_streams.errors import PystreamsError, error
from spark_streams.server.model import StreamState
from spark_streams.stream_id import ZERO, StreamId

_log = logging.getLogger("spark_streams")


@dataclass(frozen=True)
class Known:
    """What was known of a stream at a position: see `spark_streams.read.offsets` for `added` and `deleted`."""

    after: StreamId
    added: int | None = None
    deleted: StreamId = ZERO


@dataclass(frozen=True)
class Finding:
    """Entries that are gone. `anew`: the stream is another one, to be read from its beginning if at all.

    `count` is None where it is not known, `upto` the last ID that may be missing.
    """

    found: str
    anew: bool = False
    upto: StreamId | None = None
    count: int | None = None

    def error(self, stream: str, known: Known, address: Address) -> PystreamsError:
        if self.upto is None:
            return error("STREAM_LOST", stream=stream, address=address, offset=known.after, found=self.found)
        count = "an unknown number of entries" if self.count is None else f"{self.count} entries"
        after = known.after
        return error("ENTRIES_LOST", stream=stream, address=address, after=after, upto=self.upto, count=count)


def look(known: Known, state: StreamState | None, following: int | None) -> Finding | None:
    """What is gone behind a position; `following` is how many entries are there now, if that is known."""
    if state is None:
        return Finding("it does not exist any more", anew=True) if known.after > ZERO or known.added else None
    if state.last_id < known.after:
        return Finding(f"it now ends at {state.last_id}", anew=True)
    if known.added is not None and state.entries_added is not None:
        if state.entries_added < known.added:
            found = f"only {state.entries_added} entries were ever added to it, where {known.added} had been counted"
            return Finding(found, anew=True)
        if following is not None:
            gone = state.entries_added - known.added - following
            return Finding("", upto=_edge(known, state), count=gone) if gone > 0 else None
    if state.max_deleted_id > max(known.after, known.deleted):
        return Finding("", upto=state.max_deleted_id)
    return None


def look_group(state: StreamState) -> Finding | None:
    """What is gone of that which a group has yet to be given.

    The server counts what was added and what the group was given, so a head that was cut off shows in what is left.
    """
    group = state.group
    if group is None or group.last_delivered_id >= state.last_id:
        return None
    if state.max_deleted_id > group.last_delivered_id:
        return Finding("", upto=state.max_deleted_id)
    if (
        state.entries_added is None
        or group.entries_read is None
        or (state.first_id is not None and state.first_id <= group.last_delivered_id)
    ):
        return None
    count = state.entries_added - group.entries_read - state.length
    upto = state.last_id if state.first_id is None else state.first_id.before()
    return Finding("", upto=upto, count=count) if count > 0 else None


def _edge(known: Known, state: StreamState) -> StreamId:
    """The last ID that may be missing: before the first entry if the head was cut off, else anywhere."""
    if state.first_id is not None and state.first_id > known.after:
        return max(state.first_id.before(), state.max_deleted_id)
    return max(state.max_deleted_id, known.after) if state.max_deleted_id > known.after else state.last_id


def report(finding: Finding, stream: str, known: Known, address: Address, *, fails: bool) -> int:
    """Raise the finding, or warn of it and say how many entries it counts for (one where the number is unknown)."""
    raised = finding.error(stream, known, address)
    if fails:
        raise raised
    _log.warning("%s", raised)
    return 1 if finding.count is None else finding.count
