"""The replication stream as a history: its ID, its length, and its last bytes for replicas that reconnect.

All servers of a replication tree (a master, its replicas, their replicas) have the same bytes at the same offsets under
the same ID. A server that becomes the master draws a new ID and keeps the previous one as its second ID. Up to the
offset of the change, the bytes are the same under both IDs, so replicas of the former master can continue.

Pure: no sockets, clock or randomness (``draw_id`` supplies IDs). Offsets count bytes, and the first byte has number 1.
"From offset n" includes byte n, as in PSYNC.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

#: An ID that no history has.
NO_ID = b"0" * 40
#: Approximate size in bytes to which small blocks are joined.
_JOINED = 16 * 1024


class History:
    """One server's history. ``size``: minimum number of last bytes to keep (repl-backlog-size).

    Only whole blocks are dropped, so more may be kept.
    """

    def __init__(self, draw_id: Callable[[], bytes], size: int) -> None:
        self._draw_id = draw_id
        #: ID of 40 hexadecimal digits.
        self.id = draw_id()
        #: Previous ID of this history, or `NO_ID`.
        self.second_id = NO_ID
        #: Number of the first byte that the previous ID does not cover; -1 if there is no previous ID.
        self.second_offset = -1
        #: Number of bytes in the history so far.
        self.offset = 0
        #: Database selected in the stream of a master; -1 if the next command must select one.
        self.db = -1
        self.size = size
        #: Whether the last bytes are kept (the backlog).
        self.keeps = False
        #: The backlog in order: large blocks, then (in `_young`) small blocks to be joined.
        self._blocks: deque[bytes] = deque()
        self._young: list[bytes] = []
        self._held = self._young_size = 0

    @property
    def held(self) -> int:
        """Number of bytes in the backlog."""
        return self._held + self._young_size

    @property
    def first(self) -> int:
        """Number of the first byte in the backlog, or of the next byte if the backlog is empty."""
        return self.offset - self.held + 1

    def keep(self) -> None:
        """Start keeping the last bytes of the stream."""
        self.keeps = True

    def release(self) -> None:
        """Stop keeping bytes. Changes without replicas or backlog are not added to the stream, so a new ID is drawn,
        with which no replica can continue.
        """
        self.keeps = False
        self.renew()

    def feed(self, block: bytes) -> None:
        """Append bytes to the stream."""
        count = len(block)
        self.offset += count
        if not self.keeps:
            return
        self._young.append(block)
        self._young_size += count
        if self._young_size < _JOINED:
            return
        self._blocks.append(b"".join(self._young) if len(self._young) > 1 else block)
        self._held += self._young_size
        self._young = []
        self._young_size = 0
        blocks = self._blocks
        while self._held - len(blocks[0]) >= self.size:
            self._held -= len(blocks.popleft())

    def covers(self, history_id: bytes, offset: int) -> bool:
        """Return whether a replica that has ``history_id`` up to ``offset`` - 1 can continue with the backlog."""
        if history_id == self.id:
            known = True
        else:
            known = history_id == self.second_id and 0 < offset <= self.second_offset
        return known and self.keeps and self.first <= offset <= self.offset + 1

    def since(self, offset: int) -> list[bytes]:
        """Return the bytes from ``offset`` on. `covers` must be true for this offset."""
        wanted = self.offset + 1 - offset
        found: list[bytes] = []
        for block in (*reversed(self._young), *reversed(self._blocks)):
            if wanted <= 0:
                break
            found.append(block if len(block) <= wanted else block[-wanted:])
            wanted -= len(block)
        found.reverse()
        return found

    def lead(self) -> None:
        """Continue as a master: draw a new ID, and keep the current ID as the second ID, valid up to this offset."""
        self.rename(self._draw_id())

    def renew(self) -> None:
        """Start a new history, with which no replica can continue: the data no longer results from the stream."""
        self.adopt(self._draw_id(), self.offset)

    def adopt(self, history_id: bytes, offset: int) -> None:
        """Join another server's history at this offset (FULLRESYNC). Earlier bytes are dropped."""
        self._blocks.clear()
        self._young = []
        self._held = self._young_size = 0
        self.id, self.offset = history_id, offset
        self.second_id, self.second_offset = NO_ID, -1

    def resume(self, history_id: bytes, offset: int) -> None:
        """Continue the history at the offset where this server stopped. Earlier bytes are not available."""
        self.adopt(history_id, offset)
        self.keep()

    def rename(self, history_id: bytes) -> None:
        """Adopt the master's new ID (CONTINUE). The bytes so far are the same, so this server's replicas can continue
        too.
        """
        if history_id != self.id:
            self.second_id, self.second_offset = self.id, self.offset + 1
            self.id = history_id
