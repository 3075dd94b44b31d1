"""Trimming: ``MAXLEN|MINID [=|~] threshold [LIMIT n] [KEEPREF|DELREF|ACKED]`` of XADD and XTRIM.

Exact trimming removes entries from the head. Approximate trimming removes whole nodes of the node map
(``engine.core.streams.nodes``). The policy applies to groups' references to trimmed entries. KEEPREF keeps pending
records of trimmed entries, DELREF removes these records, and ACKED does not trim entries that a group still needs.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.protocol import ids
from engine.core.protocol.args import parse_int
from engine.core.protocol.replies import CommandError
from engine.core.protocol.xadd_options import POLICIES, Given
from engine.core.streams.compressed.disk_entries import UnreadableError
from engine.core.streams.stream import Stream
from engine.text.messages import streams

KEEPREF, DELREF, ACKED = POLICIES

#: Default LIMIT of approximate trimming, as a number of nodes, as in Redis.
_DEFAULT_LIMIT_NODES = 100
#: Maximum of this default, as a number of entries.
_MAX_LIMIT = 1_000_000


@dataclass(slots=True)
class Trim:
    """Trimming options."""

    #: MAXLEN, MINID, or empty (no trimming).
    strategy: bytes = b""
    #: The maximum length or the minimum ID.
    threshold: int = 0
    approximate: bool = False
    #: Maximum number of entries to remove; 0: no maximum, None: not given.
    limit: int | None = None
    #: One of POLICIES; empty: not given.
    policy: bytes = b""

    def set_option(self, option: Given) -> None:
        """Set a trimming option. Raises CommandError if its value is invalid, or if a strategy was already set."""
        token, value = option.token, option.words[-1]
        if token in POLICIES:
            self.policy = token
        elif token == b"LIMIT":
            self.limit = parse_int(value)
            if self.limit < 0:
                raise CommandError(streams.LIMIT_NEGATIVE)
        else:
            if self.strategy:
                raise CommandError(streams.TRIM_TWICE)
            self.strategy = token
            self.approximate = option.words[1:-1] == [b"~"]
            if token == b"MINID":
                self.threshold = ids.parse(value)
                return
            self.threshold = parse_int(value)
            if self.threshold < 0:
                raise CommandError(streams.MAXLEN_NEGATIVE)

    def check(self, required: bool) -> None:
        """Raise CommandError if the options contradict each other, or if a ``required`` strategy is missing."""
        if self.limit and not self.strategy:
            raise CommandError(streams.LIMIT_WITHOUT_TRIM)
        if required and not self.strategy:
            raise CommandError(streams.TRIM_MISSING)
        if self.limit is not None and not self.approximate:
            raise CommandError(streams.LIMIT_WITHOUT_APPROX)

    def apply(self, stream: Stream) -> tuple[int, UnreadableError | None]:
        """Trim the stream; return the number of removed entries, and the error that stopped trimming early, if any.

        Trimming stops before an entry that cannot be read.
        """
        length = stream.length
        try:
            if not self.strategy or not self._any_beyond(stream):
                return 0, None
            if self.policy in (DELREF, ACKED):
                return self._by_entry(stream), None
            if not self.approximate:
                return stream.trim_head(self.excess(stream)), None
            return self._by_node(stream), None
        except UnreadableError as error:
            return length - stream.length, error

    def excess(self, stream: Stream) -> int:
        """Return the number of entries beyond the threshold."""
        if self.strategy == b"MAXLEN":
            return max(stream.length - self.threshold, 0)
        if not self.threshold or not stream.length or stream.first_id >= self.threshold:
            return 0
        return stream.count(0, self.threshold - 1)

    def _any_beyond(self, stream: Stream) -> bool:
        """Return whether any entry is beyond the threshold."""
        if self.strategy == b"MAXLEN":
            return stream.length > self.threshold
        return bool(stream.length) and stream.first_id < self.threshold

    def _effective_limit(self, stream: Stream) -> int:
        """Return the maximum number of entries to remove; 0: no maximum."""
        if not self.approximate:
            return 0
        if self.limit is not None:
            return self.limit
        default = _DEFAULT_LIMIT_NODES * stream.storage.limits.max_entries
        return min(default, _MAX_LIMIT) if default > 0 else 10_000

    def _droppable(self, stream: Stream, last_id: int, live: int) -> bool:
        """Return whether a node with this last ID and ``live`` entries is entirely beyond the threshold."""
        if self.strategy == b"MAXLEN":
            return stream.length - live >= self.threshold
        return last_id < self.threshold

    def _by_node(self, stream: Stream) -> int:
        by_id, limit, length = self.strategy == b"MINID", self._effective_limit(stream), stream.length
        most = length if by_id else length - self.threshold
        left = min(most, limit) if limit else most
        # A node never spans two segments, so whole segments can be removed without deriving their nodes.
        while 0 < stream.head_live <= left and not (by_id and stream.head_last_id >= self.threshold):
            left -= stream.trim_head(stream.head_live)
        while left > 0 and stream.length:
            last_id, live = stream.head_node()
            if live > left or (by_id and last_id >= self.threshold):
                break
            left -= stream.trim_head(live)
        return length - stream.length

    def _by_entry(self, stream: Stream) -> int:
        limit, behind = self._effective_limit(stream), -1
        removed = self._trim_sealed(stream) if self.policy == DELREF and not self.approximate else 0
        while self._any_beyond(stream):
            node = stream.node_behind(behind)
            if node is None:
                break
            first_id, last_id, live = node
            if limit and removed + live > limit:
                break
            if self.policy == ACKED and any(group.last_id < first_id for group in stream.groups.values()):
                # A group still needs this node and all later nodes.
                break
            droppable = self._droppable(stream, last_id, live)
            dropped = self._trim_node(stream, first_id, last_id, whole=droppable and self.policy == DELREF)
            removed += dropped
            if not droppable and dropped < live:
                break
            behind = last_id
        return removed

    def _trim_sealed(self, stream: Stream) -> int:
        """Trim sealed segments exactly, with the policy DELREF; return the number removed. This needs no nodes."""
        count = min(self.excess(stream), stream.length - stream.open_length)
        if not count:
            return 0
        entry_ids = stream.first_ids(count)
        for group in stream.groups.values():
            group.acknowledge_many(entry_ids)
        return stream.trim_head(count)

    def _trim_node(self, stream: Stream, first_id: int, last_id: int, *, whole: bool) -> int:
        """Trim a node's entries beyond the threshold, as far as the policy allows; return the number removed.

        ``whole``: whether to remove all entries of the node, which must be the stream's oldest node.
        """
        entry_ids, dropped = stream.ids(first_id, last_id), 0
        if whole:
            for group in stream.groups.values():
                group.acknowledge_many(entry_ids)
            return stream.trim_head(len(entry_ids))
        for entry_id in entry_ids:
            beyond = stream.length > self.threshold if self.strategy == b"MAXLEN" else entry_id < self.threshold
            if not beyond:
                break
            if self.policy == DELREF:
                drop_references(stream, entry_id)
            elif referenced(stream, entry_id):
                continue
            stream.trim_entry(entry_id)
            dropped += 1
        return dropped


def referenced(stream: Stream, entry_id: int) -> bool:
    """Return whether a group has not yet read, or not yet acknowledged, the entry."""
    return any(group.references(entry_id) for group in stream.groups.values())


def drop_references(stream: Stream, entry_id: int) -> bool:
    """Remove the entry from the pending entries list of every group; return whether any contained it."""
    return sum([group.acknowledge(entry_id) for group in stream.groups.values()]) > 0


def effect_words(stream: Stream, trim: Trim) -> list[bytes]:
    """Return, for the log, the options of an exact trim that removes the same entries as ``trim`` has just removed.

    For every strategy, this is a trim to the length that the stream has now.
    """
    words = [b"MAXLEN", b"=", b"%d" % stream.length]
    return [trim.policy, *words] if trim.policy in (DELREF, ACKED) else words
