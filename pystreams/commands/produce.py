"""`produce`: entries from files, standard input, the command line, or a generator."""

from __future__ import annotations

import io
import itertools
import math
import random
import string
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import click

from pystreams.commands.arguments import NAME, stream_argument
from pystreams.commands.verbs import Run, verb
from pystreams.errors import fail
from pystreams.files import rows
from pystreams.streams.transfer import Producer, Target, paced
from pystreams.values import names, numbers
from streamclient.connection import BROKEN
from streamclient.errors import PystreamsError


class ReadAhead:
    """A queue of at most `most` items and `most_bytes` bytes. An empty queue accepts an item of any size."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._items: deque[tuple[Any, int]] = deque()
        self._bytes = 0
        self._ended = False
        self._changed = threading.Condition()

    def put(self, item: Any, size: int = 0) -> bool:
        """Wait for room, and add an item of `size` bytes. Returns False if the queue has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or not self._items or self._has_room(size))
            if self._ended:
                return False
            self._items.append((item, size))
            self._bytes += size
            self._changed.notify_all()
            return True

    def _has_room(self, size: int) -> bool:
        return len(self._items) < self._most and self._bytes + size <= self._most_bytes

    def get(self, timeout: float | None = None) -> Any:
        """Return the next item. Raises TimeoutError after `timeout` seconds without an item."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._items, timeout):
                raise TimeoutError
            item, size = self._items.popleft()
            self._bytes -= size
            self._changed.notify_all()
            return item

    def end(self) -> None:
        """End the queue, because the consumer has stopped. A waiting or later `put` returns False."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()


_QUEUED, _QUEUED_BYTES = 5000, 16 << 20  # maximum number of rows read ahead, and of their bytes
_QUIET_SECONDS = 0.05  # time without input after which buffered rows are sent


@verb(
    "produce",
    needs="+xadd",
    adds=True,
    examples=(
        "pystreams produce orders item=7 price=12.5",
        "pystreams produce orders -f orders.csv",
        "tail -f app.log | pystreams produce logs -f - --format lines",
        "pystreams produce orders -f orders.jsonl --key-column customer --partitions 8",
        "pystreams produce load --generate 100000 --rate 5000 --payload 200",
    ),
)
@stream_argument
@click.argument("fields", nargs=-1, metavar="[FIELD=VALUE]...")
@click.option("-f", "--file", "file", metavar="FILE", help="File with the rows; - is standard input.")
@click.option(
    "--format", "form", type=click.Choice(rows.FORMS), help="Format of the file, if its name does not imply it."
)
@click.option("--skip", type=click.IntRange(0), default=0, metavar="N", help="Number of rows of the file to skip.")
@click.option("--line-field", type=NAME, default="line", help="Field that receives each line, with --format lines.")
@click.option(
    "--generate", type=click.IntRange(0), metavar="N", help="Number of entries to generate; 0 generates until Ctrl-C."
)
@click.option(
    "--payload",
    type=click.IntRange(0),
    default=0,
    metavar="BYTES",
    help="Size of an additional field of generated entries.",
)
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Maximum number of entries per second.")
@click.option(
    "--key-column", type=NAME, metavar="FIELD", help="Field that determines the stream of a row, with --partitions."
)
@click.option(
    "--partitions", type=click.IntRange(1), metavar="N", help="Number of streams: STREAM:{0}, STREAM:{1}, ..."
)
@click.option("--maxlen", type=click.IntRange(0), metavar="N", help="Approximate maximum length of a stream.")
def produce(
    run: Run,
    stream: bytes,
    fields: tuple[str, ...],
    file: str | None,
    form: str | None,
    skip: int,
    line_field: bytes,
    generate: int | None,
    payload: int,
    rate: float | None,
    key_column: bytes | None,
    partitions: int | None,
    maxlen: int | None,
) -> None:
    """Add entries: one from the command line, the rows of a file, or generated entries.

    Files are CSV with a header, JSON lines, Parquet, or plain lines. Rows get new IDs; 'pystreams import' can keep the
    IDs of a file. Partitions are chosen as with the connector's option keyColumn. If the command breaks off, a note has
    the number of added entries, and for a file the --skip to continue with.
    """
    if (bool(fields) + (file is not None) + (generate is not None)) != 1:
        raise click.UsageError("Give fields, or --file, or --generate.")
    if skip and file is None:
        raise click.UsageError("--skip requires --file.")
    if rate is not None and not math.isfinite(rate):
        raise click.UsageError("--rate must be a finite number of entries.")
    target = _target(stream, key_column, partitions, maxlen)
    found: Iterator[list[bytes] | None]
    if fields:
        found = iter([_pairs(fields)])
    elif generate is not None:
        found = _made_up(generate or None, rate, payload)
    else:
        found = _held_back(itertools.islice(_rows(str(file), form, line_field), skip, None), rate)
    producer = Producer(run.connection)
    count = skip
    try:
        with run.out.progress("entries", generate or None) as advance:
            for words in found:
                if words is None:
                    producer.flush()
                    continue
                count += 1
                if not words:
                    fail("MALFORMED_ROW", file=file, row=count, reason="it has no field, and an entry needs one")
                if not run.dry_run:
                    producer.add(target.command(words))
                advance(1)
        producer.flush()
    except (KeyboardInterrupt, PystreamsError, *BROKEN):
        if not (run.dry_run or fields):
            run.out.note(_interrupted(producer, skip, continues=file not in (None, "-")))
        raise
    added = numbers.things(count - skip if run.dry_run else producer.added, "entry")
    facts = {"dry_run": True, "entries": count - skip} if run.dry_run else {"added": producer.added}
    run.done(f"{'Would add' if run.dry_run else 'Added'} {added} to {names.shown(stream)}.", facts)


def _interrupted(producer: Producer, skip: int, *, continues: bool) -> str:
    """Return what was added before the end. ``continues``: whether --skip can continue with the same rows."""
    text = f"Interrupted after {numbers.things(producer.added, 'entry')}."
    if producer.unconfirmed:
        text += f" The server has not confirmed {numbers.things(producer.unconfirmed, 'more entry')}."
    if continues:
        text += f" Continue with --skip {skip + producer.answered}."
        if producer.later:
            text += f" This adds {numbers.things(producer.later, 'entry')} again."
    return text


def _target(stream: bytes, key_column: bytes | None, partitions: int | None, maxlen: int | None) -> Target:
    if (key_column is None) != (partitions is None):
        raise click.UsageError("--key-column and --partitions require each other.")
    return Target(stream, key_column, partitions, maxlen)


def _pairs(fields: tuple[str, ...]) -> list[bytes]:
    words: list[bytes] = []
    for text in fields:
        name, equals, value = text.partition("=")
        if not equals:
            fail("INVALID_VALUE", name="A field", value=text, expected="it must be FIELD=VALUE")
        words += [names.from_shell(name), names.from_shell(value)]
    return words


def _made_up(count: int | None, rate: float | None, payload: int) -> Iterator[list[bytes] | None]:
    """Yield `count` generated entries, each with a number and the time in milliseconds; endlessly if `count` is None.

    `payload`: number of letters in an additional field; 0 omits the field. The letters are random, but the same in
    every entry. Yields None when the buffered entries should be sent.
    """
    letters = "".join(random.choices(string.ascii_letters, k=payload)).encode()
    number = 0
    for due in paced(count, rate):
        for _ in range(due):
            number += 1
            words = [b"n", b"%d" % number, b"at", b"%d" % round(time.time() * 1000)]
            yield [*words, b"payload", letters] if payload else words
        if rate is not None:
            yield None


def _rows(file: str, form: str | None, line_field: bytes) -> Iterator[rows.Row]:
    form = form or rows.form_of(file)
    if form is None:
        fail("INVALID_VALUE", name="--file", value=file, expected="its name does not imply the format: add --format")
    if form == "parquet":
        if file == "-":
            fail("INVALID_VALUE", name="--format", value=form, expected="a pipe supports only csv, jsonl and lines")
        yield from rows.read_parquet(Path(file))
    elif file == "-":
        yield from rows.read(_standard_input(), form, "standard input", line_field=line_field)
    else:
        with Path(file).open("rb") as source:
            yield from rows.read(source, form, file, line_field=line_field)


def _standard_input() -> BinaryIO:
    """Return standard input with a separate buffer.

    Python crashes at exit if a thread waits in the buffer of sys.stdin.
    """
    raw = getattr(sys.stdin.buffer, "raw", None)
    return sys.stdin.buffer if raw is None else io.BufferedReader(raw)


def _held_back(found: Iterator[rows.Row], rate: float | None) -> Iterator[list[bytes] | None]:
    """Yield the field names and values of each row, at most `rate` rows per second (None: no limit).

    Yields None when the buffered rows should be sent: after a pause of the input, and each time that the rows due at
    the `rate` have been yielded.

    A thread reads the rows, since a read from a pipe may block for a long time.
    """
    read = ReadAhead(_QUEUED, _QUEUED_BYTES)

    def fill() -> None:
        try:
            for row in found:
                if not read.put(row.words, sum(map(len, row.words))):
                    return
        except BaseException as failure:  # noqa: BLE001 - raised in the thread that uses the rows
            read.put(failure)
        read.put(None)

    threading.Thread(target=fill, daemon=True).start()
    try:
        for due in paced(None, rate):
            for _ in range(due):
                try:
                    item = read.get(_QUIET_SECONDS)
                except TimeoutError:
                    yield None
                    item = read.get()
                if item is None:
                    return
                if isinstance(item, BaseException):
                    raise item
                yield item
            if rate is not None:
                yield None
    finally:
        read.end()


VERBS = (produce,)
