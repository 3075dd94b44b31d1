"""An archive back into streams: each entry once, at a given rate or a multiple of the original speed.

    spark-submit jobs/replay.py --from s3a://lake/orders --since 2024-06-01 --speed 60 --checkpoint s3a://lake/replays/1

Entries are written in the order of their IDs, with their own IDs or new ones, to their original streams or to another
stream. The first run divides the entries into chunks, which it records in the checkpoint. Each chunk is one write with
its own `writeId`. A run with the same checkpoint continues after the last finished chunk, and does not repeat entries
of a partly written chunk. Entries that are added to the archive after the start of the first run are not replayed.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import click
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from pystreams.errors import fail
from pystreams.jobs.flags import Rate, combined
from pystreams.jobs.job import job
from pystreams.jobs.parquet import check_directory, in_order_of_ids, read
from pystreams.jobs.run import Run
from pystreams.values import times

#: Time for which a chunk lasts at the given rate or speed, in seconds.
_PACE_SECONDS = 2


@dataclass(frozen=True)
class Chunk:
    """The `count` entries of the seconds from `first` to `last` (since 1970).

    With `skip`, the chunk is a part of one second: `count` entries after the first `skip` entries.
    """

    first: int
    last: int
    count: int
    skip: int | None = None


@job(
    "replay",
    examples=(
        "replay --from archive/orders --checkpoint replays/1",
        "replay --from archive/orders --to orders-test --since 2024-06-01 --until 2024-06-02 --speed 60 \\",
        "    --checkpoint replays/2",
        "replay --from archive/orders --to orders --ids new --rate 5000 --checkpoint replays/3",
        "replay --conf replay.toml",
    ),
)
@combined(
    click.option("--from", "archive", metavar="URI", required=True, help="Directory of the archive."),
    click.option(
        "--to",
        "target",
        metavar="NAME",
        help="Target stream. Without it, entries go to their original streams.",
    ),
    click.option(
        "--checkpoint", metavar="URI", help="Directory for the progress of this replay, not shared with other replays."
    ),
    click.option("--since", metavar="TIME", help="Start time, compared with the time in entry IDs."),
    click.option("--until", metavar="TIME", help="End time, exclusive."),
    click.option(
        "--ids",
        type=click.Choice(("keep", "new")),
        default="keep",
        show_default=True,
        help="Keep the IDs of entries, or use new IDs.",
    ),
    click.option("--rate", type=Rate(), metavar="N", help="Maximum number of entries per second."),
    click.option(
        "--speed",
        type=Rate(),
        metavar="FACTOR",
        help="Multiple of the original speed.",
    ),
    click.option(
        "--max-entries",
        "size",
        type=click.IntRange(1),
        default=50_000,
        show_default=True,
        help="Maximum entries per chunk.",
    ),
)
def replay(
    run: Run,
    archive: str,
    target: str | None,
    since: str | None,
    until: str | None,
    ids: str,
    rate: float | None,
    speed: float | None,
    size: int,
) -> None:
    """Write each entry of an archive exactly once to streams, even after interruptions."""
    if rate is not None and speed is not None:
        raise click.UsageError("--rate and --speed exclude each other.")
    checkpoint, archive = run.need_checkpoint(), archive.rstrip("/")
    check_directory(checkpoint)
    run.claim_checkpoint()
    run.address()
    rows = read(run.spark, run.files, archive)
    low, high = _moment(since, "--since"), _moment(until, "--until")
    rows = rows if low is None else rows.where(F.unix_millis("_timestamp") >= low)
    rows = rows if high is None else rows.where(F.unix_millis("_timestamp") < high)
    requested = {"archive": archive, "target": target, "since": low, "until": high, "ids": ids}
    plan = _plan(run, checkpoint, rows, requested, size, rate, speed)
    chunks = [Chunk(**chunk) for chunk in plan["chunks"]]
    marks = run.files.matching(f"{checkpoint}/done/[0-9]*")
    begin = max((int(mark.name) for mark in marks), default=0)
    total, written, started = (
        sum(chunk.count for chunk in chunks),
        sum(chunk.count for chunk in chunks[:begin]),
        time.monotonic(),
    )
    before = written
    for number, chunk in list(enumerate(chunks))[begin:]:
        due = 0.0
        if rate is not None:
            due = (written - before) / rate
        elif speed is not None:
            due = (chunk.first - chunks[begin].first) / speed
        if run.stop.requested.wait(max(0.0, started + due - time.monotonic())) or run.stop.requested.is_set():
            break
        run.write(
            _rows(rows, chunk, single=target is not None),
            stream=target,
            keepIds=str(ids == "keep").lower(),
            writeId=f"{plan['id']}-{number}",
        )
        run.files.write_text(f"{checkpoint}/done/{number + 1:010d}", "")
        run.files.delete(f"{checkpoint}/done/{number:010d}")
        written += chunk.count
        pace = (written - before) / max(0.001, time.monotonic() - started)
        run.say(f"{written:,} of {total:,} entries, {pace:,.0f} entries/s, up to {times.iso(chunk.last * 1000 + 999)}")
    run.say(f"{'done' if written == total else 'stopped'}: {written:,} of {total:,} entries")


def _plan(
    run: Run,
    checkpoint: str,
    rows: DataFrame,
    requested: dict[str, Any],
    size: int,
    rate: float | None,
    speed: float | None,
) -> dict[str, Any]:
    """Return the plan of chunks from the checkpoint; the first run creates it.

    Raises REPLAY_OTHER if the checkpoint belongs to a replay with other flags.
    """
    path = f"{checkpoint}/plan.json"
    if run.files.exists(path):
        plan: dict[str, Any] = json.loads(run.files.read_text(path))
        if plan["asked"] != requested:
            fail("REPLAY_OTHER", checkpoint=checkpoint, before=_shown(plan["asked"]), now=_shown(requested))
        return plan
    if requested["target"] is not None and requested["ids"] == "keep" and rows.select("_stream").distinct().count() > 1:
        raise click.UsageError(
            "The archive has several streams, whose IDs may be equal. Add --ids new, or remove --to."
        )
    size = size if rate is None else max(1, min(size, round(rate * _PACE_SECONDS)))
    span = None if speed is None else max(1, round(speed * _PACE_SECONDS))
    plan = {
        "id": uuid.uuid4().hex,
        "asked": requested,
        "chunks": [asdict(chunk) for chunk in _chunks(rows, size, span)],
    }
    run.files.write_text(path, json.dumps(plan))
    return plan


def _moment(text: str | None, flag: str) -> int | None:
    if text is None:
        return None
    at = times.moment(text)
    return (
        at
        if at is not None
        else fail("INVALID_VALUE", name=flag, value=text, expected="it must be a time such as 2024-06-01T12:00Z")
    )


def _shown(requested: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in requested.items() if value is not None)


def _second() -> Column:
    """Return the time in an entry's ID, in seconds since 1970."""
    return F.floor(F.unix_millis("_timestamp") / 1000)


def _chunks(rows: DataFrame, size: int, span: int | None) -> Iterator[Chunk]:
    """Yield chunks of at most `size` entries and at most `span` seconds; a `span` of None is no limit."""
    counted = rows.groupBy(_second().alias("second")).count().orderBy("second")
    first, last, count = 0, 0, 0
    for second, entries in counted.toLocalIterator():
        if count and (count + entries > size or (span is not None and second - first >= span)):
            yield Chunk(first, last, count)
            count = 0
        if entries > size:
            for skip in range(0, entries, size):
                yield Chunk(second, second, min(size, entries - skip), skip)
            continue
        first, last, count = (first if count else second), second, count + entries
    if count:
        yield Chunk(first, last, count)


def _rows(rows: DataFrame, chunk: Chunk, *, single: bool) -> DataFrame:
    """Return the rows of a chunk in the order of their IDs, for one writer."""
    order = [*in_order_of_ids(), F.col("_stream")]
    some = rows.where(_second().between(chunk.first, chunk.last)).drop("day")
    if chunk.skip is not None:
        some = some.orderBy(*order).offset(chunk.skip).limit(chunk.count)
    some = some.coalesce(1).sortWithinPartitions(*order)
    return some.drop("_stream") if single else some


if __name__ == "__main__":
    replay()
