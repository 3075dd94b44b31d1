"""A replica's report about its log: the offset up to which the master's stream is on the replica's disk."""

from __future__ import annotations

from engine.core.environment.durability import Durability
from engine.shell.replication.replica.log_offset import LogOffset


class Log(Durability):
    """A log that is synced on request."""

    logging = True
    written = synced = 0

    def log_offset(self) -> int:
        return self.written

    def is_synced(self, offset: int) -> bool:
        return self.synced >= offset


def test_only_synced_offsets_count():
    """The reported offset follows the log's syncs, and is the latest offset if nothing waits."""
    logged, log = LogOffset(), Log()
    log.written = 10
    logged.note(log, 100)
    log.written = 20
    logged.note(log, 250)
    assert logged.on_disk(log, 250) == -1
    log.synced = 15
    assert logged.on_disk(log, 250) == 100
    log.synced = 20
    assert logged.on_disk(log, 300) == 300


def test_a_full_synchronisation_drops_earlier_offsets():
    """After a full synchronisation the offsets of an earlier history, which may be higher, are dropped."""
    logged, log = LogOffset(), Log()
    assert logged.on_disk(log, 1_000_000) == 1_000_000
    log.written = 1
    logged.reset()
    assert logged.on_disk(log, 7) == -1
    log.synced = 1
    assert logged.on_disk(log, 7) == 7
