"""Protocols of the parts of a `StreamServer` that Redis and the engine implement in different ways.

`streamclient.streams.stream_server` combines them. Errors of the connection and refusals are raised as `ServerError`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from streamclient.connection import Command
from streamclient.streams.model import Cut, Range, StreamState
from streamwire.stream_id import StreamId


class States(Protocol):
    """States of streams, each with the state of one of its groups."""

    def of(self, streams: Sequence[str], group: str | None) -> dict[str, StreamState | None]:
        """Return each stream's state, or None if the key does not exist.

        If a group is given, the state includes the group's state. Raises NOT_A_STREAM for a key of another type.
        """
        ...

    def consistent(self, streams: Sequence[str], group: str) -> dict[str, StreamState | None]:
        """Return the same as `of`, but read each stream and its group at the same moment."""
        ...

    def requests(self, streams: Sequence[str], group: str, scripted: Collection[str] = frozenset()) -> list[Command]:
        """Return commands that read the state of each stream and its group at the same moment.

        The commands may be sent on any link. `scripted`: a result of the method of the same name.
        """
        ...

    def parsed(self, streams: Sequence[str], group: str, replies: Sequence[Any]) -> dict[str, StreamState | None]:
        """Return the states in the replies to `requests`, as `of` does.

        Raises RefusedForNowError if the commands must be sent again, after a new call of `requests`.
        """
        ...

    def scripted(self, streams: Iterable[str]) -> frozenset[str]:
        """Return the streams whose entries are so large that a script should read their state."""
        ...


class Entries(Protocol):
    """Numbers and positions of entries in ranges (after, upto] of streams."""

    @property
    def counts_cheaply(self) -> bool:
        """Whether the server counts entries without sending them."""
        ...

    def nths(self, requested: Sequence[tuple[str, StreamId, int, StreamId]]) -> list[tuple[StreamId, int]]:
        """Return, for each (stream, after, count, upto), the ID of the `count`-th entry in (after, upto], and `count`.

        If the range has fewer entries, return `upto` and their number.
        """
        ...

    def counts(self, requested: Sequence[tuple[str, StreamId, StreamId]]) -> list[int]:
        """Return the number of entries in (after, upto] of each (stream, after, upto).

        If `counts_cheaply` is false, all these entries are read.
        """
        ...

    def splits(self, wholes: Sequence[tuple[Range, int]], most: int | None, *, exact: bool) -> list[list[Cut]]:
        """Return the cuts of ranges, each given with its number of parts, into parts of equal size.

        A range is cut into more parts if a part would exceed `most` entries. The last cut is the range's end. With
        `exact`, the number of entries of each part is exact.
        """
        ...


class Delivery(Protocol):
    """Delivery of ranges to consumers, and their acknowledgement.

    `prefix` is the prefix of a query's consumer names; a hyphen and the index of a range are appended to it.
    """

    def deliver(self, batches: Iterable[tuple[Sequence[Range], StreamId]], group: str, prefix: str) -> None:
        """Add ranges to the group's pending list, each for the consumer of its index.

        `batches` are the ranges of each stream, in order, and the group's last-delivered ID in that stream. Entries up
        to that ID are skipped.
        """
        ...

    def acknowledge(self, uptos: Mapping[str, StreamId], group: str, prefix: str) -> None:
        """Acknowledge the entries pending for the query's consumers, in each stream up to the ID in `uptos`."""
        ...
