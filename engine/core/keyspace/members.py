"""A set: its members, and how Redis would keep them: as numbers, as a listpack, or as a table.

A set of numbers shows them in ascending order, a small one of other words in the order of insertion. A set never
becomes small again.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from engine.core.keyspace.elements import Elements
from engine.core.protocol.args import as_number
from engine.settings.config import Config


class Form(IntEnum):
    """How a set is kept; snapshots have the number."""

    NUMBERS = 0
    SMALL = 1
    TABLE = 2


class SetLimits(NamedTuple):
    """How large a set may be for its form."""

    #: The most members of a set of numbers.
    numbers: int
    #: The most members of a small set of other words.
    entries: int
    #: The longest member of that, in bytes.
    length: int


def set_limits(config: Config) -> SetLimits:
    """The limits that the configuration sets."""
    integer = config.integer
    return SetLimits(
        integer("set-max-intset-entries"), integer("set-max-listpack-entries"), integer("set-max-listpack-value")
    )


class Members(Elements[None]):
    """A set's members. They are set and removed with :meth:`put` and :meth:`remove` alone, never with ``[]``."""

    __slots__ = ("form",)

    def __init__(self, members: Iterable[bytes] = (), form: Form = Form.NUMBERS) -> None:
        super().__init__(dict.fromkeys(members))
        self.form = form

    def put(self, member: bytes, limits: SetLimits) -> bool:
        """Add a member; whether it is new."""
        if not self._place(member, None):
            return False
        if self.form is not Form.TABLE:
            self._follow(member, limits)
        return True

    def expect(self, count: int, limits: SetLimits) -> None:
        """Let a new set have the form of one with ``count`` members at least, as Redis does before it adds them."""
        if count > limits.numbers:
            self.form = Form.SMALL if count <= limits.entries else Form.TABLE

    def _follow(self, member: bytes, limits: SetLimits) -> None:
        if self.form is Form.NUMBERS:
            if as_number(member) is not None:
                if len(self) > limits.numbers:
                    self.form = Form.TABLE
                return
            fits = len(self) <= limits.entries and max(map(len, self)) <= limits.length
            if fits:
                self._put_in_order()
        else:
            fits = len(self) <= limits.entries and len(member) <= limits.length
        self.form = Form.SMALL if fits else Form.TABLE

    def _put_in_order(self) -> None:
        """The newest member is no number: the numbers stay in ascending order before it."""
        *numbers, newest = self
        super().clear()
        super().update(dict.fromkeys([*sorted(numbers, key=int), newest]))

    @property
    def is_table(self) -> bool:
        """Whether it is so large that Redis keeps a table, which is walked in parts."""
        return self.form is Form.TABLE

    def shown(self) -> list[bytes]:
        """The members in the order in which a client sees them."""
        return sorted(self, key=int) if self.form is Form.NUMBERS else list(self)

    def copy(self) -> Members:
        """A set of its own with the same members, in the same order."""
        made = Members(form=self.form)
        # (Of a dictionary from which nothing was removed this copies the table as it is.)
        made.update(self)
        return made
