"""A hash: fields, values and field deadlines, and whether Redis would still store it as a listpack.

A field that is due stays in the hash until it is removed; ``LiveFields`` is a view without due fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from engine.core.keyspace.deadlines import Deadlines
from engine.core.keyspace.elements import Elements

#: The directives that limit a small hash: its number of fields, and the length of its words.
HASH_LIMITS = ("hash-max-listpack-entries", "hash-max-listpack-value")
#: Later than any field deadline.
_NEVER = 1 << 63
#: Number of random draws that may hit a due field before the due fields are filtered out.
_TRIES = 20


class Hash(Elements[bytes]):
    """Fields and values. Set and remove fields only with ``put`` and ``remove``, never with ``[]``."""

    __slots__ = ("_by_time", "big", "deadlines")

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]] | Mapping[bytes, bytes] = (), *, big: bool = False) -> None:
        Elements.__init__(self, pairs)  # faster than super(), which matters for small values
        #: Whether the hash has too many or too long fields for a listpack; a hash never becomes small again.
        self.big = big
        #: Deadlines of fields in milliseconds since the epoch; None if no field has ever had a deadline.
        self.deadlines: dict[bytes, int] | None = None
        self._by_time: Deadlines | None = None

    def put(self, field: bytes, value: bytes, limits: tuple[int, int]) -> bool:
        """Set a field; return whether it is new. ``limits``: maximum fields and maximum word length of a small hash."""
        if self.readings:
            self._disturb()
        new = field not in self
        self[field] = value
        if new and self._names is not None:
            self._names.add(field)
        if not self.big and (len(self) > limits[0] or len(field) > limits[1] or len(value) > limits[1]):
            self.big = True
        return new

    def remove(self, name: bytes) -> bool:
        """Remove a field; return whether it existed."""
        if not super().remove(name):
            return False
        if self.deadlines:
            self.deadlines.pop(name, None)
        return True

    def copy(self) -> Hash:
        """Return an independent copy with the same order."""
        other = Hash(self, big=self.big)
        if self.deadlines is not None:
            other.set_deadlines(dict(self.deadlines))
        return other

    def tables(self) -> list[dict[bytes, Any] | list[Any]]:
        """Return the internal tables, so that the caller can free them in pieces."""
        tables = super().tables()
        if self.deadlines is not None and self._by_time is not None:
            tables += [self.deadlines, *self._by_time.tables()]
        return tables

    # -- expiring fields ----------------------------------------------------------------------------------------------

    def set_deadline(self, field: bytes, deadline: int | None) -> None:
        """Set or remove the deadline of an existing field (milliseconds since the epoch)."""
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
        """Set one deadline (milliseconds since the epoch) for distinct existing fields."""
        if self.readings:
            self._disturb()
        if self._by_time is None or self.deadlines is None:
            self.set_deadlines(dict.fromkeys(fields, deadline))
        else:
            self._by_time.put_all(fields, deadline)

    def set_deadlines(self, deadlines: dict[bytes, int]) -> None:
        """Set the deadlines of existing fields; the hash takes over the dictionary."""
        self.deadlines = deadlines
        self._by_time = Deadlines.of(deadlines)

    def next_deadline(self) -> int:
        """Return a time before which no field expires."""
        deadline = self._by_time.next() if self.deadlines and self._by_time is not None else None
        return _NEVER if deadline is None else deadline

    def is_due(self, field: bytes, now: int) -> bool:
        """Return whether the field is due."""
        return self.deadlines is not None and self.deadlines.get(field, _NEVER) <= now

    def pop_due(self, now: int, most: int) -> tuple[list[bytes], int]:
        """Check up to ``most`` deadlines, the earliest first; return the fields that are due, and the number checked.

        The caller must remove the fields. The number includes deadlines that have been replaced.
        """
        if self._by_time is None:
            return [], 0
        before = len(self._by_time)
        due = list(dict.fromkeys(self._by_time.pop_due(now, most)))
        return due, before - len(self._by_time)


class LiveFields:
    """A view of the fields of a hash that are not due at a given time."""

    __slots__ = ("_now", "fields")

    def __init__(self, fields: Hash, now: int) -> None:
        self.fields = fields
        self._now = now

    def __len__(self) -> int:
        """Return the number of fields, including due ones, as Redis does."""
        return len(self.fields)

    def __contains__(self, name: bytes) -> bool:
        return name in self.fields and not self.fields.is_due(name, self._now)

    def __getitem__(self, name: bytes) -> bytes:
        return self.fields[name]

    def get(self, name: bytes, default: bytes | None = None) -> bytes | None:
        """Return the value of a field; ``default`` if the field is missing or due."""
        return self.fields[name] if name in self else default

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the fields with their values."""
        deadlines, now = self.fields.deadlines or {}, self._now
        return (pair for pair in self.fields.items() if deadlines.get(pair[0], _NEVER) > now)

    def __iter__(self) -> Iterator[bytes]:
        return (name for name, _ in self.items())

    def values(self) -> Iterator[bytes]:
        """Yield the values of the fields."""
        return (value for _, value in self.items())

    def drawn(self, count: int, pick: Callable[[int], int]) -> list[bytes]:
        """Draw names as ``Elements.drawn`` does."""
        for _ in range(_TRIES if count == 1 else 0):
            name = self.fields.names.draw_one(pick)
            if name in self:
                return [name]
        live = Elements[None](dict.fromkeys(self))
        return live.drawn(count, pick) if live else []

    def draws(self, count: int, pick: Callable[[int], int]) -> Iterator[bytes]:
        """Yield names as ``Elements.draws`` does."""
        live = Elements[None](dict.fromkeys(self))
        return live.draws(count, pick) if live else iter(())


#: A hash as seen by read-only commands.
Fields = Hash | LiveFields


def live(fields: Hash, now: int) -> Fields:
    """Return the hash itself, or a view without due fields if a field may be due at ``now``."""
    return fields if not fields.deadlines or fields.next_deadline() > now else LiveFields(fields, now)
