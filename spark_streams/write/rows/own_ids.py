"""Rows with their own IDs, which are separated from other rows and checked before they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from spark_streams.errors import fail
from spark_streams.write.rows.encoding import OWN_IDS, EncodedRows
from streamwire.stream_id import StreamId


def check_ids(rows: EncodedRows, last: StreamId, address: object) -> None:
    """Raise ROW_REFUSED if the server would refuse a row's own ID. `last`: the stream's last ID before these rows."""
    for at, text in enumerate(rows.ids or ()):
        reason = ""
        try:
            last, before = _own_id(text or b"*", last), last
            if last <= before:
                entry_id = (text or b"").decode("utf-8", "backslashreplace")
                reason = f"the ID {entry_id} is not larger than the stream's last ID, {before}. {OWN_IDS}"
        except ValueError as problem:
            reason = f"{str(problem).rstrip('.')}. {OWN_IDS}"
        if reason:
            fail("ROW_REFUSED", row=int(rows.rows[at]), address=address, reason=reason.rstrip(". "))


def _own_id(text: bytes, last: StreamId) -> StreamId:
    """Return the ID of an entry that is added with the ID `text` after `last`."""
    ms, dash, seq = text.partition(b"-")
    if dash and seq == b"*":
        given = StreamId.parse(ms).ms
        return StreamId(given, last.seq + 1) if given == last.ms else StreamId(given, 0)
    return StreamId.parse(text)


def runs(together: Sequence[EncodedRows]) -> list[list[EncodedRows]]:
    """Return the rows in order, divided so that rows with their own IDs are separate from other rows.

    Otherwise an own ID could follow an ID that the server chooses, and could not be checked in advance.
    """
    if all(rows.ids is None for rows in together):
        return [list(together)]
    found: list[list[EncodedRows]] = []
    for rows in together:
        if rows.ids is None:
            found.append([rows])
            continue
        chosen = [each is not None and each != b"*" for each in rows.ids]
        cuts = [0, *(i for i in range(1, len(chosen)) if chosen[i] != chosen[i - 1]), len(chosen)]
        for first, end in pairwise(cuts):
            part = rows.part(first, end)
            if not chosen[first]:
                part = part.without_ids()
            found.append([part])
    return found
