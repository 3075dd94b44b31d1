"""Writing every row exactly once: chunks become transactions that advance the fences of the streams they go to.

Owns how a task's rows are divided into transactions: by slot where there is a cluster, and rows with IDs of their own
apart from rows without. `spark_streams.write.slot_transaction` executes them, `spark_streams.write.fence` counts rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from spark_streams.client.connection import Connection
from spark_streams.client.slots import slot_of
from spark_streams.config.write import WriteOptions
from spark_streams.write.encoding import EncodedRows
from spark_streams.write.fence import StreamFence, WriterId
from spark_streams.write.slot_transaction import LinkOwners, SlotTransaction, Terms

_BATCH_FENCE_MS = 86_400_000  # a batch write's fences are removed when it is finished; if it never is, a day later


class ExactlyOnceSender:
    """Sends a task's rows.

    `lasting`: the fences are kept as long as the option fenceRetentionMs says. `overwrite`: the fences note where each
    stream ended before this write. Errors: those of `SlotTransaction` and `StreamFence`.
    """

    def __init__(
        self, connection: Connection, writer: WriterId, options: WriteOptions, lasting: bool, overwrite: bool = False
    ) -> None:
        self._connection = connection
        self._terms = Terms(writer, options, options.fence_retention if lasting else _BATCH_FENCE_MS, overwrite)
        self._owners = LinkOwners()
        self._transactions: dict[int, SlotTransaction] = {}

    def submit(self, chunk: Sequence[EncodedRows]) -> None:
        """Send a chunk. When this returns, the chunk before is in the streams; this one may not be yet."""
        by_slot: dict[int, list[EncodedRows]] = {}
        for rows in chunk:
            slot = slot_of(rows.stream) if self._connection.topology.is_cluster else 0
            by_slot.setdefault(slot, []).append(rows)
        for slot, together in by_slot.items():
            transaction = self._transactions.get(slot)
            if transaction is None:
                transaction = SlotTransaction(self._connection, self._terms, self._owners)
                self._transactions[slot] = transaction
            for run in _runs(together):
                transaction.finish()
                transaction.begin(run)

    def settle(self) -> None:
        """Wait until everything that was submitted is in the streams."""
        for transaction in self._transactions.values():
            transaction.finish()

    def finish(self) -> list[StreamFence]:
        """The task has no more rows: wait for all of them, and for the replicas. Returns the task's fences."""
        self.settle()
        fences = [fence for transaction in self._transactions.values() for fence in transaction.fences]
        for fence in fences:
            fence.finish()
        if self._terms.options.wait_replicas:
            for transaction in self._transactions.values():
                transaction.wait_for_replicas()
        return fences


def _runs(together: Sequence[EncodedRows]) -> list[list[EncodedRows]]:
    """Separate rows with IDs of their own from rows without: IDs behind those the server chooses cannot be checked."""
    if all(rows.ids is None for rows in together):
        return [list(together)]
    runs: list[list[EncodedRows]] = []
    for rows in together:
        if rows.ids is None:
            runs.append([rows])
            continue
        chosen = [each is not None and each != b"*" for each in rows.ids]
        cuts = [0, *(i for i in range(1, len(chosen)) if chosen[i] != chosen[i - 1]), len(chosen)]
        for first, end in pairwise(cuts):
            part = rows.part(first, end)
            if not chosen[first]:
                part = EncodedRows(part.stream, part.commands, part.bounds, part.rows, None)
            runs.append([part])
    return runs
