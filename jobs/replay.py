"""An archive back into streams: each entry once, at a given rate or a multiple of the original speed.

    spark-submit jobs/replay.py --from s3a://lake/orders --since 2024-06-01 --speed 60 --checkpoint s3a://lake/replays/1

Entries are written in the order of their IDs, with their own IDs or new ones, to their original streams or to another
stream. The first run divides the entries into chunks, which it records in the checkpoint. Each chunk is one write with
its own `writeId`, which the connector adds only once. A run with the same checkpoint continues after the last finished
chunk. Entries that are added to the archive after the start of the first run are not replayed.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator

import click
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from pystreams.errors import fail
from pystreams.jobs.job import combined, job
from pystreams.jobs.run import Run
from pystreams.values import times

_PACE_SECONDS = 2  # time for which a chunk lasts at the given rate or speed
#: A chunk: the `size` entries of the seconds from `first` to `last` (since 1970). With `skip`, it is a part of one
#: second: `size` entries after the first `skip` entries.
_CHUNK = "id string, flags string, number int, first bigint, last bigint, size bigint, skip bigint"


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
        "--to", "target", metavar="NAME", help="Target stream. Without it, entries go to their original streams."
    ),
    click.option(
        "--checkpoint",
        "progress",
        metavar="URI",
        required=True,
        help="Directory for the progress of this replay, not shared with other replays.",
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
    click.option("--rate", type=click.IntRange(1), metavar="N", help="Maximum number of entries per second."),
    click.option(
        "--speed", type=click.FloatRange(0.001, 1e9), metavar="FACTOR", help="Multiple of the original speed."
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
    progress: str,
    since: str | None,
    until: str | None,
    ids: str,
    rate: int | None,
    speed: float | None,
    size: int,
) -> None:
    """Write each entry of an archive exactly once to streams, even after interruptions."""
    if rate is not None and speed is not None:
        raise click.UsageError("--rate and --speed exclude each other.")
    low, high = _moment(since, "--since"), _moment(until, "--until")
    run.address()
    rows = run.spark.read.option("recursiveFileLookup", "true").parquet(archive)  # without columns of directories
    rows = rows if low is None else rows.where(F.unix_millis("_timestamp") >= low)
    rows = rows if high is None else rows.where(F.unix_millis("_timestamp") < high)
    chunks = _table(run, f"{progress}/plan", _CHUNK)
    flags = json.dumps({"from": archive, "to": target, "since": low, "until": high, "ids": ids})
    if not chunks:
        size = size if rate is None else max(1, min(size, rate * _PACE_SECONDS))
        span = None if speed is None else max(1, round(speed * _PACE_SECONDS))
        identity = uuid.uuid4().hex
        planned = [(identity, flags, number, *each) for number, each in enumerate(_chunks(rows, size, span))]
        run.spark.createDataFrame(planned, _CHUNK).coalesce(1).write.mode("overwrite").json(f"{progress}/plan")
        chunks = _table(run, f"{progress}/plan", _CHUNK)
    if any(chunk.flags != flags for chunk in chunks[:1]):
        fail("REPLAY_OTHER", checkpoint=progress, before=chunks[0].flags, now=flags)
    chunks.sort(key=lambda chunk: chunk.number)
    done = len(_table(run, f"{progress}/done", "number int"))
    total, written = sum(chunk.size for chunk in chunks), sum(chunk.size for chunk in chunks[:done])
    started, before = time.monotonic(), written
    for chunk in chunks[done:]:
        due = 0.0
        if rate is not None:
            due = (written - before) / rate
        elif speed is not None:
            due = (chunk.first - chunks[done].first) / speed
        time.sleep(max(0.0, started + due - time.monotonic()))
        some = _rows(rows, chunk)
        run.write(
            some if target is None else some.drop("_stream"),
            stream=target,
            keepIds=str(ids == "keep").lower(),
            writeId=f"{chunk.id}-{chunk.number}",
        )
        mark = run.spark.createDataFrame([(chunk.number,)], "number int").coalesce(1)
        mark.write.mode("append").json(f"{progress}/done")
        written += chunk.size
        pace = (written - before) / max(0.001, time.monotonic() - started)
        run.say(f"{written:,} of {total:,} entries, {pace:,.0f} entries/s, up to {times.iso(chunk.last * 1000 + 999)}")
    run.say(f"done: {written:,} of {total:,} entries")


def _table(run: Run, path: str, schema: str) -> list[Row]:
    """Return the rows of a table in the checkpoint, or none if it does not exist yet."""
    try:
        return run.spark.read.schema(schema).json(path).distinct().collect()
    except AnalysisException as refusal:
        if refusal.getCondition() != "PATH_NOT_FOUND":
            raise
        return []


def _moment(text: str | None, flag: str) -> int | None:
    at = None if text is None else times.moment(text)
    if text is not None and at is None:
        fail("INVALID_VALUE", name=flag, value=text, expected="it must be a time such as 2024-06-01T12:00Z")
    return at


def _second() -> Column:
    """Return the time in an entry's ID, in seconds since 1970."""
    return F.floor(F.unix_millis("_timestamp") / 1000)


def _chunks(rows: DataFrame, size: int, span: int | None) -> Iterator[tuple[int, int, int, int | None]]:
    """Yield chunks of at most `size` entries and at most `span` seconds; a `span` of None is no limit."""
    counted = rows.groupBy(_second().alias("second")).count().orderBy("second")
    first, last, count = 0, 0, 0
    for second, entries in counted.toLocalIterator():
        if count and (count + entries > size or (span is not None and second - first >= span)):
            yield first, last, count, None
            count = 0
        if entries > size:
            for skip in range(0, entries, size):
                yield second, second, min(size, entries - skip), skip
            continue
        first, last, count = (first if count else second), second, count + entries
    if count:
        yield first, last, count, None


def _rows(rows: DataFrame, chunk: Row) -> DataFrame:
    """Return the rows of a chunk in the order of their IDs, for one writer."""
    parts = F.split(F.col("_id"), "-")
    order = [parts[0].cast("decimal(20,0)"), parts[1].cast("decimal(20,0)"), F.col("_stream")]
    some = rows.where(_second().between(chunk.first, chunk.last))
    if chunk.skip is not None:
        some = some.orderBy(*order).offset(chunk.skip).limit(chunk.size)
    return some.coalesce(1).sortWithinPartitions(*order)


if __name__ == "__main__":
    replay()
