"""An engine without sockets: a core with its durability, whose threads and clocks the test controls."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import hiredis

from engine.core.dispatch import Core
from engine.core.environment.host import Host as NoProcess
from engine.core.protocol.replies import CommandError
from engine.settings.config import Config
from engine.shell.durability.disk import DiskDurability
from engine.shell.durability.files import Files
from engine.wire.encode import encoded
from tests.faults.disk import Disk
from tests.harness.replay import NOW_US

Done = Callable[[OSError | None], None]


class HandWorkers:
    """Threads whose work is done on request, or at once."""

    def __init__(self, *, at_once: bool = True) -> None:
        self.at_once = at_once
        self.waiting: list[tuple[Callable[[], None], Done]] = []
        #: Callbacks to run in the event loop.
        self.next: list[Callable[[], None]] = []

    def sync(self, work: Callable[[], None], done: Done) -> None:
        self.waiting.append((work, done))
        if self.at_once:
            self.run()

    def save(self, work: Callable[[], None], done: Done) -> None:
        self.waiting.append((work, done))
        if self.at_once:
            self.run()

    def run(self, count: int = 1000) -> None:
        """Run the waiting work."""
        while self.waiting and count:
            count -= 1
            work, done = self.waiting.pop(0)
            try:
                work()
            except OSError as error:
                done(error)
            else:
                done(None)

    def soon(self, work: Callable[[], None]) -> None:
        self.next.append(work)

    def turn(self) -> None:
        """Run the callbacks of the event loop."""
        work, self.next = self.next, []
        for callback in work:
            callback()

    def close(self) -> None:
        """Run the waiting work without reporting results."""
        for work, _ in self.waiting:
            with suppress(OSError):
                work()
        self.waiting.clear()


class Host(NoProcess):
    """The host of an engine, which records whether the process was asked to exit."""

    ends = False

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine

    def flush_effects(self) -> None:
        self._engine.flush_effects()

    def shut_down(self) -> None:
        self.ends = True


class Engine:
    """An engine in ``directory``, from its start to its end; ``settings`` are directives, with _ instead of -."""

    def __init__(
        self,
        directory: Path,
        files: Files | None = None,
        *,
        at_once: bool = True,
        now_us: int = NOW_US,
        **settings: str,
    ) -> None:
        config = Config()
        words = {"appendonly": "yes", "appendfsync": "always", "save": "", **settings}
        for name, value in words.items():
            config.put(name.replace("_", "-"), value.encode())
        config.put("dir", os.fsencode(directory))
        self.core = Core(config)
        self.files = files or Disk()
        self.workers = HandWorkers(at_once=at_once)
        self.seconds = 100.0
        self.core.host = self.host = Host(self)
        self.now_us = now_us
        self.durability = DiskDurability(self.core, self.workers, self.files, lambda: self.seconds, lambda: self.now_us)
        self.durability.start()
        self.session = self.core.open_session(self.now_us)

    @property
    def directory(self) -> Path:
        return self.folder.parent

    @property
    def log(self):
        return self.durability.log

    @property
    def folder(self) -> Path:
        return self.durability.log_files.directory

    def run(self, line: str, *more: Any) -> Any:
        """Run a command and end its event-loop iteration; an error is returned as its text."""
        argv = [word.encode() for word in line.split()] + list(more)
        reply = self.core.execute(self.session, argv, self.now_us)
        self.end_iteration()
        return reply.text.decode() if isinstance(reply, CommandError) else reply

    def ask(self, *words: Any) -> Any:
        """Run a command of any words, and return its reply as a client sees it."""
        argv = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        reply = self.core.execute(self.session, argv, self.now_us)
        self.end_iteration()
        reader = hiredis.Reader()
        reader.feed(encoded(reply))
        return reader.gets()

    def flush_effects(self) -> None:
        effects = self.core.changes.effects[:]
        self.core.changes.effects.clear()
        if effects:
            self.log.append(effects)
            self.log.flush()

    def end_iteration(self) -> None:
        self.flush_effects()
        work = self.host.pending[:]
        self.host.pending.clear()
        for callback in work:
            callback()
        self.workers.turn()

    def tick(self, seconds: float = 0.1) -> None:
        """Advance both clocks by ``seconds``, and run the periodic work once."""
        self.seconds += seconds
        self.now_us += int(seconds * 1e6)
        self.durability.tick()
        self.workers.turn()

    def die(self) -> None:
        """Simulate the end of the process without a shutdown; its descriptors are closed."""
        assert isinstance(self.files, Disk)
        self.files.end()

    def close(self) -> None:
        self.durability.close()

    def info(self) -> dict[str, Any]:
        return dict(self.durability.info())
