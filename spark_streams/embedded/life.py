"""Life cycle of an embedded engine as a state machine: its states, its events, and the table of transitions.

    NOT_STARTED --STARTED--> STARTING --ANNOUNCED--> READY --ENGINE_ENDED--> ENDED
         |                    |    |                   |
         | NOT_RUNNABLE       |    | START_EXPIRED     | DRIVER_ENDED, STOP_ASKED (from STARTING too)
         v                    |    v                   v
       FAILED <--ENGINE_ENDED-+  GIVING_UP          STOPPING --STOP_EXPIRED--> KILLING
         ^                         |                   | ENGINE_ENDED             | ENGINE_ENDED
         +------ENGINE_ENDED-------+                   +-------> ENDED <----------+

The supervisor runs the machine: `run` asks its host for events and reports each entered state to the host. The host
owns the processes and files. This module does no I/O, and its clock is an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from streamwire.machine import Machine


class State(Enum):
    NOT_STARTED = "not started"
    STARTING = "starting"  # the process runs and has not printed its address yet
    READY = "ready"  # the engine accepts clients
    STOPPING = "stopping"  # the engine was asked to stop
    KILLING = "killing"  # killed because it did not stop in time
    GIVING_UP = "giving up"  # killed because it was not ready in time
    ENDED = "ended"  # the process has ended, after it was ready or after a requested stop
    FAILED = "failed"  # the process has ended and was never ready


class Event(Enum):
    STARTED = "its process was started"
    NOT_RUNNABLE = "its command could not be run"
    ANNOUNCED = "it reported its address"
    ENGINE_ENDED = "its process ended"
    DRIVER_ENDED = "the driver's process ended"
    STOP_ASKED = "the supervisor was asked to end"
    START_EXPIRED = "it was not ready in time"
    STOP_EXPIRED = "it did not end in time"


S, E = State, Event

TABLE: dict[tuple[State, Event], State] = {
    (S.NOT_STARTED, E.STARTED): S.STARTING,
    (S.NOT_STARTED, E.NOT_RUNNABLE): S.FAILED,
    (S.STARTING, E.ANNOUNCED): S.READY,
    (S.STARTING, E.ENGINE_ENDED): S.FAILED,
    (S.STARTING, E.DRIVER_ENDED): S.STOPPING,
    (S.STARTING, E.STOP_ASKED): S.STOPPING,
    (S.STARTING, E.START_EXPIRED): S.GIVING_UP,
    (S.READY, E.ENGINE_ENDED): S.ENDED,
    (S.READY, E.DRIVER_ENDED): S.STOPPING,
    (S.READY, E.STOP_ASKED): S.STOPPING,
    (S.STOPPING, E.ENGINE_ENDED): S.ENDED,
    (S.STOPPING, E.STOP_EXPIRED): S.KILLING,
    (S.KILLING, E.ENGINE_ENDED): S.ENDED,
    (S.GIVING_UP, E.ENGINE_ENDED): S.FAILED,
    # While the engine is ending, a late announcement, the driver's end and stop requests change nothing.
    **{
        (leaving, event): leaving
        for leaving in (S.STOPPING, S.KILLING, S.GIVING_UP)
        for event in (E.ANNOUNCED, E.DRIVER_ENDED, E.STOP_ASKED)
    },
}

FINAL = frozenset({S.ENDED, S.FAILED})

#: Maximum seconds in a state, and the event after that time.
LIMITS: dict[State, tuple[float, Event]] = {
    S.STARTING: (30.0, E.START_EXPIRED),
    S.STOPPING: (5.0, E.STOP_EXPIRED),
}


class Host(Protocol):
    """Supplies the events of an engine, and carries out the machine's actions.

    In tests, the host replays a list of events.
    """

    def start(self) -> Event:
        """Start the engine. Returns STARTED or NOT_RUNNABLE."""

    def next_event(self, seconds: float | None) -> Event | None:
        """Return the next event; None if there is none within `seconds`. Waits indefinitely if `seconds` is None."""

    def entered(self, state: State) -> None:
        """Carry out the actions of the entered state, and record the state."""


def run(host: Host, clock: Callable[[], float]) -> State:
    """Run the machine until a final state, and return that state. `clock` returns monotonic seconds."""
    machine = Machine("the embedded engine", TABLE, State.NOT_STARTED)
    event: Event | None = host.start()
    since = clock()
    while True:
        state = machine.state
        if event is not None and machine.fire(event) is not state:
            state, since = machine.state, clock()
            host.entered(state)
        if state in FINAL:
            return state
        if state in LIMITS:
            seconds, expired = LIMITS[state]
            left = since + seconds - clock()
            event = host.next_event(left) if left > 0 else expired
        else:
            event = host.next_event(None)
