"""`rm`, `trim`, and `dlq ls, replay, purge`: removal of streams and entries, and dead letters."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from pystreams import measures
from pystreams.commands.arguments import (
    NAME,
    ids_argument,
    limit_option,
    match_limit,
    matching,
    no_more_than,
    stream_argument,
)
from pystreams.commands.verbs import PERIOD, Run, verb, verb_group, write_rows
from pystreams.errors import fail
from pystreams.measures import WORD, Measure, View
from pystreams.streams import dead_letters, inventory, paged_calls, seeks, trimming
from pystreams.streams import group_states as of_groups
from pystreams.streams.dead_letters import Letter, Which
from pystreams.streams.inventory import Stream
from pystreams.values import fields, names, numbers
from streamwire.stream_id import ZERO, StreamId

_STREAMS: View[Stream] = (
    Measure("stream", lambda row: row.name, WORD),
    Measure("entries", lambda row: row.length),
    Measure("groups", lambda row: row.groups),
)


@verb(
    "rm",
    needs=f"+scan +xinfo +xpending +xrange +unlink +time {seeks.NEEDS}",
    changes=True,
    examples=("pystreams rm orders-old", "pystreams rm 'test:*' --dry-run", "pystreams rm 'test:*' --yes"),
)
@click.argument("streams", nargs=-1, required=True, metavar="STREAM...")
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
    entries, groups = sum(each.length for each in found), sum(each.groups for each in found)
    subject = f"the stream {names.shown(found[0].name)}" if len(found) == 1 else numbers.things(len(found), "stream")
    if len(found) > 1:
        run.preview(_STREAMS, found)
    documents = [measures.document(_STREAMS, each) for each in found]
    plan = f"remove {subject} with {numbers.things(entries, 'entry')} and {numbers.things(groups, 'group')}"
    if not run.may(plan, {"entries": entries, "streams": documents}, "streams"):
        return
    problems = trimming.remove_streams(run.connection, found)
    run.warn_of(problems, len(found))
    removed = len(found) - len(problems)
    done = {"removed": removed, "entries": entries, "streams": documents}
    run.done(f"Removed {numbers.things(removed, 'stream')}.", done, "streams", problems)


#: Acts on a page of letters. Returns the number of letters that it processed.
Act = Callable[[list[Letter]], int]

_LETTER: View[Letter] = (
    Measure("id", lambda row: row.id, WORD),
    Measure("stream", lambda row: row.stream, WORD),
    Measure("original", lambda row: row.original, WORD, "original_id", title="ORIGINAL ID"),
    Measure("deliveries", lambda row: row.deliveries),
    Measure("reason", lambda row: row.reason, WORD),
)
_HOLDERS: View[Stream] = (
    Measure("stream", lambda row: row.name, WORD),
    Measure("letters", lambda row: row.length, key="length"),
)


def _document(letter: Letter) -> dict[str, Any]:
    return {**measures.document(_LETTER, letter), "fields": fields.as_json(letter.words)}


@verb(
    "ls",
    needs="+scan +xinfo|stream +xrange +xrevrange +time",
    examples=("pystreams dlq ls", "pystreams dlq ls failed --from-stream orders", "pystreams dlq ls failed --json"),
)
@click.argument("stream", type=NAME, required=False)
@click.option("--from-stream", "origin", type=NAME, help="Only dead letters from this stream.")
@click.option("--reason", type=NAME, metavar="TEXT", help="Only dead letters whose reason contains this text.")
@limit_option(100, "letters")
def ls(run: Run, stream: bytes | None, origin: bytes | None, reason: bytes | None, limit: int) -> None:
    """List the dead letters of STREAM or, without STREAM, the streams with dead letters."""
    if stream is None:
        forbidden: set[bytes] = set()
        found = sorted(dead_letters.holders(run.connection, inventory.scan(run.connection), forbidden=forbidden))
        run.warn_of_forbidden(forbidden)
        streams = list(inventory.read_streams(run.connection, found, memory=False))
        run.show("streams", _HOLDERS, streams, empty="No dead letters.")
        return
    whole = inventory.need(run.connection, stream)
    shown: list[Letter] = []
    for page in dead_letters.find(run.connection, stream, Which((), origin, reason), whole.last_id):
        shown += page
        if limit and len(shown) > limit:
            break
    more = bool(limit) and len(shown) > limit
    shown = shown[:limit] if limit else shown
    if run.out.structured:
        for letter in shown:
            run.out.record(_document(letter))
        return
    write_rows(run.out, _LETTER, shown, empty="No dead letter matches.")
    if more:
        run.out.note(f"Only {limit} letters are shown (--limit). The stream has {whole.length:,} entries.")


def _chosen(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select letters."""
    for option in (
        click.option("--all", "everything", is_flag=True, help="Select all dead letters of the stream."),
        click.option("--older-than", type=PERIOD, help="Minimum age of the dead letters."),
        click.option("--reason", type=NAME, metavar="TEXT", help="Only dead letters whose reason contains this text."),
        click.option("--from-stream", "origin", type=NAME, help="Only dead letters from this stream."),
        ids_argument,
    ):
        function = option(function)
    return function


def _change(
    run: Run,
    stream: bytes,
    chosen: dict[str, Any],
    words: tuple[str, str],
    where: str,
    act: Act,
    most: int | None = None,
) -> None:
    """Ask for confirmation, and process the selected letters in pages. `words`: the verb and its past participle.

    `most`: maximum number of letters, oldest first; None for all.
    """
    older = chosen["older_than"]
    before = None if older is None else StreamId(max(0, run.now - older), 0)
    which = Which(chosen["ids"], chosen["origin"], chosen["reason"], before)
    if which.is_all != chosen["everything"]:
        raise click.UsageError("Select letters by ID, --from-stream, --reason or --older-than; or use --all alone.")
    # Newer letters are excluded: entries that this run replays may fail again meanwhile.
    upto = inventory.need(run.connection, stream).last_id
    shown: list[bytes] = []
    for page in run.out.progress("dead letters", dead_letters.find(run.connection, stream, which, upto), amount=len):
        shown += [letter.id for letter in page][: None if most is None else most - len(shown)]
        if len(shown) == most:
            break
    count = len(shown)
    if not count:
        run.done("No dead letter matches.", {words[1]: 0})
        return
    if not run.may(
        f"{words[0]} {numbers.things(count, 'dead letter')} of {names.shown(stream)}{where}", {"letters": count}
    ):
        return
    done = left = 0
    found = dead_letters.find(run.connection, stream, replace(which, ids=tuple(shown)), upto)
    for page in run.out.progress(words[0], found, count, len):
        done += act(page)
        left += dead_letters.without_fields(page)
    if left and words[0] == "replay":
        run.out.warn(dead_letters.left_alone(left))
    run.done(
        f"{words[1].capitalize()} {numbers.things(done, 'dead letter')} of {names.shown(stream)}{where}.",
        {words[1]: done},
    )


@verb(
    "replay",
    needs="+xinfo|stream +xrange +xadd +xdel +type +watch +unwatch +multi +exec +time",
    changes=True,
    examples=(
        "pystreams dlq replay failed --all --dry-run",
        "pystreams dlq replay failed 1526919030474-0 --yes",
        "pystreams dlq replay failed --from-stream orders --to orders-fixed",
        "pystreams dlq replay failed --reason timeout --limit 1000 --rate 100 --yes",
    ),
)
@stream_argument
@_chosen
@click.option("--to", type=NAME, metavar="STREAM", help="Target stream, instead of the original streams.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Maximum number of dead letters, oldest first.")
@click.option("--rate", type=click.IntRange(1), metavar="N", help="Maximum number of dead letters per second.")
def replay(run: Run, stream: bytes, to: bytes | None, limit: int | None, rate: int | None, **chosen: Any) -> None:
    """Add the original entries of dead letters to their streams again, with new IDs, and remove the letters.

    Each letter is replayed and removed atomically, unless STREAM and the target are in different slots of a cluster.
    Letters without the fields of an original entry are not replayed.
    """

    def act(page: list[Letter]) -> int:
        done = 0
        for some in paged_calls.pages(page, rate or len(page)):
            done += dead_letters.put_back(run.connection, stream, some, to)
            if rate is not None:
                time.sleep(len(some) / rate)
        return done

    where = " to the original streams" if to is None else f" to {names.shown(to)}"
    _change(run, stream, chosen, ("replay", "replayed"), where, act, limit)


@verb(
    "purge",
    needs="+xinfo|stream +xrange +xdel +time",
    changes=True,
    examples=("pystreams dlq purge failed --older-than 30d", "pystreams dlq purge failed --all --yes"),
)
@stream_argument
@_chosen
def purge(run: Run, stream: bytes, **chosen: Any) -> None:
    """Remove dead letters permanently."""

    def act(page: list[Letter]) -> int:
        return dead_letters.remove(run.connection, stream, page)

    _change(run, stream, chosen, ("remove", "removed"), "", act)


@verb(
    "trim",
    needs="+xinfo +xpending +xrange +xrevrange +xtrim +time",
    changes=True,
    examples=(
        "pystreams trim orders --acked --dry-run",
        "pystreams trim orders --maxlen 1000000",
        "pystreams trim orders --older-than 7d --yes",
    ),
)
@stream_argument
@click.option("--acked", is_flag=True, help="Remove entries that every group has read and acknowledged.")
@click.option("--maxlen", type=click.IntRange(0), metavar="N", help="Remove all but the last N entries.")
@click.option("--older-than", type=PERIOD, help="Minimum age of the entries to remove.")
def trim(run: Run, stream: bytes, acked: bool, maxlen: int | None, older_than: int | None) -> None:
    """Remove the first entries of a stream: entries that no group needs, all but the last N, or old entries.

    Entries are removed in steps of at most ten thousand. --maxlen and --older-than also remove entries that groups have
    not read, with a warning.
    """
    if acked + (maxlen is not None) + (older_than is not None) != 1:
        raise click.UsageError("Give one of --acked, --maxlen and --older-than.")
    whole = inventory.need(run.connection, stream)
    needed = trimming.first_needed(run.connection, stream)
    limit: tuple[str, str | int]
    if maxlen is not None:
        limit, count, exact = ("MAXLEN", maxlen), max(0, whole.length - maxlen), True
    else:
        if acked and needed is None:
            fail("NO_GROUPS", stream=names.shown(stream))
        at = needed or ZERO
        if older_than is not None:
            at = StreamId(max(0, run.now - older_than), 0)
        limit = ("MINID", str(at))
        count, exact = trimming.about_before(run.connection, whole, at)
    if needed is not None and not acked and trimming.may_remove_needed(run.connection, whole, limit, count, needed):
        run.out.warn(f"Groups still need entries from {needed} on: some of them would be removed.")
    shown = numbers.count(count, exact=exact)
    plan = (
        f"remove {shown} of {numbers.things(whole.length, 'entry')} from {names.shown(stream)} ({limit[0]} {limit[1]})"
    )
    if not run.may(plan, {"entries": count, "exact": exact, limit[0].lower(): limit[1]}):
        return
    before = None if limit[0] == "MAXLEN" else StreamId.parse(str(limit[1]))
    if acked and before is not None:
        before = trimming.still_unneeded(run.connection, stream, before)
    steps = trimming.trim(run.connection, whole, before, count)
    removed = sum(run.out.progress("removed", steps, count or None, int))
    run.done(f"Removed {numbers.things(removed, 'entry')} from {names.shown(stream)}.", {"removed": removed})


VERBS = (
    trim,
    verb_group("dlq", "Dead letters in streams of the option deadLetterStream.", ls, replay, purge),
    remove,
)
