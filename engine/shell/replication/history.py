"""The replication stream as a history: its id, how long it is, and its last bytes for those who come back.

Every server of a family (a master, its replicas, theirs) has the same bytes at the same offsets under the same id. A
server that begins to lead draws a new id and keeps the one before as its second: up to the place of the change both
mean the same bytes, so those who followed the same master as it did may go on from there.

Pure: no sockets, no time, no chance (``draw_id`` gives the ids). Offsets count bytes; "from offset n" means that byte n
is the first one wanted, and bytes are counted from 1, as PSYNC does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

#: An id that nobody has.
NO_ID = b"0" * 40
#: Small blocks are put together to blocks of about so many bytes.
_JOINED = 16 * 1024


class History:
    """One server's. ``size`` is how many of the last bytes are kept (repl-backlog-size), to within a block."""

    __slots__ = (
        "_blocks",
        "_draw_id",
        "_held",
        "_young",
        "_young_size",
        "id",
        "keeps",
        "offset",
        "second_id",
        "second_offset",
        "size",
    )

    def __init__(self, draw_id: Callable[[], bytes], size: int) -> None:
        self._draw_id = draw_id
        #: 40 hexadecimal digits.
        self.id = draw_id()
        #: The id that this history had before, and the first offset at which that means nothing; -1: there is none.
        self.second_id = NO_ID
        self.second_offset = -1
        #: Bytes ever fed.
        self.offset = 0
        self.size = size
        #: Whether the last bytes are kept (the backlog).
        self.keeps = False
        #: The backlog in order: blocks, then small ones that are still to be joined.
        self._blocks: deque[bytes] = deque()
        self._young: list[bytes] = []
        self._held = self._young_size = 0

    @property
    def held(self) -> int:
        """How many bytes the backlog holds."""
        return self._held + self._young_size

    @property
    def first(self) -> int:
        """The number of the first byte in the backlog; of the next one to come, where it is empty."""
        return self.offset - self.held + 1

    def keep(self) -> None:
        """Keep the last bytes from now on."""
        self.keeps = True

    def release(self) -> None:
        """Keep no bytes any more. What is fed to nobody and kept by nobody is no part of a history that somebody could
        go on with: whoever comes back finds another id.
        """
        self.keeps = False
        self._drop()
        self._begin()

    def _begin(self) -> None:
        self.id = self._draw_id()
        self.second_id, self.second_offset = NO_ID, -1

    def _drop(self) -> None:
        self._blocks.clear()
        self._young = []
        self._held = self._young_size = 0

    def feed(self, block: bytes) -> None:
        """The stream goes on with these bytes."""
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
        """Whether someone who has this history up to ``offset`` - 1 can go on from here."""
        if history_id == self.id:
            known = True
        else:
            known = history_id == self.second_id and 0 < offset <= self.second_offset
        return known and self.keeps and self.first <= offset <= self.offset + 1

    def since(self, offset: int) -> list[bytes]:
        """The bytes from ``offset`` on, which is within what :meth:`covers` allows."""
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
        """Go on as one's own master: a new id, and the present one as the second, valid up to here."""
        self.second_id, self.second_offset = self.id, self.offset + 1
        self.id = self._draw_id()

    def renew(self) -> None:
        """The data are not those that the stream has made any more: a new id, and nobody can go on from before."""
        self._drop()
        self._begin()

    def adopt(self, history_id: bytes, offset: int) -> None:
        """Be a part of another server's history, at this offset of it (FULLRESYNC). Nothing from before counts."""
        self._drop()
        self.id, self.offset = history_id, offset
        self.second_id, self.second_offset = NO_ID, -1

    def resume(self, history_id: bytes, offset: int) -> None:
        """Be where this server was when it ended; the bytes before that it does not have any more."""
        self.adopt(history_id, offset)
        self.keep()

    def rename(self, history_id: bytes) -> None:
        """The master goes on under another id (CONTINUE): the bytes so far are the same, so that one's own replicas may
        go on as well.
        """
        if history_id != self.id:
            self.second_id, self.second_offset = self.id, self.offset + 1
            self.id = history_id
