"""A hash: fields and their values, when fields expire, and whether Redis would still keep them as a listpack.

A field whose time has come is still there until somebody removes it; :class:`LiveFields` shows a hash without those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from engine.core.keyspace.deadlines import Deadlines
from engine.core.keyspace.elements import Elements

#: Later than any field expires.
_NEVER = 1 << 63
#: So often one field is drawn out of all, until it is one that is not due.
_TRIES = 20


class Hash(Elements[bytes]):
    """Fields and values. Fields are set and removed with :meth:`put` and :meth:`remove` alone, never with ``[]``."""

    __slots__ = ("_by_time", "big", "deadlines")

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]] | Mapping[bytes, bytes] = (), *, big: bool = False) -> None:
        super().__init__(pairs)
        #: Too many fields, or too long ones, for a listpack; a hash never becomes small again.
        self.big = big
        #: When fields expire, in milliseconds since the epoch; None where no field ever had a deadline.
        self.deadlines: dict[bytes, int] | None = None
        self._by_time: Deadlines | None = None

    def put(self, field: bytes, value: bytes, limits: tuple[int, int]) -> bool:
        """Set a field; whether it is new. ``limits`` are the most fields and the longest word of a small hash."""
        new = self._place(field, value)
        if not self.big and (len(self) > limits[0] or len(field) > limits[1] or len(value) > limits[1]):
            self.big = True
        return new

    def remove(self, name: bytes) -> bool:
        """Drop a field; whether it was there."""
        if not super().remove(name):
            return False
        if self.deadlines:
            self.deadlines.pop(name, None)
        return True

    def copy(self) -> Hash:
        """A hash of its own with the same fields, in the same order."""
        other = Hash(self, big=self.big)
        if self.deadlines is not None:
            other.set_deadlines(dict(self.deadlines))
        return other

    def tables(self) -> list[dict[bytes, Any] | list[Any]]:
        """What it consists of, for whoever takes it apart."""
        tables = super().tables()
        if self.deadlines is not None and self._by_time is not None:
            tables += [self.deadlines, *self._by_time.tables()]
        return tables

    # -- fields that expire -------------------------------------------------------------------------------------------

    def set_deadline(self, field: bytes, deadline: int | None) -> None:
        """Let an existing field expire at ``deadline`` (milliseconds since the epoch), or never."""
        if deadline is None and not self.deadlines:
            return
        if self.readings:
            self._disturb()
        if self._by_time is None or self.deadlines is None:
            self.set_deadlines({})
            self.set_deadline(field, deadline)
        elif deadline is None:
            self.deadlines.pop(field, None)
        else:
            self._by_time.put(field, deadline)

    def set_one_deadline(self, fields: list[bytes], deadline: int) -> None:
        """Let existing fields, all of which are different, expire at ``deadline`` (milliseconds since the epoch)."""
        if self.readings:
            self._disturb()
        if self._by_time is None or self.deadlines is None:
            self.set_deadlines(dict.fromkeys(fields, deadline))
        else:
            self._by_time.put_all(fields, deadline)

    def set_deadlines(self, deadlines: dict[bytes, int]) -> None:
        """Let fields expire, all of which are there; the hash keeps the dictionary."""
        self.deadlines = deadlines
        self._by_time = Deadlines.of(deadlines)

    def next_deadline(self) -> int:
        """A moment before which no field expires."""
        deadline = self._by_time.next() if self.deadlines and self._by_time is not None else None
        return _NEVER if deadline is None else deadline

    def is_due(self, field: bytes, now: int) -> bool:
        """Whether the field's time has come."""
        return self.deadlines is not None and self.deadlines.get(field, _NEVER) <= now

    def take_due(self, now: int, most: int) -> tuple[list[bytes], int]:
        """Fields whose time has come, out of the ``most`` earliest deadlines, which the caller removes; and how many
        deadlines were looked at, those that were replaced among them.
        """
        if self._by_time is None:
            return [], 0
        before = len(self._by_time)
        due = list(dict.fromkeys(self._by_time.take_due(now, most)))
        return due, before - len(self._by_time)


class LiveFields:
    """What a hash shows at a moment: all its fields but those whose time has come."""

    __slots__ = ("_now", "fields")

    def __init__(self, fields: Hash, now: int) -> None:
        self.fields = fields
        self._now = now

    def __len__(self) -> int:
        """How many fields there are, due ones among them, as Redis counts."""
        return len(self.fields)

    def __contains__(self, name: bytes) -> bool:
        return name in self.fields and not self.fields.is_due(name, self._now)

    def __getitem__(self, name: bytes) -> bytes:
        return self.fields[name]

    def get(self, name: bytes, default: bytes | None = None) -> bytes | None:
        """The value of a field."""
        return self.fields[name] if name in self else default

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """The fields with their values."""
        deadlines, now = self.fields.deadlines or {}, self._now
        return (pair for pair in self.fields.items() if deadlines.get(pair[0], _NEVER) > now)

    def __iter__(self) -> Iterator[bytes]:
        return (name for name, _ in self.items())

    def values(self) -> Iterator[bytes]:
        """The values of the fields."""
        return (value for _, value in self.items())

    def drawn(self, count: int, pick: Callable[[int], int]) -> list[bytes]:
        """As :meth:`Elements.drawn`."""
        for _ in range(_TRIES if count == 1 else 0):
            name = self.fields.names.one(pick)
            if name in self:
                return [name]
        live = Elements[None](dict.fromkeys(self))
        return live.drawn(count, pick) if live else []


#: A hash as a command that reads sees it.
Fields = Hash | LiveFields


def live(fields: Hash, now: int) -> Fields:
    """The hash itself, or what it shows at ``now`` where fields of it are due."""
    return fields if fields.next_deadline() > now else LiveFields(fields, now)
