"""Frozen copies of large hashes, sets and sorted sets at one moment, to be written to a file.

A frozen value is read-only, and supports only the methods that are needed to write it. It consists of parts of a few
thousand elements, which ``Freezing`` copies one after the other. If the source is about to change, the remaining parts
are copied first. So freezing delays a command only if the command changes the value, and even then for less time than a
mutable copy takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from engine.core.keyspace.elements import Elements, Reading
from engine.core.keyspace.hash import Hash
from engine.core.keyspace.members import Members
from engine.core.keyspace.order import Block, Order
from engine.core.keyspace.sorted_set import SortedSet

#: Minimum number of elements of values that are frozen instead of copied.
LARGE = 5000
#: Number of elements that are copied or freed at once.
AT_ONCE = 5000


class FrozenHash(Hash):
    """A hash whose fields and values are in parts; the dictionary itself stays empty. Deadlines are copied at once."""

    __slots__ = ("_fields", "_values")

    def __init__(self, fields: Hash) -> None:
        super().__init__(big=fields.big)
        self._fields: list[list[bytes]] = []
        self._values: list[list[bytes]] = []
        if fields.deadlines is not None:
            self.deadlines = fields.deadlines.copy()

    def copying(self, fields: Hash) -> Iterator[None]:
        """Copy the fields, one part per step."""
        names, values = iter(fields), iter(fields.values())
        while part := list(islice(names, AT_ONCE)):
            self._fields.append(part)
            self._values.append(list(islice(values, AT_ONCE)))
            yield

    def __len__(self) -> int:
        return sum(map(len, self._fields))

    def __iter__(self) -> Iterator[bytes]:
        return chain.from_iterable(self._fields)

    def keys(self) -> Iterator[bytes]:  # type: ignore[override]  # (A view is not needed.)
        return iter(self)

    def values(self) -> Iterator[bytes]:  # type: ignore[override]
        return chain.from_iterable(self._values)

    def items(self) -> Iterator[tuple[bytes, bytes]]:  # type: ignore[override]
        return zip(self, self.values(), strict=True)

    def tables(self) -> list[dict[bytes, Any] | list[Any]]:
        return [*self._fields, *self._values, self.deadlines or {}]


class FrozenMembers(Members):
    """A set whose members are in parts; the dictionary itself stays empty."""

    __slots__ = ("_members",)

    def __init__(self, members: Members) -> None:
        super().__init__(form=members.form)
        self._members: list[list[bytes]] = []

    def copying(self, members: Members) -> Iterator[None]:
        """Copy the members, one part per step."""
        names = iter(members)
        while part := list(islice(names, AT_ONCE)):
            self._members.append(part)
            yield

    def __len__(self) -> int:
        return sum(map(len, self._members))

    def __iter__(self) -> Iterator[bytes]:
        return chain.from_iterable(self._members)

    def tables(self) -> list[dict[bytes, Any] | list[Any]]:
        return [*self._members]


class FrozenSortedSet(SortedSet):
    """A sorted set that consists only of its pairs in order."""

    __slots__ = ()

    def __init__(self, members: SortedSet) -> None:
        super().__init__(big=members.big)

    def copying(self, members: SortedSet) -> Iterator[None]:
        """Copy the pairs, a few blocks per step."""
        blocks: list[Block] = []
        size = 0
        for scores, names in members.order.blocks:
            blocks.append((scores[:], names[:]))
            size += len(names)
            if size >= AT_ONCE:
                size = 0
                yield
        self._order = Order.of_blocks(blocks)

    def __len__(self) -> int:
        return len(self.order)

    def tables(self) -> list[dict[bytes, Any] | list[Any]]:
        return [members for _, members in self.order.blocks]


class Freezing(Reading):
    """Freezes a large value in steps. After the last step, ``value`` equals the source as of the first step."""

    __slots__ = ("_copying", "value")

    def __init__(self, source: Elements[Any]) -> None:
        super().__init__(source)
        made: FrozenHash | FrozenMembers | FrozenSortedSet
        if isinstance(source, Hash):
            made = FrozenHash(source)
            self._copying = made.copying(source)
        elif isinstance(source, Members):
            made = FrozenMembers(source)
            self._copying = made.copying(source)
        else:
            assert isinstance(source, SortedSet)
            made = FrozenSortedSet(source)
            self._copying = made.copying(source)
        self.value: Elements[Any] = made

    def step(self) -> bool:
        """Copy a few thousand elements; return whether the copy is complete."""
        return next(self._copying, _OVER) is _OVER

    def disturb(self) -> None:
        """Copy the remaining parts, because the source is about to change."""
        for _ in self._copying:
            pass


_OVER = object()


def empty_in_steps(value: Any) -> None:
    """Empty a frozen value in small steps, between which other threads can run. Other values are ignored."""
    if not isinstance(value, FrozenHash | FrozenMembers | FrozenSortedSet):
        return
    for table in value.tables():
        while table:
            if isinstance(table, list):
                table.clear()
            else:
                for _ in range(min(len(table), AT_ONCE)):
                    table.popitem()
