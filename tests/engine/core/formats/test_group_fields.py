"""The table of persisted fields of groups and consumers, also with an added field."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from engine.core.formats.rdb import group_fields
from engine.core.formats.rdb.group_fields import CONSUMER, FORMS, GROUP, OURS, V7_0, V7_2, V8_8, Field
from engine.core.formats.rdb.primitives import Reader
from engine.core.streams.group import Consumer, Group
from engine.core.streams.segment import Storage
from engine.core.streams.stream import Stream


def stream_with_group() -> tuple[Stream, Group]:
    """Return a stream and its group with two consumers.

    Every value of the group and of consumer ``c`` differs from that of a new group or consumer.
    """
    stream = Stream(Storage())
    group = stream.groups[b"g"] = Group(7 << 64 | 1, 5)
    group.consumer(b"other", 3)
    consumer, _ = group.consumer(b"c", 1_000)
    consumer.active_time = 900
    return stream, group


def values(fields: Sequence[Field], owner: Group | Consumer) -> list[int]:
    """Return the values of all fields."""
    return [getattr(owner, field.name) for field in fields]


@pytest.mark.parametrize("form", FORMS)
def test_an_encoding_and_the_rest_hold_every_value(form: int) -> None:
    """Values that an RDB encoding lacks are restored from the record of remaining fields or derived by the reader."""
    stream, group = stream_with_group()
    copy = Group(0)
    for name in group.consumers:
        copy.consumer(name, 0)
    for fields, owner, twin in ((GROUP, group, copy), (CONSUMER, group.consumers[b"c"], copy.consumers[b"c"])):
        reader = Reader(group_fields.packed(fields, owner, form))
        group_fields.accept(fields, twin, form, group_fields.load(fields, reader, form), stream)
        assert reader.at == len(reader.data)
    reader = Reader(group_fields.packed_rest(stream, b"g", group, form))
    group_fields.load_rest(reader, b"g", copy, group_fields.REST_VERSION)
    assert reader.at == len(reader.data)
    assert values(CONSUMER, copy.consumers[b"c"]) == values(CONSUMER, group.consumers[b"c"])
    if form >= V7_0:
        assert values(GROUP, copy) == values(GROUP, group)


@pytest.mark.parametrize("name", [b"", b"c"])
def test_an_active_time_needs_an_encoding_that_has_it(name: bytes) -> None:
    """A consumer whose active time differs from its seen time needs the encoding of 7.2, even if its name is empty."""
    stream = Stream(Storage())
    group = stream.groups[b"g"] = Group(0)
    consumer, _ = group.consumer(name, 1_000)
    consumer.active_time = consumer.seen_time
    assert group_fields.needed_form(stream, b"g", group) == V7_0
    consumer.active_time = -1
    assert group_fields.needed_form(stream, b"g", group) == V7_2


def test_a_snapshot_without_the_last_field_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field that an older snapshot lacks is derived from the other fields; a snapshot with too many fields is
    refused.
    """
    stream, group = stream_with_group()
    older = group_fields.plain(GROUP, group)
    row = Field("other", GROUP[1].kind, OURS, lambda _, owner: owner.entries_read + 1, 2, b"OTHER")

    class Later(Group):
        other = -1

    fields = (*GROUP, row)
    later = Later(0)
    group_fields.restore(fields, later, older, stream)
    assert values(fields, later) == [*values(GROUP, group), 6]
    with pytest.raises(ValueError, match="4 values"):
        group_fields.restore(GROUP, group, group_fields.plain(fields, later), stream)
    with pytest.raises(ValueError, match="2 values"):
        group_fields.restore(GROUP, group, older[:2], stream)
    # The record of remaining fields has ``other`` if its value is not the derived one: no encoding has this field.
    monkeypatch.setattr(group_fields, "GROUP", fields)
    del group.consumers[b"c"], group.consumers[b"other"]
    assert group_fields.needed_form(stream, b"g", later) == V7_0
    later.other = 9
    assert group_fields.needed_form(stream, b"g", later) == OURS
    twin = Later(0)
    group_fields.load_rest(Reader(group_fields.packed_rest(stream, b"g", later, V8_8)), b"g", twin, 2)
    assert twin.other == 9
