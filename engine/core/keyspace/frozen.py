"""Large hashes, sets and sorted sets as they are at one moment, for whoever writes them down.

What is frozen is only read, by the methods here; it consists of parts of some thousand elements, which are copied one
after the other (:class:`Freezing`). Whoever changes the value before the last one is copied has the rest copied first:
so freezing a value that nobody touches never takes long, and any other takes less than a copy that can be changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from engine.core.keyspace.elements import Elements, Reading
from engine.core.keyspace.hash import Hash
from engine.core.keyspace.members import Members
from engine.core.keyspace.sorted_set import Order, Pair, SortedSet

#: From so many elements on a value is frozen, not copied.
LARGE = 5000
#: Elements that are copied together, and let go together.
AT_ONCE = 5000


class FrozenHash(Hash):
    """A hash. Its fields and their values lie in parts; the dictionary that this is itself stays empty."""

    __slots__ = ("_fields", "_values")

    def __init__(self, fields: Hash) -> None:
        super().__init__(big=fields.big)
        self._fields: list[list[bytes]] = []
        self._values: list[list[bytes]] = []
        if fields.deadlines is not None:
            self.deadlines = fields.deadlines.copy()

    def copying(self, fields: Hash) -> Iterator[None]:
        """Copies the fields, a part for each step."""
        names, values = iter(fields), iter(fields.values())
        while part := list(islice(names, AT_ONCE)):
            self._fields.append(part)
            self._values.append(list(islice(values, AT_ONCE)))
            yield

    def __len__(self) -> int:
        return sum(map(len, self._fields))

    def __iter__(self) -> Iterator[bytes]:
        return chain.from_iterable(self._fields)

    def keys(self) -> Iterator[bytes]:  # type: ignore[override]  # (nobody needs a view)
        return iter(self)

    def values(self) -> Iterator[bytes]:  # type: ignore[override]
        return chain.from_iterable(self._values)

    def items(self) -> Iterator[tuple[bytes, bytes]]:  # type: ignore[override]
        return zip(self, self.values(), strict=True)

    def tables(self) -> list[dict[bytes, Any] | list[Any]]:
        return [*self._fields, *self._values, self.deadlines or {}]


class FrozenMembers(Members):
    """A set. Its members lie in parts; the dictionary that this is itself stays empty."""

    __slots__ = ("_members",)

    def __init__(self, members: Members) -> None:
        super().__init__(form=members.form)
        self._members: list[list[bytes]] = []

    def copying(self, members: Members) -> Iterator[None]:
        """Copies the members, a part for each step."""
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
    """A sorted set: its pairs in order, and nothing else."""

    __slots__ = ()

    def __init__(self, members: SortedSet) -> None:
        super().__init__(big=members.big)

    def copying(self, members: SortedSet) -> Iterator[None]:
        """Copies the pairs, some blocks for each step."""
        blocks: list[list[Pair]] = []
        size = 0
        for block in members.order.blocks():
            blocks.append(block[:])
            size += len(block)
            if size >= AT_ONCE:
                size = 0
                yield
        self._order = Order.of_blocks(blocks)

    def __len__(self) -> int:
        return len(self.order)

    def tables(self) -> list[dict[bytes, Any] | list[Any]]:
        return list(self.order.blocks())


class Freezing(Reading):
    """A large value becomes a frozen one, :attr:`value`, in steps: the value of the moment at which this was made."""

    __slots__ = ("_copying", "value")

    def __init__(self, source: Elements[Any]) -> None:
        super().__init__([source])
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
        """Copy some thousand elements; whether there were none left."""
        return next(self._copying, _OVER) is _OVER

    def disturb(self) -> None:
        """The source is about to change: what is left is copied now."""
        super().disturb()
        for _ in self._copying:
            pass


_OVER = object()


def let_go(value: Any) -> None:
    """Empty what was frozen, in small steps, between which other threads may run."""
    if not isinstance(value, FrozenHash | FrozenMembers | FrozenSortedSet):
        return
    for table in value.tables():
        while table:
            if isinstance(table, list):
                table.clear()
            else:
                for _ in range(min(len(table), AT_ONCE)):
                    table.popitem()
