"""Offsets of a streaming query: for each stream the last ID that belongs to what is finished.

Owns the text form that lies in checkpoints. It is versioned; every version that was ever written must be read by
today's code, so add versions, never change one. Pure: knows no server and no Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_streams.errors import error, fail
from spark_streams.ids import ZERO, StreamId

VERSION = 1


@dataclass(frozen=True)
class Offsets:
    """A position in each stream. A stream that is not in it has not been begun: its position is 0-0."""

    streams: Mapping[str, StreamId]

    def of(self, stream: str) -> StreamId:
        return self.streams.get(stream, ZERO)

    def to_json(self) -> dict[str, Any]:
        """The form that Spark keeps. Spark compares it as text, so the order of streams is fixed."""
        return {"version": VERSION, "streams": {name: str(self.streams[name]) for name in sorted(self.streams)}}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Offsets:
        version = value.get("version")
        if isinstance(version, int) and version > VERSION:
            fail("OFFSET_VERSION", version=version, known=VERSION)
        try:
            if version != VERSION:
                raise ValueError(f"version {version!r}")
            return cls({str(name): StreamId.parse(text) for name, text in value["streams"].items()})
        except (KeyError, AttributeError, TypeError, ValueError) as cause:
            raise error("OFFSET_MALFORMED", offset=dict(value)) from cause
