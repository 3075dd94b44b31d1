"""`tail` and `consume`: existing and new entries, without a group or as a consumer of a group."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Sequence

import click

from pystreams.commands.arguments import NAME, stream_argument
from pystreams.commands.verbs import Run, verb
from pystreams.output import Lines
from pystreams.streams import entries, inventory
from pystreams.streams.entries import Found
from pystreams.values import conditions, names, numbers, times
from pystreams.values.fields import Decoding, Entry, as_text
from pystreams.values.names import is_glob
from streamclient.config.address import Tls
from streamclient.config.option import parsed
from streamclient.formats.decoder import Decoder
from streamclient.formats.schemas import FORMATS as FORMATS_OF_VALUES
from streamclient.formats.schemas import Format
from streamwire.stream_id import ZERO, StreamId

_LAST = 10  # number of last entries of each stream that are shown by default


@verb(
    "tail",
    needs="+scan +xinfo|stream +xrange +xrevrange +xread +time",
    examples=(
        "pystreams tail orders                            # the last ten entries",
        "pystreams tail orders --where 'amount > 100'     # the last ten of these",
        "pystreams tail orders -f --from -100",
        "pystreams tail 'sensors:*' -f --where 'temp > 30'",
        "pystreams tail orders --from 1h -o csv > last-hour.csv",
        "pystreams tail orders --decode avro --registry http://registry:8081 --where 'amount > 100'",
    ),
)
@click.argument("streams", nargs=-1, required=True, metavar="STREAM...")
@click.option("-f", "--follow", is_flag=True, help="Continue with new entries until Ctrl-C, reconnecting if needed.")
@click.option(
    "--from",
    "start",
    metavar="POSITION",
    help="start, end, an ID, a time, 15m (ago), -N (last N).  [default: the last ten entries that --where selects]",
)
@click.option(
    "--where", "condition", metavar="CONDITION", help="Condition on fields, such as 'temp > 30 and city == \"Bonn\"'."
)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1),
    help="Maximum number of entries. Without --from and -f, the last N entries of each stream that --where selects.",
)
@click.option(
    "--decode", "decode", type=click.Choice(FORMATS_OF_VALUES), help="Format of the values, which are shown as JSON."
)
@click.option("--schema", "schema", type=click.Path(dir_okay=False), help="File with the schema of Avro or Protobuf.")
@click.option("--message", metavar="NAME", help="Message type of the Protobuf schema.  [default: the first one]")
@click.option(
    "--registry",
    envvar="PYSTREAMS_REGISTRY",
    metavar="URL",
    help="URL of the schema registry, such as https://user:password@host.",
)
def tail(
    run: Run,
    streams: tuple[str, ...],
    follow: bool,
    start: str | None,
    condition: str | None,
    limit: int | None,
    decode: Format | None,
    schema: str | None,
    message: str | None,
    registry: str | None,
) -> None:
    """Show entries of streams in the order of their IDs, without a group. STREAM is a name or a glob.

    A condition compares fields with numbers and strings (==, !=, <, <=, >, >=, in), and combines comparisons (and, or,
    not). field('a-b') names a field whose name is not an identifier. With --decode, a condition can use members of
    decoded values, such as payload.card.number. Values that cannot be decoded are shown unchanged. `--decode auto`
    recognises JSON and MessagePack, and with a registry also values that contain a schema ID. Without --from, a
    condition searches each stream backwards until enough entries match.
    """
    # A single function, because the search, the present entries and the new ones share the number left to show.
    if decode is None and (schema or message):
        raise click.UsageError("--schema and --message require --decode.")
    last = _LAST
    if start is None and limit is not None and not follow:
        last, limit = limit, None
    searches = start is None and condition is not None
    position = times.position("end" if searches else start or f"-{last}", "--from")
    wanted = None if condition is None else conditions.parse(condition)
    decoder = None if decode is None else _decoder(run, decode, schema, message, registry)
    decoding = None if decoder is None else Decoding(decoder)
    members = as_text if decoding is None else decoding.members
    spans = {name: _span(run, name, position, follow=follow) for name in _matching(run, streams)}
    if not spans:
        run.out.note("No stream matches.")
        return
    several = len(spans) > 1 or any(map(is_glob, streams))
    lines = Lines(run.out, several=several, decoding=decoding)
    left = [limit]

    def chosen(found: Found) -> bool:
        return wanted is None or wanted(members(found[1][1]))

    def show(found: Iterable[Found]) -> bool:
        """Write entries; return whether to continue."""
        for name, (entry_id, words) in found:
            lines.write(name, entry_id, words)
            left[0] = None if left[0] is None else left[0] - 1
            if left[0] == 0:
                return False
        return True

    ends = {name: upto for name, (_, upto) in spans.items()}
    if searches:
        more = show(entries.last(run.connection, ends, chosen, last))
    else:
        more = show(filter(chosen, entries.present(run.connection, spans)))
    _warn_of_unseen(run, wanted, decoding)
    if not more or not follow:
        return
    run.out.flush()
    for page in entries.follow(run.connection, ends, run.out.warn):
        more = show(filter(chosen, page))
        run.out.flush()
        if not more:
            return


def _warn_of_unseen(run: Run, condition: conditions.Condition | None, decoding: Decoding | None) -> None:
    """Warn of field names that occur in the condition, but in no entry."""
    if condition is None or not condition.checked:
        return
    for path in condition.unseen:
        advice = "; members of values require --decode" if decoding is None and "." in path else ""
        run.out.warn(f"none of {numbers.things(condition.checked, 'entry')} has the field {path}{advice}")


def _decoder(run: Run, form: Format, schema: str | None, message: str | None, registry: str | None) -> Decoder:
    if schema is not None:
        return Decoder.of_file(form, schema, message)
    if registry is None:
        return Decoder(form)
    from streamclient.formats.registry import Registry  # noqa: PLC0415 - HTTP takes time to import

    tls = Tls(ca_file=run.wanted.given.get("tls.caFile"))
    return Decoder(form, parsed("--registry", lambda text: Registry.at(text, tls=tls), registry))


def _matching(run: Run, streams: tuple[str, ...]) -> Iterator[bytes]:
    """Yield the names in ``streams``, and the streams that match a glob."""
    for word in streams:
        name = names.from_shell(word)
        yield from inventory.scan(run.connection, name) if is_glob(word) else [name]


def _span(run: Run, name: bytes, position: times.Position, *, follow: bool) -> tuple[StreamId, StreamId]:
    """Return the range (after, upto] of the existing entries to show."""
    if follow:
        found = inventory.find(run.connection, name)
        if found is None:
            return ZERO, ZERO
    else:
        found = inventory.need(run.connection, name)
    return entries.after_of(run.connection, found, position, run.now), found.last_id


@verb(
    "consume",
    needs="+xreadgroup +xack +xgroup|delconsumer +xpending",
    examples=(
        "pystreams consume orders -g billing --ack",
        "pystreams consume orders -g try-it -n 10",
        "pystreams consume orders -g billing -f --ack -o json | ./process",
    ),
)
@stream_argument
@click.option("-g", "--group", required=True, type=NAME, help="Consumer group.")
@click.option(
    "-c",
    "--consumer",
    type=NAME,
    help="Name of the consumer.  [default: a new consumer, removed at the end if no entry is pending for it]",
)
@click.option("--ack", is_flag=True, help="Acknowledge entries after writing them.")
@click.option("-f", "--follow", is_flag=True, help="Wait for new entries until Ctrl-C, reconnecting if needed.")
@click.option("-n", "--limit", type=click.IntRange(1), help="Stop after N entries.")
def consume(
    run: Run,
    stream: bytes,
    group: bytes,
    consumer: bytes | None,
    ack: bool,
    follow: bool,
    limit: int | None,
) -> None:
    """Read new entries as a consumer of a group. Entries stay pending for the consumer until they are acknowledged.

    With --consumer, reading starts with the pending entries of that consumer.
    """
    name = f"pystreams-{socket.gethostname()}-{os.getpid()}".encode() if consumer is None else consumer
    lines = Lines(run.out)
    reader = entries.Reader(run.connection, stream, group, name, again=consumer is not None)
    left = limit
    try:
        while left != 0:
            page = reader.read(most=left, wait=follow, lost=run.out.warn)
            if not page and not follow:
                break
            _write(run, lines, stream, page)
            if ack and page:
                reader.acknowledge(page)
            left = None if left is None else left - len(page)
    finally:
        if consumer is None:
            pending = reader.leave()
            if pending:
                run.out.note(f"Pending for the consumer {names.shown(name)}: {numbers.things(pending, 'entry')}.")


def _write(run: Run, lines: Lines, stream: bytes, page: Sequence[Entry]) -> None:
    for entry_id, words in page:
        lines.write(stream, entry_id, words)
    run.out.flush()


VERBS = (tail, consume)
