"""Trimming: ``MAXLEN|MINID [=|~] threshold [LIMIT n] [KEEPREF|DELREF|ACKED]`` of XADD and XTRIM.

Entries are removed from the head, exactly down to the threshold. ``~`` allows a server to keep more entries, so it only
adds LIMIT: a maximum number of entries to remove. The policy applies to groups' references to trimmed entries. KEEPREF
keeps pending records of trimmed entries, DELREF removes these records, and ACKED does not trim entries that a group
still needs.

ACKED examines entries in order, and the entries that it keeps would be examined again by every XADD. So the stream
records up to which ID all entries are pending (``Stream.needed_until``), and each pending entries list the smallest ID
that it has lost since (``PendingList.first_removed``). The next trim starts at the smaller one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

from engine.core.protocol import ids, pace
from engine.core.protocol.args import parse_int
from engine.core.protocol.replies import CommandError, at_once
from engine.core.protocol.xadd import POLICIES, Given
from engine.core.streams.compressed.disk_entries import UnreadableError
from engine.core.streams.stream import Stream

KEEPREF, DELREF, ACKED = POLICIES


T = TypeVar("T")
#: Work in steps. Entries whose references are looked up must not change between the steps.
Work = Generator[None, None, T]


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
                raise CommandError(b"ERR The LIMIT argument must be >= 0.")
        else:
            if self.strategy:
                raise CommandError(b"ERR syntax error, MAXLEN and MINID options at the same time are not compatible")
            self.strategy = token
            self.approximate = option.words[1:-1] == [b"~"]
            if token == b"MINID":
                self.threshold = ids.parse(value)
                return
            self.threshold = parse_int(value)
            if self.threshold < 0:
                raise CommandError(b"ERR The MAXLEN argument must be >= 0.")

    def check(self, required: bool) -> None:
        """Raise CommandError if the options contradict each other, or if a ``required`` strategy is missing."""
        if self.limit and not self.strategy:
            raise CommandError(b"ERR syntax error, LIMIT cannot be used without specifying a trimming strategy")
        if required and not self.strategy:
            raise CommandError(b"ERR syntax error, XTRIM must be called with a trimming strategy")
        if self.limit is not None and not self.approximate:
            raise CommandError(b"ERR syntax error, LIMIT cannot be used without the special ~ option")

    def apply(self, stream: Stream) -> tuple[int, UnreadableError | None]:
        """Trim the stream; return the number of removed entries, and the error that stopped trimming early, if any.

        Trimming stops before an entry that cannot be read.
        """
        return at_once(self.in_steps(stream))

    def in_steps(self, stream: Stream) -> Work[tuple[int, UnreadableError | None]]:
        """Trim the stream as `apply` does, in steps."""
        length = stream.length
        try:
            count = self.excess(stream) if self.strategy else 0
            if count:
                most = min(count, self.limit) if self.limit else count
                if self.policy == ACKED:
                    yield from self._trim_unneeded(stream, most)
                elif self.policy == DELREF:
                    yield from _trim_with_references(stream, most)
                else:
                    stream.trim_head(most)
        except UnreadableError as error:
            return length - stream.length, error
        return length - stream.length, None

    def excess(self, stream: Stream) -> int:
        """Return the number of entries beyond the threshold."""
        if self.strategy == b"MAXLEN":
            return max(stream.length - self.threshold, 0)
        if not self.threshold or not stream.length or stream.first_id >= self.threshold:
            return 0
        return stream.count(0, self.threshold - 1)

    def _trim_unneeded(self, stream: Stream, most: int) -> Work[None]:
        """Trim up to ``most`` entries that no group needs.

        Entries that a group needs count as entries of the stream: MAXLEN also removes later entries.
        """
        after, upto = self._unknown(stream)
        stream.needed_until = after
        for name, group in stream.groups.items():
            if group.pending.first_removed != ids.MAX_ID:
                stream.group(name).pending.first_removed = ids.MAX_ID
        while most and after < upto:
            entry_ids = stream.first_ids(pace.IDS, after)
            entry_ids = entry_ids[: bisect_right(entry_ids, upto)]
            if not entry_ids:
                break
            free = yield from unneeded(stream, entry_ids)
            after = free[most - 1] if len(free) >= most else entry_ids[-1]
            is_head = len(free) == len(entry_ids) and free[0] == stream.first_id
            free = free[:most]
            if is_head:
                stream.trim_head(len(free))
            else:
                stream.trim_many(free)
            most -= len(free)
            stream.needed_until = after
            if most and after < upto:
                yield

    def _unknown(self, stream: Stream) -> tuple[int, int]:
        """Return the IDs after which, and up to which, entries may be found that no group needs."""
        removed = min((group.pending.first_removed for group in stream.groups.values()), default=0)
        # All entries after this one are undelivered entries of a group.
        upto = min((group.last_id for group in stream.groups.values()), default=ids.MAX_ID)
        if self.strategy == b"MINID":
            upto = min(upto, self.threshold - 1)
        return min(stream.needed_until, max(removed - 1, 0)), upto


def _trim_with_references(stream: Stream, count: int) -> Work[None]:
    """Trim the first ``count`` entries and remove the groups' references to them."""
    while count and stream.length:
        entry_ids = stream.first_ids(min(count, pace.IDS))
        yield from drop_references(stream, entry_ids)
        count -= stream.trim_head(len(entry_ids))
        if count:
            yield


def unneeded(stream: Stream, entry_ids: list[int]) -> Work[list[int]]:
    """Return those of these IDs, which are ascending, that all groups have read and acknowledged."""
    for number, group in enumerate(stream.groups.values(), 1):
        if not entry_ids:
            break
        entry_ids = group.unneeded(entry_ids)
        if not number % pace.GROUPS:
            yield
    return entry_ids


def drop_references(stream: Stream, entry_ids: list[int]) -> Work[set[int]]:
    """Remove these entries, which are ascending, from the pending entries list of every group.

    Returns the IDs that were pending.
    """
    dropped: set[int] = set()
    for number, (name, group) in enumerate(stream.groups.items(), 1):
        left = group.pending.missing(entry_ids)
        if len(left) < len(entry_ids):
            dropped |= set(entry_ids).difference(left)
            stream.group(name).acknowledge_many(entry_ids)
        if not number % pace.GROUPS:
            yield
    return dropped


def effect_words(stream: Stream, trim: Trim) -> list[bytes]:
    """Return, for the log, the options of an exact trim that removes the same entries as ``trim`` has just removed.

    For every strategy, this is a trim to the length that the stream has now.
    """
    words = [b"MAXLEN", b"=", b"%d" % stream.length]
    return [trim.policy, *words] if trim.policy in (DELREF, ACKED) else words
