"""Reading a range of a stream: as columns if the server has PS.COLUMNS and is no cluster, otherwise by XRANGE.

The rows are the same either way. A reply ends after about a megabyte (up to eight for entries with many fields), and
the next request starts after the reply's last entry, even after a failover to another server or a refusal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streamclient.capabilities import is_refused
from streamclient.codec import blocks
from streamclient.codec.blocks import Block, Frames
from streamclient.codec.reply import Page, ReplyError
from streamclient.connection import Command, Connection
from streamclient.streams.entries import xrange
from streamclient.streams.entries.page_size import PageSize
from streamwire.stream_id import StreamId

_COMMAND = "PS.COLUMNS"


def pages(
    connection: Connection,
    stream: str,
    after: StreamId,
    upto: StreamId,
    most: int,
    fields: Sequence[bytes] | None = None,
    size: PageSize | None = None,
) -> Iterator[Page]:
    """Yield pages like `xrange.pages`, without delivery.

    Values of fields that are not in `fields` may be missing. If `fields` is None, all values are present.
    """
    size = size or PageSize(most)
    if connection.topology.is_cluster or not connection.capabilities.has(_COMMAND):
        yield from xrange.pages(connection, stream, after, upto, most, size=size)
        return

    def ask(behind: StreamId) -> bytes:
        # Page sizes of later commands depend on the size of complete entries, so the first page has all fields.
        named = fields if size.is_known else None
        return connection.request([_command(stream, behind, upto, most, size.bytes, named)])

    token = ask(after)
    while True:
        buffer, _ = connection.receive(token)
        try:
            found = blocks.blocks(buffer)
        except ReplyError as refusal:
            if not is_refused(str(refusal)):
                raise xrange.failure(connection, stream, _COMMAND, refusal) from None
            connection.capabilities.mark_missing(_COMMAND)
            yield from xrange.pages(connection, stream, after, upto, most, size=size)
            return
        if not found:
            return
        _learn(size, buffer, found)
        guess = _last_id(buffer, found[-1])
        ahead = None if guess is None or guess >= upto else ask(guess)
        for page in blocks.pages(buffer, found):
            after = StreamId.parse(page.last_id())
            yield page
        if ahead is not None and guess != after:
            connection.receive(ahead)
            ahead = None
        if after >= upto:
            return
        token = ahead or ask(after)


def _command(
    stream: str, after: StreamId, upto: StreamId, most: int, size: int, fields: Sequence[bytes] | None
) -> Command:
    named: Command = () if fields is None else ("FIELDS", len(fields), *fields)
    return (_COMMAND, stream, f"({after}", str(upto), "COUNT", most, "BYTES", size, *named)


def _learn(size: PageSize, buffer: bytearray, found: Sequence[Block]) -> None:
    """Record the size of entries, if all of their fields were sent."""
    whole = [block for block in found if isinstance(block, Frames) or block.is_whole]
    if len(whole) == len(found):
        first = whole[0]
        fields = xrange.fields_at(buffer, first.span[0]) if isinstance(first, Frames) else len(first.names)
        size.update(sum(block.count for block in whole), sum(block.frame_bytes for block in whole), fields)


def _last_id(buffer: bytearray, last: Block) -> StreamId | None:
    """Return the ID of a block's last entry; for frames it is a guess."""
    if isinstance(last, Frames):
        return xrange.last_id(buffer, last.span[1])
    return StreamId.parse(blocks.last_id(buffer, last))
