"""A set: its members, and its encoding in Redis (integers, a listpack, or a table).

Clients see a set of integers in ascending order, and a small set with any other member in the order of insertion. As in
Redis, a set that has become a table stays a table.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from engine.core.keyspace.elements import Elements
from engine.core.protocol.args import as_number
from engine.settings.config import Config


class Form(IntEnum):
    """A set's encoding. Snapshots store these numbers."""

    NUMBERS = 0
    SMALL = 1
    TABLE = 2


#: For fast access: looking up a member of an enumeration is slow.
_TABLE = Form.TABLE


class SetLimits(NamedTuple):
    """Size limits of a set's encodings."""

    #: Maximum number of members of an intset.
    numbers: int
    #: Maximum number of members of a listpack.
    entries: int
    #: Maximum length of a member in a listpack, in bytes.
    length: int


#: The directives that set these limits, in the order of the fields.
SET_LIMITS = ("set-max-intset-entries", "set-max-listpack-entries", "set-max-listpack-value")


def set_limits(config: Config) -> SetLimits:
    """Return the configured limits."""
    return SetLimits(*map(config.integer, SET_LIMITS))


class Members(Elements[None]):
    """A set's members. Add and remove members only with ``put`` and ``remove``, never with ``[]``."""

    __slots__ = ("form",)

    def __init__(self, members: Iterable[bytes] = (), form: Form = Form.NUMBERS) -> None:
        super().__init__(dict.fromkeys(members))
        self.form = form

    def put(self, member: bytes, limits: SetLimits) -> bool:
        """Add a member; return whether it is new."""
        if member in self:
            return False
        if self.readings:
            self._disturb()
        self[member] = None
        if self._names is not None:
            self._names.add(member)
        if self.form is not _TABLE:
            self._follow(member, limits)
        return True

    def expect(self, count: int, limits: SetLimits) -> None:
        """Choose the encoding of an empty set to which ``count`` members will be added, as Redis does."""
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
        """Sort the integers that precede the newest member, which is the first member that is not an integer."""
        *numbers, newest = self
        super().clear()
        super().update(dict.fromkeys([*sorted(numbers, key=int), newest]))

    @property
    def is_table(self) -> bool:
        """Whether Redis would store the set as a table, which is iterated in parts."""
        return self.form is Form.TABLE

    def shown(self) -> list[bytes]:
        """Return the members in the order in which clients see them."""
        return sorted(self, key=int) if self.form is Form.NUMBERS else list(self)

    def copy(self) -> Members:
        """Return an independent copy with the same order."""
        made = Members(form=self.form)
        # If nothing was removed from the dictionary, Python copies its table as a whole.
        made.update(self)
        return made
