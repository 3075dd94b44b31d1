"""`export`, `import` and `copy`: streams to files and back, and from server to server. Each can be resumed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import click

from pystreams.commands.arguments import NAME, stream_argument
from pystreams.commands.verbs import Run, verb
from pystreams.connect import Wanted
from pystreams.errors import fail
from pystreams.files import archives, rows
from pystreams.streams import entries, inventory, pending, transfer
from pystreams.streams import group_states as of_groups
from pystreams.streams.group_states import Group
from pystreams.streams.inventory import Stream
from pystreams.streams.paged_calls import pages
from pystreams.values import names, numbers, times
from streamclient.connection import Connection
from streamwire.stream_id import ZERO, StreamId

_FORMS = ("jsonl", "csv", "parquet")
_CHUNK = 500  # maximum number of rows that are added together


def _form(file: Path, given: str | None) -> str:
    form = given or rows.form_of(str(file))
    if form is None:
        fail("INVALID_VALUE", name="FILE", value=file, expected="its name does not imply the format: add --format")
    return form


@verb(
    "export",
    needs="+xinfo|stream +xrange +xrevrange +time",
    examples=(
        "pystreams export orders orders.jsonl",
        "pystreams export orders day.parquet --from 2024-06-01 --before 2024-06-02",
        "pystreams export orders orders.csv --columns customer,price",
        "pystreams export orders orders.jsonl --resume   # adds newer entries",
    ),
)
@stream_argument
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(_FORMS), help="Format of the file, if its name does not imply it.")
@click.option(
    "--from",
    "start",
    default="start",
    show_default=True,
    metavar="POSITION",
    help="Start: an ID, a time, 15m (ago), or -N (the last N entries).",
)
@click.option("--before", default="end", show_default=True, metavar="POSITION", help="End of the entries, exclusive.")
@click.option("--columns", metavar="NAME,...", help="Columns of CSV or Parquet; other fields go to _other.")
@click.option("--resume", is_flag=True, help="Continue after the last entry in the file. Not with Parquet.")
def export(
    run: Run, stream: bytes, file: Path, form: str | None, start: str, before: str, columns: str | None, resume: bool
) -> None:
    """Write a stream's entries to a file: JSON lines, CSV, or Parquet.

    JSON lines are lossless. CSV and Parquet have a text column for each field of --columns, by default for each field
    of the first entries. The column _other contains all other fields, and the column _id the ID.
    """
    form = _form(file, form)
    begin, end = times.position(start, "--from"), times.position(before, "--before")
    source = inventory.need(run.connection, stream)
    after = entries.after_of(run.connection, source, begin, run.now)
    upto = min(entries.after_of(run.connection, source, end, run.now), source.last_id)
    chosen = None if columns is None else [name for name in columns.split(",") if name]
    with archives.written(file):
        archive = archives.open_archive(file, form, chosen, resume=resume)
    if archive.last is not None:
        after = max(after, _parsed(archive.last, file, "last"))
    written, whole = 0, False
    try:
        pages_read = entries.pages(run.connection, stream, after, upto)
        for page in run.out.progress("entries", pages_read, source.backlog(after)[0] or None, len):
            with archives.written(file):
                archive.write(page)
            written += len(page)
        with archives.written(file):
            archive.close(whole=True)
        whole = True
    finally:
        if not whole:
            with suppress(OSError):  # report the original error instead
                archive.close(whole=False)
            advice = "The file is removed." if form == "parquet" else "Continue with --resume."
            run.out.note(f"Interrupted after {numbers.things(written, 'entry')}. {advice}")
    run.done(
        f"Wrote {numbers.things(written, 'entry')} to {names.shown(bytes(file))}.",
        {"written": written, "file": str(file), "upto": str(upto)},
    )


@verb(
    "import",
    needs="+xinfo|stream +xadd",
    adds=True,
    examples=(
        "pystreams import orders.jsonl orders",
        "pystreams import orders.jsonl orders --resume",
    ),
)
@click.argument("file", type=click.Path(path_type=Path))
@stream_argument
@click.option("--format", "form", type=click.Choice(_FORMS), help="Format of the file, if its name does not imply it.")
@click.option("--resume", is_flag=True, help="Skip entries that the stream already has.")
def import_(run: Run, file: Path, stream: bytes, form: str | None, resume: bool) -> None:
    """Add the entries of a file to a stream, with their IDs. To add them with new IDs, use 'produce --file'."""
    form = _form(file, form)
    if run.dry_run:
        count = sum(1 for _ in _read(file, form))
        run.done(
            f"Would add {numbers.things(count, 'entry')} to {names.shown(stream)}.", {"dry_run": True, "entries": count}
        )
        return
    added, skipped = _add(run, file, form, stream, resume=resume)
    left_out = f", {skipped:,} already existed" if skipped else ""
    run.done(
        f"Added {numbers.things(added, 'entry')} to {names.shown(stream)}{left_out}.",
        {"added": added, "skipped": skipped},
    )


def _read(file: Path, form: str) -> Iterator[rows.Row]:
    if form == "parquet":
        yield from rows.read_parquet(file)
        return
    with file.open("rb") as source:
        yield from rows.read(source, form, str(file))


def _chunks(file: Path, form: str) -> Iterator[list[tuple[int, rows.Row]]]:
    """Yield the rows with their numbers, in chunks of a few hundred rows or about a megabyte. Raises MALFORMED_ROW."""

    def numbered() -> Iterator[tuple[int, rows.Row]]:
        for number, row in enumerate(_read(file, form), 1):
            if not row.words:
                fail("MALFORMED_ROW", file=file, row=number, reason="it has no fields, and an entry needs one")
            yield number, row

    return pages(numbered(), _CHUNK, lambda each: sum(map(len, each[1].words)))


def _add(run: Run, file: Path, form: str, stream: bytes, *, resume: bool) -> tuple[int, int]:
    """Add the rows after the stream's last ID. Return the numbers of added and skipped rows."""
    there = inventory.find(run.connection, stream)
    end = ZERO if there is None else there.last_id
    if there is not None and end > ZERO and not resume:
        fail("STREAM_NOT_EMPTY", stream=names.shown(stream), last=end)
    added, skipped, met = 0, 0, end == ZERO
    before: StreamId | None = None
    for page in run.out.progress("entries", _chunks(file, form), amount=len):
        new: list[tuple[bytes, list[bytes]]] = []
        for number, row in page:
            if row.id is None:
                fail("MALFORMED_ROW", file=file, row=number, reason="it has no ID: use 'pystreams produce'")
            entry_id = _parsed(row.id, file, number)
            if before is not None and entry_id <= before:  # --resume would take it for an existing entry
                fail("ID_NOT_RISING", stream=names.shown(stream), id=entry_id)
            before = entry_id
            met = met or entry_id == end
            if entry_id <= end:
                skipped += 1
                continue
            if not met:
                fail("STREAM_DIFFERS", stream=names.shown(stream), last=end, other=file)
            new.append((row.id, row.words))
        transfer.add(run.connection, stream, new)
        added += len(new)
    return added, skipped


def _parsed(text: bytes, file: Path, row: int | str) -> StreamId:
    try:
        return StreamId.parse(text)
    except ValueError:
        return fail("MALFORMED_ROW", file=file, row=row, reason=f"'{names.shown(text)}' is not an ID")


@verb(
    "copy",
    needs="+xinfo +xrange +xpending +time +scan +exists +hgetall +pttl, and at the target +xinfo|stream +xadd +xsetid "
    "+xgroup +xclaim +multi +exec +del +hset +pexpire",
    adds=True,
    examples=(
        "pystreams copy orders --to-url redis://other:6379",
        "pystreams copy orders orders-copy --no-groups",
        "pystreams copy orders --to-profile production --resume",
    ),
)
@stream_argument
@click.argument("target", type=NAME, required=False)
@click.option("--to-url", metavar="URL", help="Target server.  [default: the same server]")
@click.option("--to-profile", metavar="NAME", help="Profile of the target server.")
@click.option(
    "--groups/--no-groups", default=True, show_default=True, help="Also copy groups with their pending entries."
)
@click.option(
    "--records/--no-records",
    default=True,
    show_default=True,
    help="Also copy the records that Spark queries need to continue at the target.",
)
@click.option("--resume", is_flag=True, help="Continue after the last ID of the target.")
def copy(
    run: Run,
    stream: bytes,
    target: bytes | None,
    to_url: str | None,
    to_profile: str | None,
    groups: bool,
    records: bool,
    resume: bool,
) -> None:
    """Copy a stream with its IDs, and its groups with their positions and pending entries.

    TARGET is the name of the copy, by default the name of the stream. Entries that are added during the copy may be
    missing; run the command again with --resume to add them.

    To move Spark queries to another server, stop them and copy all streams that they write, under the same names. The
    records of the queries are copied with the streams. Then start the queries at the new server with their checkpoints.
    """
    elsewhere = to_url is not None or to_profile is not None
    name = target or stream
    if not elsewhere and name == stream:
        raise click.UsageError("Give --to-url, --to-profile or another name.")
    source = inventory.need(run.connection, stream)
    there = run.other(Wanted(to_url, to_profile)) if elsewhere else run.connection
    found = inventory.find(there, name)
    after = ZERO if found is None else found.last_id
    if after > ZERO and not resume:
        fail("STREAM_NOT_EMPTY", stream=names.shown(name), last=after)
    if found is not None and found.last_entry is not None and not _has(run.connection, stream, found.last_entry):
        fail("STREAM_DIFFERS", stream=names.shown(name), last=found.last_entry, other=names.shown(stream))
    members = list(of_groups.groups(run.connection, [stream], run.now)) if groups else []
    if run.dry_run:
        count = source.backlog(after)[0]
        about = f"{numbers.things(count, 'entry')} and {numbers.things(len(members), 'group')}"
        sentence = f"Would copy about {about} to {names.shown(name)}."
        run.done(sentence, {"dry_run": True, "entries": count, "groups": len(members)})
        return
    copied = _copy_entries(run, there, source, name, after)
    if not copied and found is None and members:
        transfer.copy_group(there, members[0], name)  # the source is empty: this creates the stream
    if copied or members or found is not None:
        transfer.set_end(there, source, name)
    claimed = _copy_groups(run, there, stream, name, members)
    keys = transfer.find_records(run.connection, stream) if records and elsewhere and name == stream else []
    transfer.copy_records(run.connection, there, keys)
    much = f"{numbers.things(copied, 'entry')}, {numbers.things(len(members), 'group')}"
    written = f", with {numbers.things(len(keys), 'record')} of queries" if keys else ""
    run.done(
        f"Copied {much} and {numbers.things(claimed, 'pending entry')} to {names.shown(name)}{written}.",
        {"copied": copied, "groups": len(members), "pending": claimed, "records": len(keys)},
    )


def _copy_entries(run: Run, there: Connection, source: Stream, name: bytes, after: StreamId) -> int:
    """Copy the entries after `after`, and return their number."""
    copied = 0
    found = entries.pages(run.connection, source.name, after, source.last_id)
    for page in run.out.progress("entries", found, source.backlog(after)[0] or None, len):
        transfer.add(there, name, page)
        copied += len(page)
    return copied


def _copy_groups(run: Run, there: Connection, stream: bytes, name: bytes, members: Sequence[Group]) -> int:
    """Copy groups with their pending entries. Return the number of copied pending entries."""
    claimed = missing = 0
    for group in members:
        transfer.copy_group(there, group, name)
        found = pending.find(run.connection, stream, group.name, pending.Which())
        for page in run.out.progress("pending entries", found, amount=len):
            made = transfer.copy_pending(there, name, group.name, page)
            claimed += made
            missing += len(page) - made
    if missing:
        run.out.warn(f"Not copied: {numbers.things(missing, 'pending entry')} that the stream no longer has.")
    return claimed


def _has(connection: Connection, stream: bytes, entry_id: StreamId) -> bool:
    return any(True for _ in entries.pages(connection, stream, entry_id.before(), entry_id))


VERBS = (export, import_, copy)
