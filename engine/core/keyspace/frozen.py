"""Large hashes, sets and sorted sets as they are at one moment, for whoever writes them down.

A copy that can be changed costs a look at each element. Here the table of elements is copied as it lies in memory, gaps
included, and nothing is made for changes, walks and draws: what is frozen is only read, by the methods here.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Any

from engine.core.keyspace.elements import Elements
from engine.core.keyspace.hash import Hash
from engine.core.keyspace.members import Members
from engine.core.keyspace.sorted_set import SortedSet

#: From so many elements on a value is frozen, not copied.
LARGE = 5000
#: Elements that are let go together.
_FREED_AT_ONCE = 2000


class FrozenHash(Hash):
    """A hash. ``table`` has its fields and values; the dictionary that this is itself stays empty."""

    __slots__ = ("table",)

    def __init__(self, fields: Hash) -> None:
        super().__init__(big=fields.big)
        self.table = dict.copy(fields)
        if fields.deadlines is not None:
            self.deadlines = fields.deadlines.copy()

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.table)

    def keys(self) -> KeysView[bytes]:  # type: ignore[override]  # (a view of a dictionary that is another one)
        return self.table.keys()

    def values(self) -> ValuesView[bytes]:  # type: ignore[override]
        return self.table.values()

    def items(self) -> ItemsView[bytes, bytes]:  # type: ignore[override]
        return self.table.items()

    def tables(self) -> list[dict[bytes, Any] | list[Any]]:
        return [self.table, self.deadlines or {}]


class FrozenMembers(Members):
    """A set. ``table`` has its members; the dictionary that this is itself stays empty."""

    __slots__ = ("table",)

    def __init__(self, members: Members) -> None:
        super().__init__(form=members.form)
        self.table = dict.copy(members)

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.table)

    def tables(self) -> list[dict[bytes, Any] | list[Any]]:
        return [self.table]


class FrozenSortedSet(SortedSet):
    """A sorted set: its pairs in order, and nothing else."""

    __slots__ = ()

    def __init__(self, members: SortedSet) -> None:
        super().__init__(big=members.big)
        self._order = members.order.copy()

    def __len__(self) -> int:
        return len(self.order)

    def tables(self) -> list[dict[bytes, Any] | list[Any]]:
        return list(self.order.blocks())


def frozen(value: Elements[Any]) -> Elements[Any]:
    """The value as it is now."""
    if len(value) >= LARGE:
        if isinstance(value, Hash):
            return FrozenHash(value)
        if isinstance(value, Members):
            return FrozenMembers(value)
        if isinstance(value, SortedSet):
            return FrozenSortedSet(value)
    copy: Elements[Any] = value.copy()  # type: ignore[assignment]
    return copy


def let_go(value: Any) -> None:
    """Empty what was frozen, in small steps, between which other threads may run."""
    if not isinstance(value, FrozenHash | FrozenMembers | FrozenSortedSet):
        return
    for table in value.tables():
        while table:
            if isinstance(table, list):
                table.clear()
            else:
                for _ in range(min(len(table), _FREED_AT_ONCE)):
                    table.popitem()
