"""`rm` and `entries rm`: removing streams and entries."""

from __future__ import annotations

import itertools

import click

from pystreams.commands.selection import matching, no_more_than
from pystreams.commands.verbs import PATTERN, Run, ids_argument, match_limit, stream_argument, verb, verb_group
from pystreams.errors import Status, fail
from pystreams.output import Column
from pystreams.streams import inventory, paged_calls, trimming
from pystreams.streams.groups import group_states as of_groups
from pystreams.streams.groups import seeks
from pystreams.values import names, numbers

_SHOWN = 20  # maximum rows of a preview


@verb(
    "rm",
    needs=f"+scan +xinfo +xpending +xrange +unlink +time {seeks.NEEDS}",
    changes=True,
    examples=("pystreams rm orders-old", "pystreams rm 'test:*' --dry-run", "pystreams rm 'test:*' --yes"),
)
@click.argument("streams", nargs=-1, required=True, type=PATTERN, metavar="STREAM...")
@match_limit
def remove(run: Run, streams: tuple[str, ...], limit: int) -> None:
    """Remove streams with all their entries and groups. STREAM is a name or a glob.

    Records of Spark queries that wrote to a stream are kept.
    """
    matches = itertools.chain.from_iterable(matching(run, word) for word in streams)
    chosen = dict.fromkeys(no_more_than(limit, "streams", matches))
    found = sorted(inventory.read_streams(run.connection, chosen, memory=False), key=lambda each: each.name)
    if not found:
        run.done("No stream matches.", {"removed": 0, "streams": []}, "streams")
        return
    for page in paged_calls.pages(each for each in found if each.groups):
        for group in of_groups.detailed(run.connection, of_groups.groups_of(run.connection, page, run.now)):
            if seeks.owner(group) is not None:
                run.out.warn(f"A Spark query reads {names.shown(group.stream.name)} and would fail with STREAM_LOST.")
    documents = [{"stream": names.as_json(each.name), "entries": each.length, "groups": each.groups} for each in found]
    entries, groups = sum(each.length for each in found), sum(each.groups for each in found)
    subject = f"the stream {names.shown(found[0].name)}" if len(found) == 1 else numbers.things(len(found), "stream")
    if len(found) > 1 and not run.out.structured:
        columns = [Column("STREAM"), Column("ENTRIES", right=True), Column("GROUPS", right=True)]
        rows = [[names.shown(each.name), numbers.count(each.length), str(each.groups)] for each in found[:_SHOWN]]
        run.out.table(columns, rows)
        if len(found) > _SHOWN:
            run.out.line(f"... and {len(found) - _SHOWN:,} more")
    plan = f"remove {subject} with {numbers.things(entries, 'entry')} and {numbers.things(groups, 'group')}"
    if not run.may(plan, {"entries": entries, "streams": documents}, "streams"):
        return
    problems = trimming.remove_streams(run.connection, found)
    if len(problems) == len(found):
        raise problems[0]
    for problem in problems:
        run.out.warn(str(problem))
    removed = len(found) - len(problems)
    done = {"removed": removed, "entries": entries, "streams": documents}
    run.done(f"Removed {numbers.things(removed, 'stream')}.", done, "streams")
    if problems:
        click.get_current_context().exit(Status.FAILED)


@verb(
    "rm",
    needs="+xinfo +xrange +xpending +xdel",
    changes=True,
    examples=("pystreams entries rm orders 1526919030474-0", "pystreams entries rm orders 5-0 6-0 --dry-run"),
)
@stream_argument
@ids_argument
def remove_entries(run: Run, stream: bytes, ids: tuple[bytes, ...]) -> None:
    """Remove entries of a stream. To remove the first entries, use 'trim'; to remove dead letters, 'dlq purge'."""
    if not ids:
        raise click.UsageError("Give the IDs of the entries.")
    there = trimming.present(run.connection, stream, ids)
    missing = [entry_id.decode() for entry_id in ids if entry_id not in there]
    if not there:
        fail("NO_SUCH_ENTRY", stream=names.shown(stream), id=", ".join(missing))
    if missing:
        run.out.warn(f"{names.shown(stream)} has no entry {', '.join(missing)}.")
    for group, count in trimming.pending_of(run.connection, stream, there).items():
        run.out.warn(f"{numbers.things(count, 'removed entry')} would stay pending in {names.shown(group)}.")
    shown = ", ".join(entry_id.decode() for entry_id in there[:10]) + (", ..." if len(there) > 10 else "")
    plan = f"remove {numbers.things(len(there), 'entry')} ({shown}) of {names.shown(stream)}"
    document = {"stream": names.as_json(stream), "ids": [entry_id.decode() for entry_id in there]}
    if run.may(plan, document):
        removed = trimming.remove_entries(run.connection, stream, there)
        run.done(
            f"Removed {numbers.things(removed, 'entry')} of {names.shown(stream)}.", {"removed": removed, **document}
        )


VERBS = (remove, verb_group("entries", "Individual entries of a stream.", remove_entries))
