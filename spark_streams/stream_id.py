"""Stream IDs as values: parsing, order, neighbours. Knows nothing of servers, Spark or options.

Offsets in checkpoints are made of these, so the text form must stay as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOP = 2**64 - 1
_TEXT = re.compile(r"([0-9]{1,20})(?:-([0-9]{1,20}))?")


@dataclass(frozen=True, order=True)
class StreamId:
    """`ms`: milliseconds since 1970, `seq`: number within that millisecond; both unsigned 64-bit."""

    ms: int
    seq: int

    def __str__(self) -> str:
        return f"{self.ms}-{self.seq}"

    @classmethod
    def parse(cls, text: str | bytes, seq: int = 0) -> StreamId:
        """The ID that `text` says; `seq` completes one without a sequence number. ValueError if it says none."""
        found = _TEXT.fullmatch(text if isinstance(text, str) else text.decode("ascii", "replace"))
        if found is None:
            raise ValueError(f"{text!r} is not a stream ID")
        parsed = cls(int(found[1]), seq if found[2] is None else int(found[2]))
        if parsed.ms > _TOP or parsed.seq > _TOP:
            raise ValueError(f"{text!r} is beyond the largest stream ID")
        return parsed

    def before(self) -> StreamId:
        """The ID just before this one; 0-0 is its own."""
        if self.seq:
            return StreamId(self.ms, self.seq - 1)
        return StreamId(self.ms - 1, _TOP) if self.ms else self

    def next(self) -> StreamId:
        """The ID just behind this one; the largest is its own."""
        if self.seq < _TOP:
            return StreamId(self.ms, self.seq + 1)
        return StreamId(self.ms + 1, 0) if self.ms < _TOP else self


ZERO = StreamId(0, 0)
LAST = StreamId(_TOP, _TOP)
LARGEST_MS = LARGEST_SEQ = _TOP
