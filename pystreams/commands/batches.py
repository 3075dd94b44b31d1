"""`batches ls, show, rm, keep`: batches of exactly-once writes that were interrupted, and taking their rows back."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Any

import click

from pystreams import measures
from pystreams.commands.verbs import Run, verb, verb_group, write_rows
from pystreams.errors import fail
from pystreams.measures import TEXT, WORD, Measure, View
from pystreams.streams import inventory, paged_calls, seeks
from pystreams.values import names, numbers, times
from streamclient import record_keys
from streamclient.errors import PystreamsError
from streamclient.reply_maps import pairs
from streamwire.stream_id import StreamId

if TYPE_CHECKING:
    from spark_streams.write.withdrawal import Batch

_READS = "+hgetall +hmget +xinfo +xrange"
_WRITES = f"{_READS} {seeks.NEEDS} +hset +hsetnx +hdel +pexpire +pttl +time"

_name = click.argument("name")
_number = click.argument("number", type=click.IntRange(0), metavar="BATCH")
_committed = click.option("--committed", is_flag=True, help="Allow a batch that is complete but is repeated.")


_BATCHES: View[Batch] = (
    Measure("name", lambda row: row.name, TEXT),
    Measure("batch", lambda row: row.number),
    Measure("streams", lambda row: row.streams),
    Measure("rows", lambda row: row.rows),
)


@verb("ls", needs=f"{_READS} +scan", examples=("pystreams batches ls", "pystreams batches ls -o json"))
def list_batches(run: Run) -> None:
    """List the batches that are not complete, of queries that are running or were interrupted."""
    from spark_streams.write import withdrawal  # noqa: PLC0415 - needs packages of an extra

    keys = {
        key
        for page in inventory.scan_pages(run.connection, record_keys.of_query(b"*", b"ledger"), "hash")
        for key in page
    }
    found: list[Batch] = []
    for name in sorted(names.to_shell(record_keys.query_of(key)) for key in keys):
        number = withdrawal.interrupted(run.connection, name)
        if number is not None:
            found.append(withdrawal.look(run.connection, name, number, find=False))
    run.show("batches", _BATCHES, found, empty="All batches are complete.")


@verb("show", needs=_READS, examples=("pystreams batches show 5b8f2c1e-9d1c-4e0a-8f57-1f1a5c8c7d1b 17",))
@_name
@_number
def show(run: Run, name: str, number: int) -> None:
    """Show what a batch has written to which streams.

    NAME is a query's ID, with a number for a write in foreachBatch, or id-ID for a write with the writeId ID.
    """
    batch = _look(run, name, number)
    if run.out.structured:
        run.out.document(_document(batch), "streams")
        return
    _preview(run, batch)
    for each in batch.withdrawn:
        run.out.line(
            f"Batch {each['batch']} was withdrawn at {each['at']}: {numbers.things(each['rows'], 'row')}, "
            f"{each['removed']:,} removed."
        )


@verb(
    "rm",
    needs=f"{_WRITES} +xdel",
    changes=True,
    examples=("pystreams batches rm 5b8f2c1e-9d1c-4e0a-8f57-1f1a5c8c7d1b 17 --dry-run",),
)
@_name
@_number
@_committed
def remove(run: Run, name: str, number: int, committed: bool) -> None:
    """Remove the rows of an interrupted batch, so that the query writes the batch again, with any rows.

    Stop the query first. If it is running, its batch fails, and the next attempt writes the batch. NAME and BATCH are
    in the error REPLAY_DIFFERS. Pending entries that are removed stay pending.
    """
    _withdraw(run, name, number, removes=True, committed=committed)


@verb(
    "keep",
    needs=_WRITES,
    changes=True,
    examples=("pystreams batches keep 5b8f2c1e-9d1c-4e0a-8f57-1f1a5c8c7d1b 17 --dry-run",),
)
@_name
@_number
@_committed
def keep(run: Run, name: str, number: int, committed: bool) -> None:
    """Keep the rows of an interrupted batch, but let the query write the whole batch again, in addition to them.

    Stop the query first. Use this command if readers can tell the old rows from the new ones, or need both.
    """
    _withdraw(run, name, number, removes=False, committed=committed)


def _look(run: Run, name: str, number: int) -> Batch:
    from spark_streams.write import withdrawal  # noqa: PLC0415 - needs packages of an extra

    try:
        batch = withdrawal.look(run.connection, name, number)
    except PystreamsError as failure:
        if failure.condition not in ("BATCH_COMMITTED", "FENCE_AHEAD"):
            raise
        fail("NO_SUCH_BATCH", address=run.connection.address, batch=number, name=name)
    if not batch.seen:
        fail("NO_SUCH_BATCH", address=run.connection.address, batch=number, name=name)
    return batch


def _withdraw(run: Run, name: str, number: int, *, removes: bool, committed: bool) -> None:
    from spark_streams.write import withdrawal  # noqa: PLC0415 - needs packages of an extra

    batch = _look(run, name, number)
    if batch.is_committed and not committed:
        fail("BATCH_COMPLETE", batch=number, name=name)
    if not batch.is_begun:
        run.done(f"Batch {number} of {name} has written nothing.", _document(batch), "streams")
        return
    if not run.out.structured:
        _preview(run, batch)
    found = sum(len(each.ids) for each in batch.written)
    if removes:
        _warn(run, batch, found)
    verb_ = "remove" if removes else "keep"
    plan = f"{verb_} {numbers.things(found if removes else batch.rows, 'row')} of batch {number} of {name}"
    again = "so that the query writes the batch again" if removes else "and let the query write the batch again, too"
    if not run.may(f"{plan}, {again}", _document(batch), "streams"):
        return
    try:
        withdrawal.withdraw(run.connection, batch, removes=removes, at=times.iso(run.now) or "")
    except withdrawal.OutdatedError as outdated:
        fail("PLAN_OUTDATED", what=outdated)
    done = "Removed" if removes else "Kept"
    rows = numbers.things(found if removes else batch.rows, "row")
    document = {"removed": found if removes else 0, **_document(batch)}
    run.done(f"{done} {rows} of batch {number} of {name}. Start the query.", document, "streams")


def _warn(run: Run, batch: Batch, found: int) -> None:
    """Warn of rows that are not found, and of groups that have read rows that are removed."""
    if found < batch.rows:
        run.out.warn(
            f"{numbers.things(batch.rows - found, 'row')} cannot be removed: some of the transaction's entries were "
            "trimmed or deleted, and the others look like those of other writers."
        )
    for stream in batch.seen:
        ids = sorted(StreamId.parse(entry) for each in batch.written if each.stream == stream for entry in each.ids)
        if not ids:
            continue
        for group in map(pairs, paged_calls.ask(run.connection, "XINFO", "GROUPS", stream)):
            read = bisect.bisect_right(ids, StreamId.parse(group[b"last-delivered-id"]))
            if read:
                run.out.warn(
                    f"{names.shown(group[b'name'])} has already read {numbers.things(read, 'row')} of "
                    f"{names.shown(stream)}."
                )


_WRITTEN: View[dict[str, Any]] = (
    Measure("stream", lambda row: row["stream"], WORD),
    Measure("partition", lambda row: row["partition"]),
    Measure("rows", lambda row: row["rows"]),
    Measure("found", lambda row: row["found"]),
    Measure("first", lambda row: row["first"], TEXT),
    Measure("last", lambda row: row["last"], TEXT),
)


def _preview(run: Run, batch: Batch) -> None:
    write_rows(run.out, _WRITTEN, _rows(batch), empty="No rows.")


def _document(batch: Batch) -> dict[str, Any]:
    streams = [measures.document(_WRITTEN, each) for each in _rows(batch)]
    head = {"name": batch.name, "batch": batch.number, "complete": batch.is_committed, "rows": batch.rows}
    return {**head, "streams": streams, "withdrawn": [*batch.withdrawn]}


def _rows(batch: Batch) -> list[dict[str, Any]]:
    """Return the rows of each stream and partition: their number, how many were found, and the first and last ID."""
    found: dict[tuple[bytes, int], dict[str, Any]] = {}
    for each in batch.written:
        blank = {"stream": each.stream, "partition": each.partition, "rows": 0, "found": 0, "first": None, "last": None}
        row = found.setdefault((each.stream, each.partition), blank)
        row["rows"] += each.rows
        row["found"] += len(each.ids)
        if each.ids:
            row["first"] = row["first"] or each.ids[0].decode()
            row["last"] = each.ids[-1].decode()
    return [*found.values()]


VERBS = (verb_group("batches", "Interrupted batches of exactly-once writes.", list_batches, show, remove, keep),)
