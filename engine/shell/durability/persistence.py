"""Durability of one engine: what is loaded at the start, where effects go, when something is written, what clients
hear.

It ties the append-only file (:mod:`engine.shell.durability.appendonly`) and the snapshots
(:mod:`engine.shell.durability.saving`) to the core, the configuration and the event loop. The rules that must hold:
effects reach the log in the order in which they happened, before their replies leave; while the log cannot be written
no command that writes is run; files are only touched by the engine that holds the directory's lock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from engine.core.clients.session import Session
from engine.core.dispatch import Core
from engine.core.keyspace.waiters import WaitingRoom
from engine.core.protocol.replies import CommandError, Reply, Simple
from engine.settings.kinds import ConfigError
from engine.shell.clock import now_us
from engine.shell.durability.appendonly import AppendOnly
from engine.shell.durability.files import Files
from engine.shell.durability.log import ALWAYS, Beside, Effects
from engine.shell.durability.replay import LoadError
from engine.shell.durability.saving import Snapshots
from engine.shell.durability.threads import Workers
from engine.shell.observation.reporting import LOG
from engine.text import messages

#: Seconds between attempts to write a file anew after an error: first and longest.
_FIRST_RETRY, _LONGEST_RETRY = 1.0, 60.0

#: INFO persistence in its order: Redis's names, our own begin with ``engine_``. Then the lines that stand there while
#: there is a log, and the last one.
_LINES = (
    "loading",
    "async_loading",
    "rdb_changes_since_last_save",
    "rdb_bgsave_in_progress",
    "rdb_last_save_time",
    "rdb_last_bgsave_status",
    "rdb_last_bgsave_time_sec",
    "rdb_current_bgsave_time_sec",
    "rdb_saves",
    "aof_enabled",
    "aof_rewrite_in_progress",
    "aof_rewrite_scheduled",
    "aof_last_rewrite_time_sec",
    "aof_current_rewrite_time_sec",
    "aof_last_bgrewrite_status",
    "aof_last_write_status",
)
_LINES_OF_LOG = (
    "aof_current_size",
    "aof_base_size",
    "aof_pending_rewrite",
    "aof_buffer_length",
    "aof_pending_bio_fsync",
    "aof_delayed_fsync",
    "engine_aof_fsyncs",
)
_LAST_LINE = "engine_loading_seconds"


class Replies(Protocol):
    """What can hold replies back until the log has what they tell of."""

    def shut(self) -> None:
        """Hold everything back until the end of this event-loop iteration."""

    def shut_if_crowded(self) -> bool:
        """As :meth:`shut`, where most replies wait for the end of the iteration anyway; whether it is shut."""


class Persistence:
    """See the module. ``gate`` holds replies back until :meth:`settle_turn` has been called (None: no gate)."""

    logging = False

    def __init__(
        self,
        core: Core,
        workers: Workers,
        files: Files | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], int] = now_us,
    ) -> None:
        self.core = core
        self.files = files or Files()
        self._workers = workers
        self._clock = clock
        self._now_us = now
        config = core.config
        self.directory = Path(os.fsdecode(config.text("dir"))).absolute()
        name = os.fsdecode(config.text("appendfilename"))
        folder = self.directory / os.fsdecode(config.text("appenddirname"))
        sync: Beside = workers.sync
        save: Beside = workers.save
        self.appendonly = AppendOnly(core, self.files, folder, name, sync, save, clock)
        self.snapshots = Snapshots(core, self.files, save, clock, lambda: now() // 1000)
        self.log = self.appendonly.log
        self.gate: Replies | None = None
        #: Called after the core did something outside a client's turn.
        self.on_wake: Callable[[], None] = lambda: None
        self._lock: int | None = None
        self._scheduled: set[str] = set()
        self._waiting: dict[Session, None] = {}
        self._retry_at = 0.0
        self._pause = _FIRST_RETRY
        self._ending = False
        self.loaded_seconds = 0.0

    # -- start --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Load what is on the disk, and begin to keep what happens. A ConfigError that says why, where that fails."""
        config = self.core.config
        wanted = config.flag("appendonly")
        if wanted and not self._take_lock():
            raise ConfigError(f"{self.directory} belongs to another engine that is running")
        began = self._clock()
        try:
            self._load(wanted)
            if wanted:
                self.appendonly.open()
        except LoadError as error:
            self._release()
            raise ConfigError(str(error)) from None
        except OSError as error:
            self._release()
            raise ConfigError(f"{error.filename or self.directory}: {error.strerror or error}") from None
        self.loaded_seconds = self._clock() - began
        self.core.changes.dirty = 0
        self.logging = self.core.changes.recording = wanted
        self.core.durability = self
        self.log.on_synced = self._tell_waiting
        self.appendonly.on_rewritten = self._rewritten
        self.snapshots.on_saved = self._next
        self._follow()
        for name in ("appendfsync", "no-appendfsync-on-rewrite", "save", "stop-writes-on-bgsave-error"):
            config.on_change(name, self._follow)
        config.on_change("appendonly", self._switch)

    def _load(self, wanted: bool) -> None:
        core = self.core
        core.changes.set_time(self._now_us())
        core.changes.replaying = True
        try:
            if wanted and self.appendonly.find():
                self.appendonly.load(self._now_us(), cut=core.config.flag("aof-load-truncated"))
                self._say("append-only file")
            elif self.snapshots.load() >= 0:
                self._say("snapshot")
        finally:
            core.changes.replaying = False

    def _say(self, what: str) -> None:
        keys = sum(len(db) for db in self.core.databases)
        LOG.info("loaded %d keys from the %s in %s", keys, what, self.directory)

    def _take_lock(self) -> bool:
        if self._lock is None:
            with suppress(OSError):
                self._lock = self.files.lock(self.directory)
            if self._lock is None:
                LOG.warning("%s belongs to another engine: nothing is written there", self.directory)
        return self._lock is not None

    def _release(self) -> None:
        if self._lock is not None:
            self.files.close(self._lock)
            self._lock = None

    def close(self) -> None:
        """The end: what was taken is on the disk, as far as it lets us; nothing more will be taken."""
        self.snapshots.abandon()
        try:
            self.appendonly.close()
        except OSError as error:
            LOG.error("the end of the append-only file was not written: %s", error)
        self._workers.close()
        self._release()

    # -- effects ------------------------------------------------------------------------------------------------------

    def take(self, effects: Effects) -> None:
        """The effects of a turn, whose replies have not left yet."""
        if not self.logging and self.log.tee is None:
            return
        log = self.log
        log.append(effects)
        gate = self.gate if self.logging else None
        if gate is not None and log.policy == ALWAYS:
            gate.shut()
        elif gate is None or not gate.shut_if_crowded():
            self.settle()

    def settle_turn(self) -> bool:
        """As :meth:`settle`, at the end of a turn; whether what was done in it may be told."""
        return self.settle() or self.log.policy != ALWAYS

    def settle(self) -> bool:
        """Write what was taken; whether it is as safe as ``appendfsync`` promises."""
        safe = self.log.flush()
        if (not safe) != bool(self.core.admission.refuse_writes):
            self._judge()
        return safe

    def _judge(self) -> None:
        """Decide whether commands that write may run."""
        core, error = self.core, self.log.error
        if self._ending:
            core.admission.refuse_writes = messages.SHUTTING_DOWN
        elif self.logging and (error is not None or self.log.broken):
            why = (error.strerror or str(error)) if error is not None else "the file cannot be used any more"
            refusal = messages.misconf_log(why)
            if not core.admission.refuse_writes:
                LOG.error("the append-only file cannot be written, commands that write are refused: %s", error)
            core.admission.refuse_writes = refusal
        elif not self.snapshots.last_ok and self.snapshots.points and core.config.flag("stop-writes-on-bgsave-error"):
            core.admission.refuse_writes = messages.MISCONF_SNAPSHOT
        else:
            if core.admission.refuse_writes:
                LOG.info("the disk takes what is written again: commands that write are run")
            core.admission.refuse_writes = b""

    # -- time ---------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Ten times a second."""
        if self.logging:
            self.log.flush()
        self._judge()
        if self.appendonly.rewriting or self.snapshots.saving or self._ending:
            return
        if self.logging and (self.log.broken or self._has_grown()):
            self._retry_rewrite()
        elif self.snapshots.points and self.snapshots.due() and self._take_lock():
            LOG.info("%d changes since the last snapshot: saving", self.core.changes.dirty)
            self._begin_save()

    def _has_grown(self) -> bool:
        config = self.core.config
        percentage, size = config.integer("auto-aof-rewrite-percentage"), self.appendonly.size
        if not percentage or size < config.integer("auto-aof-rewrite-min-size"):
            return False
        return (size - self.appendonly.base_size) * 100 >= percentage * max(self.appendonly.base_size, 1)

    def _retry_rewrite(self) -> None:
        if self._clock() < self._retry_at:
            return
        self._retry_at = self._clock() + self._pause
        self._pause = min(self._pause * 2, _LONGEST_RETRY)
        with suppress(OSError):
            self._begin_rewrite()

    # -- writing files ------------------------------------------------------------------------------------------------

    def _flush_effects(self) -> None:
        """What the present turn has done so far belongs before an image of the present moment."""
        effects = self.core.changes.effects[:]
        self.core.changes.effects.clear()
        if effects:
            self.take(effects)

    def _begin_rewrite(self) -> None:
        self._flush_effects()
        try:
            self.appendonly.rewrite()
        except OSError as error:
            self.appendonly.last_ok = False
            LOG.error("rewriting the append-only file could not begin: %s", error)
            raise
        self.core.changes.recording = True
        self._follow()

    def _rewritten(self) -> None:
        if self.appendonly.last_ok:
            self._pause, self._retry_at = _FIRST_RETRY, 0.0
        if not self.logging and self.core.config.flag("appendonly"):
            if self.log.is_open:
                self.logging = True
                LOG.info("the append-only file is in use")
            else:
                # Switched on, but the base could not be written: try again.
                self._retry_at = self._clock() + self._pause
        self._follow()
        self._next()

    def _begin_save(self) -> None:
        self._flush_effects()
        self.snapshots.begin()
        self._follow()

    def _next(self) -> None:
        """Something was written: what waited for that may begin."""
        self._follow()
        if self._ending or self.appendonly.rewriting or self.snapshots.saving or not self._scheduled:
            return
        if "rewrite" in self._scheduled:
            self._scheduled.discard("rewrite")
            with suppress(OSError):
                self._begin_rewrite()
        else:
            self._scheduled.discard("save")
            self._begin_save()

    # -- configuration ------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        config, log = self.core.config, self.log
        log.policy = config.text("appendfsync")
        busy = self.appendonly.rewriting or self.snapshots.saving
        log.spare_syncs = busy and config.flag("no-appendfsync-on-rewrite")
        self._judge()

    def _switch(self) -> None:
        """CONFIG SET appendonly."""
        wanted = self.core.config.flag("appendonly")
        if wanted and not self.logging:
            if not self._take_lock():
                raise ConfigError(f"{self.directory} belongs to another engine that is running")
            if self.appendonly.rewriting:
                return
            try:
                with suppress(LoadError):
                    # Numbers go on from what an earlier use has left; its content is not looked at.
                    self.appendonly.find()
                self._begin_rewrite()
            except OSError as error:
                raise ConfigError(f"the append-only file cannot be written: {error.strerror or error}") from None
        elif not wanted and (self.logging or self.appendonly.rewriting):
            self.logging = self.core.changes.recording = False
            self.appendonly.switch_off()
            self._judge()

    # -- what the core asks -------------------------------------------------------------------------------------------

    def save(self) -> Reply:
        if self.snapshots.saving:
            raise CommandError(messages.SAVE_RUNNING)
        self._save_now()
        return Simple(b"OK")

    def _save_now(self) -> None:
        self._flush_effects()
        if not self._take_lock():
            raise CommandError(messages.save_failed(f"{self.directory} belongs to another engine"))
        try:
            self.snapshots.save()
        except OSError as error:
            raise CommandError(messages.save_failed(error.strerror or str(error))) from None
        finally:
            self._judge()

    def save_beside(self, *, schedule: bool) -> Reply:
        if self.snapshots.saving or "save" in self._scheduled:
            raise CommandError(messages.SAVE_RUNNING)
        if not self._take_lock():
            raise CommandError(messages.save_failed(f"{self.directory} belongs to another engine"))
        if self.appendonly.rewriting:
            if not schedule:
                raise CommandError(messages.SAVE_BLOCKED)
            self._scheduled.add("save")
            return Simple(messages.SAVE_SCHEDULED)
        self._ask("save")
        return Simple(messages.SAVE_STARTED)

    def _ask(self, what: str) -> None:
        """Begin it when the present command is done: a transaction is in the image as a whole, or not at all."""
        self._scheduled.add(what)
        self.core.host.after_reply(lambda: self.obey(what))

    def obey(self, what: str) -> None:
        """Begin what a command asked for."""
        if what in self._scheduled:
            self._next()

    def rewrite(self) -> Reply:
        if self.appendonly.rewriting or "rewrite" in self._scheduled:
            raise CommandError(messages.REWRITE_RUNNING)
        if not self._take_lock():
            raise CommandError(messages.save_failed(f"{self.directory} belongs to another engine"))
        if self.snapshots.saving:
            self._scheduled.add("rewrite")
            return Simple(messages.REWRITE_SCHEDULED)
        self._ask("rewrite")
        return Simple(messages.REWRITE_STARTED)

    def last_save(self) -> int:
        return self.snapshots.last_save_ms // 1000

    def place(self) -> int:
        # What this turn has done is written as one block: a place within it stands for its end.
        return self.log.appended + bool(self.core.changes.effects)

    def is_safe(self, place: int) -> bool:
        return self.log.synced >= place

    def tell(self, session: Session) -> None:
        self._waiting[session] = None

    def _tell_waiting(self) -> None:
        if not self._waiting:
            return
        sessions, self._waiting = self._waiting, {}
        for session in sessions:
            self.core.wake(session, self._now_us())
        self.on_wake()

    def reload(self, *, from_log: bool, save: bool, flush: bool) -> None:
        core = self.core
        if from_log:
            if not self.logging:
                raise CommandError(messages.NO_PERSISTENCE)
            self._flush_effects()
            if not self.log.settle():
                raise CommandError(messages.save_failed(str(self.log.error)))
        elif save:
            self._save_now()
        else:
            self._flush_effects()
        dirty, recording, refusal = core.changes.dirty, core.changes.recording, core.admission.refuse_writes
        core.changes.recording, core.changes.replaying, core.admission.refuse_writes = False, True, b""
        # Whoever waits for a key is not served from data that are half there.
        rooms = [db.waiting for db in core.databases]
        for db in core.databases:
            db.waiting = WaitingRoom()
        try:
            if flush or from_log:
                for db in core.databases:
                    db.clear()
            if from_log:
                self.appendonly.load(self._now_us(), cut=False)
            else:
                self.snapshots.load()
        except (LoadError, OSError) as error:
            # What is in memory now is neither what it was nor what is on the disk.
            LOG.critical("the data could not be loaded again, the engine stops: %s", error)
            core.host.shut_down()
            self._ending = True
            self._judge()
            raise CommandError(messages.load_failed(str(error))) from None
        finally:
            core.changes.recording, core.changes.replaying, core.admission.refuse_writes = recording, False, refusal
            core.changes.dirty = dirty
            for db, room in zip(core.databases, rooms, strict=True):
                db.waiting = room
                for key in room.awaited():
                    db.signal(key)
            self._judge()
        if self.logging and not from_log and not (save and flush):
            # The log must tell of the same data.
            with suppress(OSError):
                self._begin_rewrite()

    def end(self, words: set[bytes]) -> None:
        forced = b"FORCE" in words
        wants_save = b"SAVE" in words or (b"NOSAVE" not in words and bool(self.snapshots.points))
        self.snapshots.abandon()
        self._flush_effects()
        if self.logging and not self.log.settle() and not forced:
            LOG.error("not shut down: the append-only file cannot be written: %s", self.log.error)
            raise CommandError(messages.SHUTDOWN_FAILED)
        # Where nothing has changed there is nothing to save, unless it is asked for.
        if b"SAVE" in words or (wants_save and self.core.changes.dirty and self._take_lock()):
            try:
                self._save_now()
            except CommandError as error:
                if not forced:
                    LOG.error("not shut down: %s", error.text.decode())
                    raise CommandError(messages.SHUTDOWN_FAILED) from None
        self._ending = True
        self._judge()

    def info(self) -> list[tuple[str, Any]]:
        facts = {
            "loading": 0,
            "async_loading": 0,
            "rdb_changes_since_last_save": self.core.changes.dirty,
            "aof_enabled": int(self.logging),
            "aof_rewrite_scheduled": int("rewrite" in self._scheduled),
            "engine_loading_seconds": f"{self.loaded_seconds:.3f}",
            **self.snapshots.facts(),
            **self.appendonly.facts(),
            **self.log.facts(),
        }
        return [(name, facts[name]) for name in (*_LINES, *(_LINES_OF_LOG if self.logging else ()), _LAST_LINE)]
