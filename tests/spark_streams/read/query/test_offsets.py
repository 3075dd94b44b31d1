"""Offsets in the checkpoint: every version can be read, and invalid offsets are rejected."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_streams.errors import StreamError
from spark_streams.read.query.offsets import VERSION, Offsets, SharedBatch, Source
from streamwire.stream_id import ZERO, StreamId
from tests.streamwire.test_stream_id import IDS, unhurried

SOURCE = {"consume": "range", "streams": ["a"], "query": "8f2e6d0c4b1a9375"}
GOLDEN = sorted(Path(__file__).parent.glob("offsets_v*.json"))


@unhurried
@given(st.dictionaries(st.text(), st.tuples(IDS, st.none() | IDS, st.none() | st.integers(0), st.booleans())))
def test_every_field_of_every_stream_survives(
    streams: dict[str, tuple[StreamId, StreamId | None, int | None, bool]],
) -> None:
    """All fields of all streams are equal after a round trip through JSON, and equal offsets have the same text."""
    offsets = Offsets(
        {name: at for name, (at, _, _, _) in streams.items()},
        added={name: added for name, (_, _, added, _) in streams.items() if added is not None},
        firsts={name: first for name, (_, first, _, _) in streams.items() if first is not None},
        heads={name: first for name, (_, first, _, _) in streams.items() if first is not None},
        unread=frozenset(name for name, (_, _, _, unread) in streams.items() if unread),
    )
    text = json.dumps(offsets.to_json())
    assert Offsets.from_json(json.loads(text)) == offsets
    assert json.dumps(replace(offsets, streams=dict(reversed(offsets.streams.items()))).to_json()) == text


FLIGHTS = {"flights": StreamId(1795163372693, 12), "weather": ZERO}
MEANT = {
    "offsets_v4": Offsets(
        FLIGHTS,
        added={"flights": 336776, "weather": 0},
        tasks=(2, 1),
        firsts={"flights": StreamId(1795163000000, 0)},
        unread=frozenset({"flights"}),
        source=Source("range", (), "*", "g", "8f2e6d0c4b1a9375"),
    ),
    "offsets_v4_heads": Offsets(
        FLIGHTS,
        deleted={"flights": StreamId(1795163372500, 0)},
        heads={"flights": StreamId(1795163371000, 3)},
        source=Source("range", (), "*", None, "8f2e6d0c4b1a9375"),
    ),
    "offsets_v5": Offsets(
        FLIGHTS,
        added={"flights": 336776, "weather": 0},
        cuts={"flights": ((StreamId(1795163372000, 0), None), (StreamId(1795163372693, 12), 500))},
        tasks=(2, 1),
        firsts={"flights": StreamId(1795163000000, 0)},
        source=Source("range", (), "*", "g", "8f2e6d0c4b1a9375"),
        starts={"flights": StreamId(1795163000001, 0), "weather": ZERO},
    ),
    "offsets_v4_shared": Offsets(
        {},
        shared=SharedBatch(8, 5, reads={"flights": (500, 500), "weather": (0,)}, claims={"weather": 12}),
        source=Source("shared", ("flights", "weather"), None, "g", "8f2e6d0c4b1a9375"),
    ),
}
MEANT["offsets_v5_shared"] = replace(MEANT["offsets_v4_shared"], starts={"weather": ZERO})


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_offsets_of_every_version_are_read(path: Path) -> None:
    """The golden file of each version of a release can be read, and is written identically."""
    golden = json.loads(path.read_text())
    assert Offsets.from_json(golden) == MEANT[path.stem]
    assert MEANT[path.stem].to_json() == golden


def test_every_version_has_a_golden_file() -> None:
    """Every version from that of the first release on has a golden file."""
    assert {json.loads(path.read_text())["version"] for path in GOLDEN} == set(range(4, VERSION + 1))
    assert {path.stem for path in GOLDEN} == set(MEANT)


@pytest.mark.parametrize(
    ("offset", "condition"),
    [
        ({"version": VERSION + 1, "streams": {}}, "OFFSET_VERSION"),
        ({}, "OFFSET_MALFORMED"),
        ({"version": 3, "streams": {}, "source": SOURCE}, "OFFSET_MALFORMED"),
        ({"version": 4, "source": SOURCE}, "OFFSET_MALFORMED"),
        ({"version": 4, "streams": {}}, "OFFSET_MALFORMED"),
        ({"version": 4, "streams": {}, "source": {"query": "1"}}, "OFFSET_MALFORMED"),
        ({"version": 4, "streams": [], "source": SOURCE}, "OFFSET_MALFORMED"),
        ({"version": 4, "streams": {"a": "x"}, "source": SOURCE}, "OFFSET_MALFORMED"),
        ({"version": 4, "streams": {}, "cuts": {"a": ["1-1"]}, "source": SOURCE}, "OFFSET_MALFORMED"),
        ({"version": 4, "streams": {}, "shared": {}, "source": SOURCE}, "OFFSET_MALFORMED"),
        ({"version": 4, "streams": {"a": "1-1"}, "added": [1, 2], "source": SOURCE}, "OFFSET_MALFORMED"),
        ({"version": 4, "streams": {"a": "1-1"}, "unread": [1], "source": SOURCE}, "OFFSET_MALFORMED"),
    ],
)
def test_invalid_offsets_are_rejected(offset: dict[str, object], condition: str) -> None:
    """An offset with an unknown version or a malformed field is an error."""
    with pytest.raises(StreamError) as caught:
        Offsets.from_json(offset)
    assert caught.value.condition == condition
