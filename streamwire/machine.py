"""State machines: a table from state and event to the next state.

A pair that is not in the table is illegal: `Machine.fire` raises and the state does not change. A machine performs no
actions, so its table can be read, drawn and tested without its owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

State = TypeVar("State", bound=Enum)
Event = TypeVar("Event", bound=Enum)


class IllegalTransitionError(RuntimeError):
    """An event that the table does not allow in the current state: a fault of the machine's owner."""


class Machine(Generic[State, Event]):
    """A machine with a name, a current state, and a table of transitions."""

    __slots__ = ("name", "state", "table")

    def __init__(self, name: str, table: Mapping[tuple[State, Event], State], state: State) -> None:
        self.name = name
        self.table = table
        self.state = state

    def fire(self, event: Event) -> State:
        """Move to the event's next state and return it. Raise IllegalTransitionError if the table has no such move."""
        new = self.table.get((self.state, event))
        if new is None:
            raise IllegalTransitionError(f"{self.name}: {event.name} is illegal in the state {self.state.name}")
        self.state = new
        return new
