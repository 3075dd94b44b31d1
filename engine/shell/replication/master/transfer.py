"""Transfer of a full synchronisation: the data of one moment, written once and sent to one replica or several.

A thread writes a temporary file, in Redis's format or in the engine's own. The event loop sends its length, then its
content, in slices, to each receiver as fast as the receiver reads. The owner disconnects a receiver that reads nothing
for ``repl-timeout``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from engine.core.keyspace.image import ImageBuilder
from engine.shell.durability.background import Attempt, Background, free_in_thread, run_when_complete
from engine.shell.durability.files import Files
from engine.shell.replication.master.replica import Replica

#: Maximum number of bytes to send per event-loop iteration, to one receiver and to all receivers together.
_SLICE_BYTES, _TURN_BYTES = 1 << 18, 1 << 20
#: Seconds after which to check again whether slow receivers have read more.
_CHECK_SECONDS = 0.002


class Transfer:
    """The file of an image, for ``receivers``. ``sent`` is called for each receiver that has been sent all of it, and
    ``ended`` when all have, or with an error.
    """

    def __init__(
        self,
        receivers: Sequence[Replica],
        builder: ImageBuilder,
        attempt: Attempt,
        files: Files,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        sent: Callable[[Replica], None],
        ended: Callable[[Transfer, OSError | None], None],
    ) -> None:
        #: Number of bytes sent, by receiver.
        self.receivers = dict.fromkeys(receivers, 0)
        self.began = clock()
        self._builder = builder
        self._files = files
        self._loop = loop
        self._clock = clock
        self._sent = sent
        self._ended = ended
        self._attempt = attempt
        #: The mapped file that is being sent, if any; its name has been removed.
        self._file = memoryview(b"")
        #: Size of the file in bytes; 0 until it is written.
        self.size = 0

    @property
    def is_sending(self) -> bool:
        """Whether the length has been sent, after which no replica can join."""
        return bool(self.size)

    def start(self, write: Callable[[], None], background: Background) -> None:
        """Take the image over several iterations, call ``write`` in the background, then send the file."""
        attempt = self._attempt

        def make() -> None:
            write()
            # Free the image: it would keep data that is deleted meanwhile.
            self._builder.image.free()
            self._file = self._files.map(attempt.temporary)

        def done(error: OSError | None) -> None:
            # The mapping remains valid without a name.
            attempt.remove()
            if attempt.abandoned:
                self._free()
            elif error is not None:
                self._end(error)
            else:
                self.size = len(self._file)
                for replica in self.receivers:
                    replica.peer.send([b"$%d\r\n" % self.size])
                self._send()

        run_when_complete(self._builder, attempt, self._loop.call_soon, lambda: background(make, done))

    def _send(self) -> None:
        """Send a slice to each receiver that has not too many unread bytes."""
        now, is_slow = self._clock(), True
        share = min(_SLICE_BYTES, _TURN_BYTES // max(len(self.receivers), 1))
        for replica, at in [*self.receivers.items()]:
            if replica.peer.clogged or replica not in self.receivers:
                continue
            is_slow = False
            replica.last_sign = now
            end = self.receivers[replica] = min(at + share, self.size)
            replica.peer.send([bytes(self._file[at:end])])
            if end == self.size:
                del self.receivers[replica]
                self._sent(replica)
        if self._attempt.abandoned:
            return
        if not self.receivers:
            self._end(None)
        elif is_slow:
            self._loop.call_later(_CHECK_SECONDS, self._send)
        else:
            self._loop.call_soon(self._send)

    def cancel(self) -> None:
        """Cancel the transfer: no receiver needs it any more."""
        self._free()
        self._builder.cancel()
        self._attempt.abandon()

    def _free(self) -> None:
        free_in_thread(self._file.release, len(self._file))
        self._file = memoryview(b"")

    def _end(self, error: OSError | None) -> None:
        self.cancel()
        self._ended(self, error)
