"""The protocol `StreamServer`: all that planners and readers ask of a server about streams and consumer groups.

Two classes implement it: `RedisServer` with the commands of any Redis or Valkey, `EngineServer` with the engine's own.
`streamclient.streams.open` chooses. Errors of the connection and refusals are raised as `ServerError`.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from streamclient.connection import Command
from streamclient.streams.model import Counted, Cut, Range, StreamState
from streamwire.stream_id import StreamId


class StreamServer(Protocol):
    """Questions about streams and groups, and the group commands that a query needs.

    `prefix` is the prefix of the query's consumer names; `-<number>` is appended to it.
    """

    @property
    def counts_cheaply(self) -> bool:
        """Whether the server counts entries without sending them."""
        ...

    def states(self, streams: Sequence[str], group: str | None) -> dict[str, StreamState | None]:
        """Each stream's state, with that of `group` if one is named; None where the key does not exist.

        Raises NOT_A_STREAM for a key of another type.
        """
        ...

    def scripted(self, streams: Iterable[str]) -> frozenset[str]:
        """Those of the streams whose entries are so large that their state had better be asked for by a script."""
        ...

    def looks(self, streams: Sequence[str], group: str, scripted: Collection[str] = frozenset()) -> list[Command]:
        """The commands that ask for the streams' states, each with its group's at the same moment, on any link."""
        ...

    def seen(self, streams: Sequence[str], group: str, replies: Sequence[Any]) -> dict[str, StreamState | None]:
        """The states that the replies to `looks` tell, as `states` returns them.

        Raises RefusedForNowError where the server is to be asked again, with what `looks` says by then.
        """
        ...

    def states_at_once(self, streams: Sequence[str], group: str) -> dict[str, StreamState | None]:
        """As `states`, but each stream and its group are read at the same moment."""
        ...

    def changed(self, streams: Mapping[str, StreamState | None], group: str | None, wait: int) -> set[str] | None:
        """The streams to which entries were added, or from which some were removed, since they had these states.

        If a group is named, also those where its state is another one. Waits up to `wait` milliseconds for an entry,
        unless the streams are in different slots of a cluster. None where the server does not say. A stream that was
        deleted and made anew with as many entries, none of them with a larger ID, is not told apart: ask for its state
        from time to time.
        """
        ...

    def find_streams(self, pattern: str) -> list[str]:
        """The names of the streams that match a glob, sorted. Raises STREAM_NAME_NOT_TEXT for a name not in UTF-8."""
        ...

    def missing(self, entries: Mapping[str, StreamId]) -> set[str]:
        """The streams that do not have the entry with that ID."""
        ...

    def nth(self, stream: str, after: StreamId, count: int, upto: StreamId) -> tuple[StreamId, int]:
        """The ID of the `count`-th entry in (after, upto], and `count`. With fewer entries: `upto` and their number."""
        ...

    def nths(self, asked: Sequence[tuple[str, StreamId, int, StreamId]]) -> list[tuple[StreamId, int]]:
        """As `nth`, of several streams: (stream, after, count, upto)."""
        ...

    def look_ahead(self, stream: str, after: StreamId, count: int, upto: StreamId) -> Counted | None:
        """What `know` needs for `nths` to be answered without asking; None if there are fewer entries."""
        ...

    def deliver_ahead(
        self, stream: str, after: StreamId, shares: Sequence[tuple[str, int]], group: str
    ) -> Generator[None, None, Counted | None]:
        """Deliver the entries behind `after` to consumers, each its number of them in turn, a page at each step.

        Returns what `know` needs. None if the group is not at `after`, which changes nothing, or if it is not certain
        that it has passed these entries and no others: it may be anywhere then.
        """
        ...

    def know(self, stream: str, after: StreamId, counted: Counted) -> None:
        """Take as known what `look_ahead` or `deliver_ahead` has found behind a position."""
        ...

    def count(self, stream: str, after: StreamId, upto: StreamId) -> int:
        """The number of entries in (after, upto]. Without `counts_cheaply` all of them are read."""
        ...

    def counts(self, asked: Sequence[tuple[str, StreamId, StreamId]]) -> list[int]:
        """As `count`, of several streams: (stream, after, upto)."""
        ...

    def splits(self, wholes: Sequence[tuple[Range, int]], most: int | None, *, exact: bool) -> list[list[Cut]]:
        """Cut each range into its number of parts of equal size, or into more if one would exceed `most` entries.

        The last cut is the range's end. With `exact` every part's number of entries is known.
        """
        ...

    def average_entry_bytes(self, stream: str, after: StreamId) -> float:
        """The average size on the wire, in bytes, of the next few entries after `after`; 0 without entries."""
        ...

    def create_groups(self, wanted: Mapping[str, tuple[StreamId, int | None]], group: str) -> set[str]:
        """Create the group at these last-delivered IDs, and streams that are missing. Returns where it did not exist.

        The number says how many entries were ever added up to there. A server that is not told may not know the
        group's lag.
        """
        ...

    def set_group_positions(self, wanted: Mapping[str, tuple[StreamId, int | None]], group: str) -> None:
        """Set the group's last-delivered ID in these streams, where it exists; the number is as in `create_groups`."""
        ...

    def create_consumers(self, consumers: Sequence[tuple[str, bytes]], group: str) -> set[str]:
        """Create consumers without entries, each of a stream. Returns the streams that have them now.

        A server needs a command for it (Redis 6.2).
        """
        ...

    def hold(
        self, streams: Sequence[str], name: str, holder: str, milliseconds: int, forced: Sequence[str]
    ) -> dict[str, str | None]:
        """Take or renew the holder's lease of that name beside each stream. Returns who has it now.

        The lease is taken from another one beside the streams `forced`. Raises SERVER_REFUSED.
        """
        ...

    def held(self, streams: Sequence[str], name: str) -> set[str]:
        """The streams beside which anybody has the lease of that name."""
        ...

    def let_go(self, streams: Sequence[str], name: str, holder: str) -> None:
        """Delete the holder's leases of that name."""
        ...

    def consumers_in(self, streams: Sequence[str], group: str) -> dict[str, list[tuple[bytes, int]]]:
        """Name and number of pending entries of each consumer in each stream; none if the group does not exist."""
        ...

    def delete_consumers(self, consumers: Sequence[tuple[str, bytes]], group: str) -> None:
        """Delete consumers, each of a stream, and drop what they have pending; nothing where the group is gone."""
        ...

    def first_pending_ids(self, streams: Sequence[str], group: str, prefix: str) -> dict[str, StreamId]:
        """The smallest ID pending for the query's consumers, in the streams where anything is."""
        ...

    def deliver(
        self, batches: Iterable[tuple[Sequence[Range], StreamId]], group: str, prefix: str, alone: Collection[str]
    ) -> frozenset[str]:
        """Add ranges to the group's pending list, each for the consumer of its index.

        `batches` are the ranges of each stream, in order, and the group's last-delivered ID in it: what lies up to
        there is skipped. `alone`: streams with one range, which has a task of its own. Returns the streams of which
        nothing was delivered, because their task does it at a smaller cost: it reads the entries anyway.
        """
        ...

    def check_may_deliver(self, part: Range, group: str, prefix: str) -> None:
        """Raise NOT_PERMITTED for a user who may not read for a group."""
        ...

    def deliver_pages(
        self, batches: Iterable[tuple[Sequence[Range], StreamId]], group: str, prefix: str
    ) -> Iterator[None]:
        """As `deliver`, of all ranges, a page of entries at each step of the iterator."""
        ...

    def acknowledge(self, uptos: Mapping[str, StreamId], group: str, prefix: str) -> None:
        """Acknowledge all entries that are pending for the query's consumers, in each stream up to its ID."""
        ...

    def first_unfinished_ids(self, streams: Sequence[str]) -> dict[str, StreamId | None]:
        """Each stream's smallest ID that any group has yet to read or acknowledge; None if the stream has no group."""
        ...

    def trim_before(self, befores: Mapping[str, StreamId]) -> None:
        """Remove the entries with smaller IDs than these from the streams."""
        ...
