"""Dead letters back to streams: entries that a query gave up on are added to their stream again.

    spark-submit jobs/redrive.py --stream orders-failed --reason timeout --limit 1000 --dry-run

Only letters that exist when the job starts are put back. An entry that fails again becomes a new letter for the next
run. Each letter is added to its stream once and removed once, even if the job is killed. In a cluster, the
stream of dead letters and the target can be in different slots. Then a killed job may leave a letter in both streams
until the next run.
"""

from __future__ import annotations

import time
from collections import Counter

import click

from pystreams.jobs.job import combined, job
from pystreams.jobs.run import Run
from pystreams.streams import dead_letters, inventory, paged_calls
from pystreams.streams.dead_letters import Which
from pystreams.streams.paged_calls import pages
from pystreams.values import names, numbers, times
from streamwire.stream_id import StreamId

_CHUNK = 500  # maximum number of dead letters that are put back together


@job(
    "redrive",
    examples=(
        "redrive --stream orders-failed --dry-run",
        "redrive --stream orders-failed --reason timeout --limit 1000",
        "redrive --stream failed --from-stream orders --to orders-retry --rate 100",
        "redrive --conf redrive.toml",
    ),
)
@combined(
    click.option("--stream", required=True, metavar="NAME", help="Stream of dead letters (deadLetterStream)."),
    click.option("--reason", metavar="TEXT", help="Only dead letters whose reason contains this text."),
    click.option("--from-stream", "origin", metavar="NAME", help="Only dead letters from this stream."),
    click.option("--older-than", "age", metavar="DURATION", help="Minimum age of the dead letters, such as 1h."),
    click.option("--to", "target", metavar="NAME", help="Target stream, instead of the original streams."),
    click.option("--limit", type=click.IntRange(1), metavar="N", help="Maximum number of dead letters, oldest first."),
    click.option("--rate", type=click.IntRange(1), metavar="N", help="Maximum number of dead letters per second."),
    click.option("--dry-run", is_flag=True, help="Show the dead letters that would be put back, without changes."),
)
def redrive(
    run: Run,
    stream: str,
    reason: str | None,
    origin: str | None,
    age: str | None,
    target: str | None,
    limit: int | None,
    rate: int | None,
    dry_run: bool,
) -> None:
    """Put dead letters back into their original streams, or into the stream --to."""
    name, to = names.from_shell(stream), None if target is None else names.from_shell(target)
    counts: Counter[str] = Counter()
    with run.connection() as connection:
        end = inventory.need(connection, name).last_id
        before = None
        if age is not None:
            before = StreamId(max(0, paged_calls.now_ms(connection) - times.duration(age, "--older-than")), 0)
        which = Which((), _bytes(origin), _bytes(reason), before)
        found = (
            letters
            for page in dead_letters.find(connection, name, which, end)
            for letters in pages(page, min(_CHUNK, rate or _CHUNK))
        )
        for letters in found:
            some = letters[: None if limit is None else limit - counts.total()]
            if dry_run:
                some = [letter for letter in some if letter.words]
            else:
                some = dead_letters.put_back(connection, name, some, to, keep=False)
            for letter in some:
                counts[f"{names.shown(letter.stream if to is None else to)}: {names.shown(letter.reason)}"] += 1
            if limit is not None and counts.total() >= limit:
                break
            if rate is not None and not dry_run:
                time.sleep(len(some) / rate)
    for destination, count in counts.most_common():
        run.say(f"{numbers.things(count, 'letter')} {'would go' if dry_run else 'went'} to {destination}")
    run.say(f"{'would put back' if dry_run else 'put back'}: {numbers.things(counts.total(), 'letter')}")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else names.from_shell(text)


if __name__ == "__main__":
    redrive()
