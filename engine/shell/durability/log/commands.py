"""Running the commands of a log or a master on a core, including transactions and commands that only servers send.

Redis writes some commands in a form that it accepts only from itself; `as_client_command` converts them to the form
that clients may send. Every command must succeed: after a failure, later commands would run on different data than on
the master or before the crash.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.core.formats.damage import DamagedError
from engine.core.formats.unsupported_types import UnsupportedValueError
from engine.core.protocol import ids
from engine.core.protocol.replies import CommandError
from engine.core.protocol.xadd import ADD_OPTIONS, TRIM_OPTIONS, divide
from engine.core.streams.idempotency import content_id
from engine.core.streams.stream import Stream
from engine.core.table.unsupported import family_of
from engine.shell.durability.log.left_out import LeftOutKeys
from engine.text import messages


class Commands:
    """Runs commands for ``session``, in order, at the time ``now_us``. The core must be in replay mode.

    Errors report the offset of a command in its file or in a master's stream. ``left_out``: keys that are left out
    because of their type; None if commands that concern such types fail.
    """

    def __init__(self, core: Core, session: Session, now_us: int, left_out: LeftOutKeys | None = None) -> None:
        self._core = core
        self._session = session
        self._left_out = left_out
        self.now_us = now_us
        #: Commands since MULTI with their offsets; None outside a transaction.
        self._queue: list[tuple[int, list[bytes]]] | None = None
        #: The offset of MULTI.
        self.began = 0
        #: Number of commands that have run.
        self.count = 0

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._queue is not None

    def apply(self, argv: list[bytes], offset: int) -> None:
        """Run a command, or queue it until the end of its transaction. Raises DamagedError if a command fails.

        The effects of a transaction are sealed as one transaction.
        """
        name = argv[0].upper()
        if name == b"MULTI":
            if self._queue is not None:
                raise DamagedError(offset, "MULTI within a transaction")
            self._queue, self.began = [], offset
        elif name == b"EXEC":
            if self._queue is None:
                raise DamagedError(offset, "EXEC without MULTI")
            queue, self._queue = self._queue, None
            first = len(self._core.changes.effects)
            for at, queued in _merged_claims(queue):
                self._run(queued, at)
            self.count += len(queue)
            self._core.changes.seal_as_one(first)
        elif self._queue is not None:
            family = family_of(argv[0]) if self._left_out is None else None
            if family is not None:
                # Fail before EXEC, so that no part of the transaction is applied.
                raise _failure(argv, CommandError(messages.left_out(argv[0], family)), offset)
            self._queue.append((offset, argv))
        else:
            self.count += 1
            self._run(argv, offset)

    def _run(self, argv: list[bytes], offset: int) -> None:
        name = argv[0].upper()
        if name == b"SELECT" and len(argv) == 2 and argv[1].isdigit() and int(argv[1]) < len(self._core.databases):
            self._session.db = int(argv[1])
            return
        left_out = self._left_out
        if left_out is not None and left_out.leaves_out(self._session.db, argv, offset):
            return
        if name == b"XIDMPRECORD" and len(argv) == 5:
            self._record(argv, offset)
            return
        record: list[bytes] = []
        if name in (b"XADD", b"XTRIM") and len(argv) > 4 and not argv[2][:1].isdigit():
            argv, record = as_client_command(argv)
            if not argv:
                return
        if self._core.divided.running:
            self._core.divided.make_way(self._session, argv)
        first = len(self._core.changes.effects)
        reply = self._core.execute(self._session, argv, self.now_us)
        if isinstance(reply, UnsupportedValueError) and left_out is not None:
            left_out.leave_out_value(reply.kind, argv[1], self._session.db, offset)
            return
        if isinstance(reply, CommandError):
            raise _failure(argv, reply, offset)
        if record:
            self._record([b"XIDMPRECORD", argv[1], *record], offset)
            self._core.changes.seal_as_one(first)

    def _record(self, argv: list[bytes], offset: int) -> None:
        """Record an idempotent ID, even if its entry was deleted. It replaces an equal ID that has not expired yet."""
        _, key, producer, iid, word = argv
        db = self._core.databases[self._session.db]
        stream = db.get(key)
        if not isinstance(stream, Stream) or not producer or not iid:
            raise DamagedError(offset, "XIDMPRECORD for a missing stream: " + messages.NO_SUCH_KEY.decode())
        producers = self._core.streams.producers_of(stream)
        producers.drop(producer, iid)
        try:
            producers.remember(producer, iid, ids.parse(word))
        except CommandError as error:
            raise DamagedError(offset, error.text.decode()) from None
        self._core.changes.record(db.index, argv)


# Redis records a delivery as XCLAIM key group consumer 0 ID TIME ms RETRYCOUNT count FORCE JUSTID LASTID ID.
#: Length of this XCLAIM: its name and arguments.
_CLAIM_WORDS = 14
#: Index of the claimed ID in this XCLAIM.
_CLAIMED = 5
#: Index of the argument after the claimed ID.
_BEHIND_IDS = 6


def _merged_claims(queue: list[tuple[int, list[bytes]]]) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the commands of a transaction; adjacent claims that differ only in their entry are merged into one.

    Redis records an XREADGROUP as one claim per entry. The merged claim has the last LASTID, which is the greatest,
    because groups only move forward.
    """
    joined: list[bytes] = []
    offset = 0
    for at, argv in queue:
        if len(argv) != _CLAIM_WORDS or argv[0] != b"XCLAIM" or argv[-2] != b"LASTID":
            if joined:
                yield offset, joined
                joined = []
            yield at, argv
        elif joined and joined[:_CLAIMED] == argv[:_CLAIMED] and joined[-8:-2] == argv[_BEHIND_IDS:-2]:
            joined[-8:] = argv[_CLAIMED:]
        else:
            if joined:
                yield offset, joined
            joined, offset = argv[:], at
    if joined:
        yield offset, joined


def _failure(argv: list[bytes], error: CommandError, offset: int) -> DamagedError:
    shown = b" ".join(argv[:3])[:100].decode("utf-8", "backslashreplace")
    return DamagedError(offset, f"{shown} ... failed: {error.text.decode('utf-8', 'backslashreplace')}")


def as_client_command(argv: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Return two lists: the XADD or XTRIM as a client may send it, without LIMIT, and [producer, iid, ID] of an
    idempotent XADD with its final ID. For other commands, the second list is empty. For an idempotent XADD without its
    final ID, both are empty: it was a duplicate, which adds no entry.

    Redis keeps LIMIT when it makes an approximate trim exact, and gives an idempotent XADD its final ID.
    """
    options, at = divide(argv, ADD_OPTIONS if argv[0].upper() == b"XADD" else TRIM_OPTIONS)
    words, idmp, rest = argv[:2], [], argv[at:]
    for option in options:
        if option.token in (b"IDMP", b"IDMPAUTO"):
            idmp = option.words
        elif option.token != b"LIMIT":
            words += option.words
    if not idmp:
        return words + rest, []
    if rest[:1] == [b"*"]:
        return [], []
    producer, iid = idmp[1], idmp[2] if len(idmp) > 2 else content_id(rest[1:])
    return words + rest, [producer, iid, *rest[:1]]
