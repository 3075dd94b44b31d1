"""Trimming: ``MAXLEN|MINID [=|~] threshold [LIMIT n] [KEEPREF|DELREF|ACKED]`` of XADD and XTRIM.

Entries are removed from the head, exactly down to the threshold. ``~`` allows a server to keep more entries, so it only
adds LIMIT: a maximum number of entries to remove. The policy applies to groups' references to trimmed entries. KEEPREF
keeps pending records of trimmed entries, DELREF removes these records, and ACKED does not trim entries that a group
still needs.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.protocol import ids
from engine.core.protocol.args import parse_int
from engine.core.protocol.replies import CommandError
from engine.core.protocol.xadd import POLICIES, Given
from engine.core.streams.compressed.disk_entries import UnreadableError
from engine.core.streams.stream import Stream
from engine.text import messages

KEEPREF, DELREF, ACKED = POLICIES

#: Number of entries whose references are handled together.
_AT_ONCE = 10_000


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
                raise CommandError(messages.LIMIT_NEGATIVE)
        else:
            if self.strategy:
                raise CommandError(messages.TRIM_TWICE)
            self.strategy = token
            self.approximate = option.words[1:-1] == [b"~"]
            if token == b"MINID":
                self.threshold = ids.parse(value)
                return
            self.threshold = parse_int(value)
            if self.threshold < 0:
                raise CommandError(messages.MAXLEN_NEGATIVE)

    def check(self, required: bool) -> None:
        """Raise CommandError if the options contradict each other, or if a ``required`` strategy is missing."""
        if self.limit and not self.strategy:
            raise CommandError(messages.LIMIT_WITHOUT_TRIM)
        if required and not self.strategy:
            raise CommandError(messages.TRIM_MISSING)
        if self.limit is not None and not self.approximate:
            raise CommandError(messages.LIMIT_WITHOUT_APPROX)

    def apply(self, stream: Stream) -> tuple[int, UnreadableError | None]:
        """Trim the stream; return the number of removed entries, and the error that stopped trimming early, if any.

        Trimming stops before an entry that cannot be read.
        """
        length = stream.length
        try:
            count = self.excess(stream) if self.strategy else 0
            if not count:
                return 0, None
            most = min(count, self.limit) if self.limit else count
            if self.policy == ACKED:
                return self._unreferenced(stream, most), None
            if self.policy == DELREF:
                return _with_references(stream, most), None
            return stream.trim_head(most), None
        except UnreadableError as error:
            return length - stream.length, error

    def excess(self, stream: Stream) -> int:
        """Return the number of entries beyond the threshold."""
        if self.strategy == b"MAXLEN":
            return max(stream.length - self.threshold, 0)
        if not self.threshold or not stream.length or stream.first_id >= self.threshold:
            return 0
        return stream.count(0, self.threshold - 1)

    def _unreferenced(self, stream: Stream, most: int) -> int:
        """Trim up to ``most`` entries that no group needs; return the number removed.

        Entries that a group needs count as entries of the stream: MAXLEN also removes later entries.
        """
        # All entries after this one are undelivered entries of a group.
        upto = min((group.last_id for group in stream.groups.values()), default=ids.MAX_ID)
        if self.strategy == b"MINID":
            upto = min(upto, self.threshold - 1)
        removed, after = 0, -1
        while removed < most:
            entry_ids = stream.first_ids(_AT_ONCE, after)
            for entry_id in entry_ids:
                if entry_id > upto or removed == most:
                    return removed
                if not referenced(stream, entry_id):
                    stream.trim_entry(entry_id)
                    removed += 1
            if len(entry_ids) < _AT_ONCE:
                break
            after = entry_ids[-1]
        return removed


def _with_references(stream: Stream, count: int) -> int:
    """Trim the first ``count`` entries and remove the groups' references to them; return the number removed."""
    removed = 0
    while removed < count:
        entry_ids = stream.first_ids(min(count - removed, _AT_ONCE))
        for group in stream.groups.values():
            group.acknowledge_many(entry_ids)
        removed += stream.trim_head(len(entry_ids))
    return removed


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
