"""Stream IDs as values: parsing, order, neighbours.

Offsets in checkpoints contain their text form, so it must never change. Knows nothing of servers, Spark or options.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TOP = 2**64 - 1
_TEXT = re.compile(r"([0-9]{1,20})(?:-([0-9]{1,20}))?")
_DATE = re.compile(r"(?:19[7-9]|2[01][0-9])[0-9](?:-[0-9]{2}|[0-9]{4})?")


class StreamId(NamedTuple):
    """`ms`: milliseconds since 1970; `seq`: sequence number within that millisecond. Both are unsigned 64-bit.

    A tuple, because a query of a thousand streams compares some thousands of them in each trigger.
    """

    ms: int
    seq: int

    def __str__(self) -> str:
        return f"{self.ms}-{self.seq}"

    @classmethod
    def parse(cls, text: str | bytes, seq: int = 0) -> StreamId:
        """The ID in `text`; `seq` is used if it has no sequence number. ValueError if it is no ID."""
        found = _TEXT.fullmatch(text if isinstance(text, str) else text.decode("ascii", "replace"))
        if found is None:
            raise ValueError(f"{text!r} is not a stream ID")
        parsed = cls(int(found[1]), seq if found[2] is None else int(found[2]))
        if parsed.ms > _TOP or parsed.seq > _TOP:
            raise ValueError(f"{text!r} is beyond the largest stream ID")
        return parsed

    def before(self) -> StreamId:
        """The previous ID; for 0-0 itself."""
        if self.seq:
            return StreamId(self.ms, self.seq - 1)
        return StreamId(self.ms - 1, _TOP) if self.ms else self

    def next(self) -> StreamId:
        """The next ID; for the largest itself."""
        if self.seq < _TOP:
            return StreamId(self.ms, self.seq + 1)
        return StreamId(self.ms + 1, 0) if self.ms < _TOP else self


ZERO = StreamId(0, 0)
LAST = StreamId(_TOP, _TOP)
LARGEST_MS = LARGEST_SEQ = _TOP


def is_date(text: str) -> bool:
    """Whether a text is a year, month or day of the years 1970 to 2199: it is not taken for an ID."""
    return _DATE.fullmatch(text) is not None
