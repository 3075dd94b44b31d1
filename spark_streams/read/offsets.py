"""Offsets of a streaming query: how far each stream is done, and how the batch that ends here was planned.

Owns the text form that lies in checkpoints. It is versioned; every version that was ever written must be read by
today's code, so add versions, never change one. Pure: knows no server and no Spark.

An offset holds whatever a replay needs to read the same rows in the same partitions, whatever the options and the
server say by then. Version 2 of it:

* `streams`: the last ID of each stream that belongs to what is finished.
* `added`: how many entries had ever been added to the stream up to there, where that is known. The difference between
  two offsets is how many entries a batch must have, which is how data that was lost is noticed.
* `deleted`: the largest ID known to be deleted, if it lies ahead of the position.
* `cuts`: where the batch that ends here was cut into partitions, each with its number of entries if known.
* `begins`: where this batch begins in a stream that was made anew, instead of at the former offset; or, behind the
  stream's position, where the first batch is to begin that has entries of it.
* `lost`: how many entries the query has noticed to be lost so far.
* `shared`: instead of positions, what a batch that shares its consumer group may take (see
`spark_streams.read.shared.protocol`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_streams.errors import error, fail
from spark_streams.server.model import Cut
from spark_streams.stream_id import ZERO, StreamId

VERSION = 2
_NONE: Mapping[str, Any] = {}


@dataclass(frozen=True)
class SharedBatch:
    """A batch of a shared group. `number` counts on from `since`; `take` is what each partition may take.

    `claim` is how many entries of other consumers the first partition of a stream may take over.
    """

    number: int
    since: int
    take: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    claim: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Offsets:
    """A position in each stream. A stream that is not in it has not been begun: its position is 0-0."""

    streams: Mapping[str, StreamId]
    added: Mapping[str, int] = field(default_factory=dict)
    deleted: Mapping[str, StreamId] = field(default_factory=dict)
    cuts: Mapping[str, tuple[Cut, ...]] = field(default_factory=dict)
    begins: Mapping[str, StreamId] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)
    shared: SharedBatch | None = None

    def of(self, stream: str) -> StreamId:
        return self.streams.get(stream, ZERO)

    def to_json(self) -> dict[str, Any]:
        """The form that Spark keeps. Spark compares it as text, so the order of streams is fixed."""
        said: dict[str, Any] = {"version": VERSION, "streams": _sorted(self.streams, str)}
        more: list[tuple[str, dict[str, Any]]] = [
            ("added", _sorted(self.added, int)),
            ("deleted", _sorted(self.deleted, str)),
            ("cuts", _sorted(self.cuts, lambda cuts: [[str(upto), count] for upto, count in cuts])),
            ("begins", _sorted(self.begins, str)),
            ("lost", _sorted(self.lost, int)),
        ]
        said.update((name, value) for name, value in more if value)
        if self.shared is not None:
            said["shared"] = {
                "batch": self.shared.number,
                "since": self.shared.since,
                "take": _sorted(self.shared.take, list),
                "claim": _sorted(self.shared.claim, int),
            }
        return said

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Offsets:
        version = value.get("version")
        if isinstance(version, int) and version > VERSION:
            fail("OFFSET_VERSION", version=version, known=VERSION)
        try:
            if version not in (1, 2):
                raise ValueError(f"version {version!r}")
            streams = _ids(value["streams"])
            if version == 1:
                return cls(streams)
            shared = value.get("shared")
            return cls(
                streams,
                added={name: int(count) for name, count in value.get("added", _NONE).items()},
                deleted=_ids(value.get("deleted", _NONE)),
                cuts={name: tuple(map(_cut, cuts)) for name, cuts in value.get("cuts", _NONE).items()},
                begins=_ids(value.get("begins", _NONE)),
                lost={name: int(count) for name, count in value.get("lost", _NONE).items()},
                shared=None if shared is None else _shared(shared),
            )
        except (KeyError, AttributeError, TypeError, ValueError) as cause:
            raise error("OFFSET_MALFORMED", offset=dict(value)) from cause


def _sorted(values: Mapping[str, Any], text: Any) -> dict[str, Any]:
    return {name: text(values[name]) for name in sorted(values)}


def _ids(texts: Mapping[str, str]) -> dict[str, StreamId]:
    return {str(name): StreamId.parse(text) for name, text in texts.items()}


def _cut(said: Any) -> Cut:
    upto, count = said
    return StreamId.parse(upto), None if count is None else int(count)


def _shared(said: Mapping[str, Any]) -> SharedBatch:
    take = {name: tuple(map(int, counts)) for name, counts in said["take"].items()}
    claim = {name: int(count) for name, count in said["claim"].items()}
    return SharedBatch(int(said["batch"]), int(said["since"]), take, claim)
