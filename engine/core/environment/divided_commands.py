"""Divided commands: large commands that run in steps, while commands of other clients run between the steps.

A divided command holds its keys until its last step, so that other clients see it as one operation. A held key is held
in all databases. A key that the command only reads is held against changes, any other key against all use.

* Clients' commands that name a held key wait; the shell calls `DividedCommands.must_wait`. This includes EXEC.
  A blocked client is served when its keys are no longer held.
* If a command cannot wait, the divided command is finished first, at once. This applies to a
  master's commands, and to commands such as FLUSHALL and REPLICAOF, which affect all keys.
* An image of all data, for a snapshot, a log or a replica, waits until no command is between two steps. Commands whose
  first step is due wait for the image, so that it is taken soon.
* Held keys do not expire. The time of all steps is that of the first one.

A divided command starts only if none of its keys is held, and waits for nothing. So there is no deadlock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from engine.core.clients.session import Queued, Session
from engine.core.keyspace.changes import Changes
from engine.core.protocol.replies import Steps
from engine.core.protocol.xadd import XaddRun
from engine.core.table.registry import COMMANDS, EXECUTING, called_by


class DividedCommands:
    """The divided commands of one core that hold keys. ``running`` is never replaced."""

    def __init__(self, changes: Changes, finish: Callable[[Steps], None]) -> None:
        self.running = changes.divided
        #: Functions that take the images that are postponed.
        self._images: list[Callable[[], None]] = []
        #: Runs all remaining steps of a command.
        self._finish = finish

    def start(self, steps: Steps) -> None:
        """Hold the keys of a command. None of them may be held in a way that the command must wait for."""
        command = called_by(steps.argv)
        if command is not None:
            keys, changed = _uses((command, steps.argv))
            steps.keys = frozenset(keys)
            steps.closed = steps.keys if changed is keys else frozenset(changed)
        if steps.keys:
            self.running.append(steps)

    def end(self, steps: Steps) -> list[Callable[[], None]]:
        """Release the keys of a finished command; return the functions that take postponed images now."""
        if steps in self.running:
            self.running.remove(steps)
        if self.is_partial:
            return []
        images, self._images = self._images, []
        return images

    @property
    def is_partial(self) -> bool:
        """Whether the data contains a part of a command."""
        return any(steps.is_started and steps.closed for steps in self.running)

    def postpones_image(self, again: Callable[[], None]) -> bool:
        """Return whether an image must wait, because the data contains a part of a command. If so, call ``again`` as
        soon as that is over.
        """
        if not self.is_partial:
            return False
        if again not in self._images:
            self._images.append(again)
        return True

    @property
    def images_wait(self) -> bool:
        """Whether an image waits until no command is between two steps, so that no other command may start."""
        return bool(self._images)

    def must_wait(self, session: Session, argv: list[bytes]) -> Steps | None:
        """Return a divided command for which a client's command must wait, because it names a held key.

        When it has ended, the client must ask again. Later commands that only read a key do not overtake a command that
        waits to change this key.
        """
        for call in _calls(session, argv):
            holders = self._holders(call, closes=True)
            if holders:
                # The latest is likely to end last.
                return holders[-1]
        return None

    def must_wait_for_run(self, run: XaddRun) -> bool:
        """Return whether an XADD of the run must wait."""
        return bool(self._holders((COMMANDS[b"XADD"], run), closes=True))

    def make_way(self, session: Session, argv: list[bytes]) -> None:
        """Finish the divided commands that hold a key of this command, which cannot wait."""
        for call in _calls(session, argv):
            self.make_way_for(call)

    def make_way_for(self, call: Queued) -> None:
        """Finish the divided commands that hold a key of this call."""
        for steps in self._holders(call):
            self._finish(steps)

    def finish_all(self) -> None:
        """Finish all divided commands that hold keys."""
        for steps in self.running[:]:
            self._finish(steps)

    def _holders(self, call: Queued, *, closes: bool = False) -> list[Steps]:
        """Return the divided commands for which this call must wait.

        With ``closes``, keys that the call changes are held against all use from now on.
        """
        keys, changed = _uses(call)
        holders: list[Steps] = []
        # No intersection is built: 40 clients may wait with 100,000 keys each. Usually the first key decides.
        for steps in self.running:
            reads = steps.closed is not steps.keys
            if not steps.closed.isdisjoint(keys) or (reads and not steps.keys.isdisjoint(changed)):
                holders.append(steps)
                if closes and reads:
                    steps.closed |= steps.keys.intersection(changed)
        return holders


def _calls(session: Session, argv: list[bytes]) -> Iterator[Queued]:
    """Yield the calls that a client's command makes now: for EXEC the queued calls, none for a command to be queued."""
    command = called_by(argv)
    if command is None or not command.arity_fits(len(argv)):
        return
    if session.multi is None:
        yield command, argv
    elif command.name in EXECUTING:
        yield from session.multi


def _uses(call: Queued) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """Return the keys that a call names, and those whose values it may change."""
    command, words = call
    if isinstance(words, XaddRun):
        keys = list(words.distinct_keys())
        return keys, keys
    if len(command.uses) == 1:
        keys = command.keys.of(words)
        # The flag, because XREADGROUP changes a stream's groups, although it is declared to only read the key.
        return keys, keys if command.writes or command.uses[0].writes else ()
    touched = command.touched(words)
    return [key for key, _ in touched], [key for key, use in touched if use.writes]
