"""A state machine: a state, and a table that says which event leads from which state to which.

What is not in the table cannot happen: :meth:`Machine.fire` raises an error and the state stays. A machine does nothing
by itself, so a table can be read, drawn and tested without what its owner does.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

State = TypeVar("State", bound=Enum)
Event = TypeVar("Event", bound=Enum)


class IllegalTransitionError(RuntimeError):
    """An event that the table does not allow in the present state: a mistake of the machine's owner."""


class Machine(Generic[State, Event]):
    """A machine called ``name`` in the state ``state``, which moves as ``table`` says."""

    __slots__ = ("name", "state", "table")

    def __init__(self, name: str, table: Mapping[tuple[State, Event], State], state: State) -> None:
        self.name = name
        self.table = table
        self.state = state

    def fire(self, event: Event) -> State:
        """Move as ``event`` says; the new state. IllegalTransitionError where the table has no such move."""
        new = self.table.get((self.state, event))
        if new is None:
            raise IllegalTransitionError(f"{self.name}: {event.name} cannot happen in the state {self.state.name}")
        self.state = new
        return new
