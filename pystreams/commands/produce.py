"""`produce`: entries from files, standard input, the command line, or a generator."""

from __future__ import annotations

import io
import itertools
import math
import random
import string
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from pystreams.commands.arguments import stream_argument
from pystreams.commands.verbs import Run, verb
from pystreams.errors import fail
from pystreams.files import rows
from pystreams.streams.transfer import Producer, paced
from pystreams.values import names, numbers
from streamclient.connection import BROKEN, Command
from streamclient.errors import PystreamsError

_PIPE_BYTES = 1 << 16  # maximum number of bytes of one read from a pipe


@verb(
    "produce",
    needs="+xadd",
    adds=True,
    examples=(
        "pystreams produce orders item=7 price=12.5",
        "pystreams produce orders -f orders.csv",
        "tail -f app.log | pystreams produce logs -f - --format lines",
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
@click.option("--maxlen", type=click.IntRange(0), metavar="N", help="Approximate maximum length of a stream.")
def produce(
    run: Run,
    stream: bytes,
    fields: tuple[str, ...],
    file: str | None,
    form: str | None,
    skip: int,
    generate: int | None,
    payload: int,
    rate: float | None,
    maxlen: int | None,
) -> None:
    """Add entries: one from the command line, the rows of a file, or generated entries.

    Files are CSV with a header, JSON lines, Parquet, or plain lines. Rows get new IDs; 'pystreams import' can keep the
    IDs of a file. If the command breaks off, a note has the number of added entries, and for a file the --skip to
    continue with.
    """
    if (bool(fields) + (file is not None) + (generate is not None)) != 1:
        raise click.UsageError("Give fields, or --file, or --generate.")
    if skip and file is None:
        raise click.UsageError("--skip requires --file.")
    if rate is not None and not math.isfinite(rate):
        raise click.UsageError("--rate must be a finite number of entries.")
    trims: Command = () if maxlen is None else ("MAXLEN", "~", maxlen)
    producer = Producer(run.connection)
    found: Iterator[list[bytes] | None]
    if fields:
        found = iter([_pairs(fields)])
    elif generate is not None:
        found = _made_up(generate or None, rate, payload)
    else:
        found = _held_back(itertools.islice(_rows(str(file), form, producer.flush), skip, None), rate)
    count = skip
    try:
        for words in run.out.progress("entries", found, generate or None, lambda words: int(words is not None)):
            if words is None:
                producer.flush()
                continue
            count += 1
            if not words:
                fail("MALFORMED_ROW", file=file, row=count, reason="it has no field, and an entry needs one")
            if not run.dry_run:
                producer.add(("XADD", stream, *trims, b"*", *words))
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


def _rows(file: str, form: str | None, before_wait: Callable[[], None]) -> Iterator[rows.Row]:
    """Yield the rows of a file. `before_wait`: see `_Pipe`."""
    form = form or rows.form_of(file)
    if form is None:
        fail("INVALID_VALUE", name="--file", value=file, expected="its name does not imply the format: add --format")
    if form == "parquet":
        if file == "-":
            fail("INVALID_VALUE", name="--format", value=form, expected="a pipe supports only csv, jsonl and lines")
        yield from rows.read_parquet(Path(file))
    elif file == "-":
        yield from rows.read(io.BufferedReader(_Pipe(before_wait), _PIPE_BYTES), form, "standard input")
    else:
        with Path(file).open("rb") as source:
            yield from rows.read(source, form, file)


class _Pipe(io.RawIOBase):
    """Standard input. `before_wait` is called before each read, since a read may wait."""

    def __init__(self, before_wait: Callable[[], None]) -> None:
        self._source: Any = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
        self._before_wait = before_wait

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._before_wait()
        return int(self._source.readinto(buffer))


def _held_back(found: Iterator[rows.Row], rate: float | None) -> Iterator[list[bytes] | None]:
    """Yield the field names and values of each row, at most `rate` rows per second (None: no limit).

    Yields None each time that the rows due at the `rate` have been yielded, so that they are sent.
    """
    for due in paced(None, rate):
        left = due
        for row in itertools.islice(found, due):
            left -= 1
            yield row.words
        if left:
            return
        if rate is not None:
            yield None


VERBS = (produce,)
