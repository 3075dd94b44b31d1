"""Offsets of a streaming query: the position in each stream, and the plan of the batch that ends at these positions.

This module owns the text form that is stored in checkpoints. The form is versioned, and the current code must read
every version that a release has written: add versions, never change an existing one.

An offset contains everything that a replay needs to read the same rows in the same partitions, independent of later
options and of the server's state. Version 4 consists of:

* `source`: identity of the checkpoint: the way of consuming, the streams or the pattern, the group, the database number
  unless it is 0, and a random ID of the query.
* `streams`: the last ID read in each stream.
* `added`: number of entries ever added to the stream up to this position, if known. The difference between two offsets
  is the number of entries that a batch must have. If the batch has fewer, data was lost.
* `deleted`: the largest ID known to be deleted, if it is after the position (for a stream in `heads`, after the batch's
  start).
* `cuts`: the ends of the batch's partitions, each with its number of entries if known.
* `tasks`: the number of ranges that each task reads, in the order of the ranges; empty if each range has its own task.
* `jumps` (`begins` in JSON): start of this batch in a stream if it differs from the previous offset. There are three
  reasons: the stream was recreated; the query began at the stream's end, which has moved when the batch is repeated; or
  the query begins at an ID that the stream has not reached yet.
* `lost`: number of entries that the query has noticed as lost so far.
* `firsts`: ID of each stream's first entry when the batch was planned. This ID never decreases, so a smaller ID proves
  that the stream was replaced.
* `heads`: first entry of the batch in each stream whose entries in the batch were not counted. Releases that do not
  know this field ignore it.
* `unread`: the streams that had more entries than the batch when it was planned.
* `starts`: start of a new query in each stream, for an offset that was made without knowing the start of its batch
  (Spark 4.0 and 4.1). The offset's `cuts` and `tasks` then belong to a read of the streams from 0-0, and the batch is a
  part of this read. Such an offset is written as version 5, which is version 4 with this list, in the order of
  `streams`.
* `shared`: for a batch that reads from a shared consumer group, the limits of its tasks instead of positions (see
  `spark_streams.read.shared.task`).

`added`, `firsts` and `unread` have a value for almost every stream. To avoid repeating the names, the text stores them
as lists in the order of `streams`; `unread` is a list of positions in `streams`. `firsts` are given in milliseconds
after `since`, the smallest of them, with `-<sequence number>` if the sequence number is not 0.

`check_identity` verifies that a checkpoint belongs to the query that continues it.

The query must consume in the same way, from the same database and, if shared, from the same group. A query may add and
remove streams. If it has no stream in common with its checkpoint, it counts as another query, because it would read
everything again or wait indefinitely.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from spark_streams.config.read import ReadOptions
from spark_streams.errors import error, fail
from streamclient.config.address import Address
from streamclient.streams.states import Cut
from streamwire.stream_id import ZERO, StreamId

VERSION = 5
#: Version of offsets without `starts`. Earlier releases can read it.
_WITHOUT_STARTS = 4
_NONE: Mapping[str, Any] = {}

#: What may be done with the entries up to an offset. "trim": trim and acknowledge, since every restart begins there or
#: later. "acknowledge": not trim, since this is unknown. "keep": a restart may begin earlier, and other queries trim
#: entries that this group has acknowledged.
Finish = Literal["trim", "acknowledge", "keep"]


@dataclass(frozen=True)
class Source:
    """Identity of a checkpoint. `streams` is empty if `pattern` finds the streams. `query` is an ID of the query.

    `database` is the number of the server's database.
    """

    consume: str
    streams: tuple[str, ...] = ()
    pattern: str | None = None
    group: str | None = None
    query: str = ""
    database: int = 0

    def to_json(self) -> dict[str, Any]:
        form: dict[str, Any] = {"consume": self.consume}
        if self.pattern is None:
            form["streams"] = list(self.streams)
        else:
            form["pattern"] = self.pattern
        if self.group is not None:
            form["group"] = self.group
        form["query"] = self.query
        if self.database:
            form["database"] = self.database
        return form

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Source:
        pattern, group = form.get("pattern"), form.get("group")
        streams = tuple(map(str, form.get("streams", ())))
        database = int(form.get("database", 0))
        return cls(str(form["consume"]), streams, pattern, group, str(form["query"]), database)


@dataclass(frozen=True)
class SharedBatch:
    """A batch of a shared group.

    `number`: the batch's number. It continues from `since`, the number of the last batch of the query's earlier runs.
    `reads`: number of new entries that each partition of a stream may read. `claims`: number of pending entries of
    other consumers that the first partition of a stream may claim.
    """

    number: int
    since: int
    reads: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    claims: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether no partition may read or claim anything."""
        return not self.claims and not any(map(sum, self.reads.values()))


@dataclass(frozen=True)
class Offsets:
    """A position in each stream.

    The module's docstring explains the fields. Streams without a position begin at 0-0.
    """

    streams: Mapping[str, StreamId]
    added: Mapping[str, int] = field(default_factory=dict)
    deleted: Mapping[str, StreamId] = field(default_factory=dict)
    cuts: Mapping[str, tuple[Cut, ...]] = field(default_factory=dict)
    tasks: tuple[int, ...] = ()
    jumps: Mapping[str, StreamId] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)
    firsts: Mapping[str, StreamId] = field(default_factory=dict)
    heads: Mapping[str, StreamId] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()
    shared: SharedBatch | None = None
    source: Source = Source("range")
    starts: Mapping[str, StreamId] | None = None

    def of(self, stream: str) -> StreamId:
        """Return the stream's position."""
        return self.streams.get(stream, ZERO)

    def is_another(self, begin: Offsets, stream: str) -> bool:
        """Return whether the stream was replaced since the earlier offset `begin`, as far as the two offsets show."""
        first, was = self.firsts.get(stream), begin.firsts.get(stream)
        added, counted = self.added.get(stream), begin.added.get(stream)
        return (
            self.of(stream) < begin.of(stream)
            or (first is not None and was is not None and first < was)
            or (added is not None and counted is not None and added < counted)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the form that Spark stores: version 4, or version 5 if the offset has `starts`.

        Streams are sorted, because Spark compares offsets as text.
        """
        version = _WITHOUT_STARTS if self.starts is None else VERSION
        form: dict[str, Any] = {"version": version, "streams": _sorted(self.streams, str)}
        names = list(form["streams"])
        optional: list[tuple[str, Any]] = [
            ("added", _in_order(self.added, names, int)),
            ("deleted", _sorted(self.deleted, str)),
            ("cuts", _sorted(self.cuts, lambda cuts: [[str(upto), count] for upto, count in cuts])),
            ("tasks", list(self.tasks)),
            ("begins", _sorted(self.jumps, str)),
            ("lost", _sorted(self.lost, int)),
            ("firsts", _short_ids(self.firsts, names)),
            ("heads", _sorted(self.heads, str)),
            ("unread", [at for at, name in enumerate(names) if name in self.unread]),
        ]
        form.update((name, value) for name, value in optional if value)
        if self.starts is not None:
            form["starts"] = _in_order(self.starts, names, str)
        form["source"] = self.source.to_json()
        if self.shared is not None:
            form["shared"] = {
                "batch": self.shared.number,
                "since": self.shared.since,
                "take": _sorted(self.shared.reads, list),
                "claim": _sorted(self.shared.claims, int),
            }
        return form

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Offsets:
        """Return the offset of a stored form, of any version. Raises OFFSET_VERSION or OFFSET_MALFORMED."""
        version = form.get("version")
        if isinstance(version, int) and version > VERSION:
            fail("OFFSET_VERSION", version=version, known=VERSION)
        try:
            if version not in (_WITHOUT_STARTS, VERSION):
                raise ValueError(f"version {version!r}")
            streams = _each(form["streams"], StreamId.parse)
            names = sorted(streams)
            shared = form.get("shared")
            return cls(
                streams,
                added=_each(_by_name(form.get("added", _NONE), names), int),
                deleted=_each(form.get("deleted", _NONE), StreamId.parse),
                cuts=_each(form.get("cuts", _NONE), lambda cuts: tuple(map(_cut, cuts))),
                tasks=tuple(map(int, form.get("tasks", ()))),
                jumps=_each(form.get("begins", _NONE), StreamId.parse),
                lost=_each(form.get("lost", _NONE), int),
                firsts=_firsts(form.get("firsts", _NONE), names),
                heads=_each(form.get("heads", _NONE), StreamId.parse),
                unread=frozenset(names[at] for at in form.get("unread", ())),
                source=Source.from_json(form["source"]),
                starts=None if version < VERSION else _each(_by_name(form["starts"], names), StreamId.parse),
                shared=None if shared is None else _shared(shared),
            )
        except (KeyError, IndexError, AttributeError, TypeError, ValueError) as cause:
            raise error("OFFSET_MALFORMED", offset=dict(form)) from cause


def _sorted(values: Mapping[str, Any], text: Callable[[Any], Any]) -> dict[str, Any]:
    return {name: text(values[name]) for name in sorted(values)}


def _short_ids(values: Mapping[str, StreamId], names: Sequence[str]) -> dict[str, Any]:
    """Return IDs as short texts in the order of `names`."""
    if not values:
        return {}
    since = min(entry_id.ms for entry_id in values.values())

    def short(entry_id: StreamId) -> int | str:
        return f"{entry_id.ms - since}-{entry_id.seq}" if entry_id.seq else entry_id.ms - since

    return {"since": since, "ids": _in_order(values, names, short)}


def _firsts(form: Mapping[str, Any], names: Sequence[str]) -> dict[str, StreamId]:
    since = int(form.get("since", 0))
    ids = _each(_by_name(form.get("ids", _NONE), names), lambda short: StreamId.parse(str(short)))
    return {name: StreamId(since + entry_id.ms, entry_id.seq) for name, entry_id in ids.items()}


def _in_order(
    values: Mapping[str, Any], names: Sequence[str], text: Callable[[Any], Any]
) -> list[Any] | dict[str, Any]:
    """Return the values in the order of `names`, with None for a missing value; values by name if `names` does not
    have all of them.
    """
    if not values.keys() <= set(names):
        return _sorted(values, text)
    return [text(values[name]) if name in values else None for name in names] if values else []


def _by_name(form: Any, names: Sequence[str]) -> Mapping[str, Any]:
    if isinstance(form, Mapping):
        return form
    return {name: value for name, value in zip(names, form, strict=True) if value is not None}


def _each(form: Mapping[str, Any], parse: Callable[[Any], Any]) -> dict[str, Any]:
    return {str(name): parse(value) for name, value in form.items()}


def _cut(form: Any) -> Cut:
    upto, count = form
    return StreamId.parse(upto), None if count is None else int(count)


def _shared(form: Mapping[str, Any]) -> SharedBatch:
    reads = _each(form["take"], lambda counts: tuple(map(int, counts)))
    return SharedBatch(int(form["batch"]), int(form["since"]), reads, _each(form["claim"], int))


_log = logging.getLogger("spark_streams")


def source_of(options: ReadOptions, address: Address, begin: Offsets | None = None) -> Source:
    """Return the identity of a query with these options, for its offsets.

    The query's ID is that of the offset `begin`. Without `begin`, the ID is new.
    """
    pattern = options.pattern
    streams = tuple(sorted(options.streams)) if pattern is None else ()
    query = secrets.token_hex(8) if begin is None else begin.source.query
    return Source(options.consume, streams, pattern, options.group, query, address.login.database)


def source_without_begin(options: ReadOptions, address: Address) -> Source:
    """Return the identity of a query without a previous offset.

    The query's ID is derived from its streams, its group and its consumer prefix.
    """
    made = replace(source_of(options, address), query="")
    text = json.dumps([made.to_json(), options.consumer])
    return replace(made, query=hashlib.sha256(text.encode()).hexdigest()[:16])


def same_streams(options: ReadOptions, begin: Offsets) -> bool:
    """Return whether the query selects its streams as the offset records."""
    return (begin.source.pattern, set(begin.source.streams)) == (options.pattern, set(options.streams))


def check_identity(options: ReadOptions, address: Address, begin: Offsets, found: Collection[str] | None) -> None:
    """Refuse a checkpoint of another query, and log which streams were added or removed.

    `found`: the streams that the query reads now; None if its pattern was not resolved yet. Raises CHECKPOINT_MODE,
    CHECKPOINT_DATABASE, CHECKPOINT_GROUP or CHECKPOINT_STREAMS.
    """
    source = begin.source
    if source.consume != options.consume:
        fail("CHECKPOINT_MODE", was=source.consume, now=options.consume)
    if source.database != address.login.database:
        fail("CHECKPOINT_DATABASE", was=source.database, now=address.login.database, address=address)
    if options.shared and source.group != options.group:
        fail("CHECKPOINT_GROUP", was=source.group, now=options.group)
    if found is None or same_streams(options, begin):
        return
    known = set(source.streams if options.shared else begin.streams)
    if known and not known & set(found):
        was, now = source.pattern or _names(known), options.pattern or _names(found)
        # The positions of the checkpoint as a value of startingOffsets.
        positions = json.dumps({stream: f"({after}" for stream, after in sorted(begin.streams.items())})
        fail("CHECKPOINT_STREAMS", was=was, now=now, positions=positions)
    before = known if source.pattern is not None else set(source.streams)
    added, removed = set(found) - before, before - set(found)
    if added:
        _log.warning("The query now also reads %s, which its checkpoint does not name.", _names(added))
    if removed:
        _log.warning("The query no longer reads %s, which its checkpoint names.", _names(removed))


def _names(streams: Iterable[str]) -> str:
    return ", ".join(sorted(streams))
