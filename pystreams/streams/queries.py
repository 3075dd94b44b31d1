"""Spark queries: reads the reports that `StreamMonitor` writes to a stream, and compares queries with their groups.

`spark_streams.reports` defines the fields of a report. One call reads at most a few hundred reports. A query without
reports for a day is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pystreams.streams.groups.group_states import Group
from spark_streams.reports import STREAM, QueryReport, from_fields
from streamclient.connection import Connection
from streamclient.errors import ResponseError
from streamwire.stream_id import ZERO, StreamId

_COUNT = 200  # maximum number of reports read per call
_QUERIES = 1000  # maximum number of queries in `latest`
_FORGET_MS = 86_400_000  # age of a query's last report after which the query is dropped


@dataclass(frozen=True)
class Reported:
    """A report and its time, in milliseconds since 1970."""

    at: int
    report: QueryReport


def behind_checkpoint(group: Group, committed: StreamId) -> str:
    """Return the consequence for a query with consume=range of a group that is behind the query's committed position.

    Returns an empty text if the group is not behind. `group` must have its consumers.
    """
    if group.position >= committed:
        return ""
    # During a delivery in the background, the connector puts the end of the delivery into the consumer's name.
    if any(each.name.endswith(b"-until-%b" % str(committed).encode()) for each in group.consumers or ()):
        return "the last batch's delivery was interrupted: the query moves the group to the checkpoint"
    return "the group is behind the checkpoint: GROUP_BEHIND"


class Queries:
    """Follows the reports in a stream. `latest`: the last report of each query, by the query's ID."""

    def __init__(self, stream: bytes = STREAM.encode()) -> None:
        self._stream = stream
        self._after: StreamId | None = None
        self.latest: dict[str, Reported] = {}

    def read_new(self, connection: Connection, now: int) -> list[Reported]:
        """Return new reports, oldest first; the first call returns the last few hundred. `now`: milliseconds since
        1970.

        Returns an empty list if the key is not a stream, or if the user may not read it.
        """
        if self._after is None:
            (reply,) = connection.pipeline([("XREVRANGE", self._stream, "+", "-", "COUNT", _COUNT)])
            page = [] if isinstance(reply, ResponseError) else reply[::-1]
            self._after = ZERO
        else:
            (reply,) = connection.pipeline([("XRANGE", self._stream, f"({self._after}", "+", "COUNT", _COUNT)])
            page = [] if isinstance(reply, ResponseError) else reply
        found = self._reports_of(page)
        for each in found:
            self.latest.pop(each.report.id, None)
            self.latest[each.report.id] = each
        while len(self.latest) > _QUERIES:
            del self.latest[next(iter(self.latest))]
        for name in [name for name, each in self.latest.items() if now - each.at > _FORGET_MS]:
            del self.latest[name]
        return found

    def _reports_of(self, page: Sequence[Any]) -> list[Reported]:
        found: list[Reported] = []
        for entry_id, words in page:
            self._after = StreamId.parse(entry_id)
            report = from_fields(words or [])
            if report is not None:
                found.append(Reported(self._after.ms, report))
        return found
