"""Durability of one engine: loading at startup, logging of effects, scheduling of rewrites and snapshots, and release
of replies.

It connects the log (`engine.shell.durability.log`) and the snapshots (`engine.shell.durability.snapshots`) to the core,
the configuration and the event loop, and decides whether a rewrite or a snapshot starts next. Invariants:

* Effects are passed to the log in the order in which they happened, before their replies are sent.
* While the log cannot be written, write commands are rejected.
* Only the engine that holds the directory's lock changes the files.

The module is long because each invariant spans all of its parts: startup, shutdown, effects, configuration and the
core's requests.

After the final save, the data does not change, and nothing else is saved. The same applies after a failed reload (DEBUG
RELOAD), because incomplete data must not replace the data on disk. It also applies after an unexpected error in a
command, because the data may contain a half-done change.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import Any

from engine.core.admission import Refusal
from engine.core.dispatch import Core
from engine.core.environment.durability import Durability
from engine.core.keyspace.waiters import WaitingRoom
from engine.core.protocol.replies import CommandError, Reply, Simple
from engine.settings.kinds import ConfigError
from engine.shell.clock import now_us
from engine.shell.durability.background import Workers
from engine.shell.durability.files import Files
from engine.shell.durability.log import Log
from engine.shell.durability.log_files import LogFiles
from engine.shell.durability.position import Position
from engine.shell.durability.recovery import LoadError
from engine.shell.durability.snapshots import TEMPORARY, Snapshots
from engine.shell.durability.stream_storage import StreamStorage
from engine.shell.observation.log_lines import LOG
from engine.text import messages


class Ownership:
    """The lock on ``directory``, held by the one engine that writes to it, until it has closed its files.

    ``leftovers`` matches the names of unfinished files, which are removed when the lock is acquired, and before it is
    released.
    """

    def __init__(self, files: Files, directory: Path, leftovers: re.Pattern[str]) -> None:
        self._files = files
        self._leftovers = leftovers
        self._lock: int | None = None
        self.directory = directory

    def acquire(self) -> bool:
        """Acquire the lock, if it is not held yet; return False if another engine holds it."""
        if self._lock is not None:
            return True
        with suppress(OSError):
            self._lock = self._files.lock(self.directory)
        if self._lock is not None:
            self._clear()
        return self._lock is not None

    @property
    def is_held(self) -> bool:
        """Whether this engine holds the lock."""
        return self._lock is not None

    @property
    def refusal(self) -> str:
        """Error text if the lock is not available."""
        return f"{self.directory} belongs to another engine that is running"

    def _clear(self) -> None:
        for name in self._files.names(self.directory):
            if self._leftovers.fullmatch(name):
                LOG.info("removed incomplete file %s", self.directory / name)
                with suppress(OSError):
                    self._files.remove(self.directory / name)

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._clear()
            self._files.close(self._lock)
            self._lock = None


class Life(Enum):
    """Permitted uses of the data."""

    #: The data is being loaded.
    LOADING = auto()
    #: Commands run, and their effects are logged.
    RUNNING = auto()
    #: The process is to exit: unsaved data is being written to disk.
    LAST_SAVE = auto()
    #: The process is exiting: write commands are rejected, and nothing is saved.
    ENDING = auto()
    #: The files are closed and may belong to another engine.
    CLOSED = auto()


class DiskDurability(Durability):
    """Durability of one engine. ``clock`` is monotonic, ``now`` returns microseconds since the epoch."""

    def __init__(
        self,
        core: Core,
        workers: Workers,
        files: Files | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], int] = now_us,
    ) -> None:
        self.core = core
        self.workers = workers
        self._clock = clock
        self._now = now
        files = files or Files()
        config = core.config
        directory = Path(os.fsdecode(config.text("dir"))).absolute()
        folder = directory / os.fsdecode(config.text("appenddirname"))
        name = os.fsdecode(config.text("appendfilename"))
        self._life = Life.LOADING
        self._ownership = Ownership(files, directory, TEMPORARY)
        self.log = Log(core, files, workers.sync, clock, self._update_refusal)
        self.keeping = StreamStorage(config, core.streams.storage, files, directory, workers.save, clock)
        segments = self.keeping.segments
        relieve = self.keeping.relieve
        self.log_files = LogFiles(
            core, files, segments, folder, name, self.log, workers, clock, relieve, self._after_write
        )
        #: Whether a log is enabled: it is open, or will be open when its first base is written.
        self._wants_log = False
        self.snapshots = Snapshots(core, files, segments, workers, clock, lambda: now() // 1000, self._after_write)
        #: Called when data was loaded that does not result from the recorded effects.
        self.on_other_data: Callable[[], None] = lambda: None
        self._loading_seconds = 0.0
        #: Whether the data may contain a half-done change.
        self._is_faulty = False
        #: Position of the loaded data in a replication history.
        self.loaded: Position | None = None

    # -- startup and shutdown -----------------------------------------------------------------------------------------

    def set_position_source(self, position: Callable[[], Position | None]) -> None:
        """Set the function that returns the data's current position in a replication history, to be stored in files."""
        self.snapshots.position = position

    def start(self) -> None:
        """Load the data from disk, and start storing changes. Raises ConfigError with the reason on failure."""
        config = self.core.config
        wanted = config.flag("appendonly")
        if wanted or self.snapshots.points or self.keeping.segments.is_in_use or config.flag("skip-unsupported-types"):
            self._own()
        began = self._clock()
        try:
            self.keeping.start(self.log_files.directory)
            self.loaded = self._load(from_log=wanted)
            if wanted:
                self._open_log()
        except (LoadError, OSError) as error:
            self._life = Life.ENDING
            self._ownership.release()
            if isinstance(error, LoadError):
                raise ConfigError(str(error)) from None
            raise ConfigError(f"{error.filename or self._ownership.directory}: {error.strerror or error}") from None
        self._loading_seconds = self._clock() - began
        self._life = Life.RUNNING
        self.core.durability = self
        for name in ("appendfsync", "stop-writes-on-bgsave-error"):
            config.on_change(name, self._follow)
        config.on_change("save", self._follow_save_points)
        config.on_change("appendonly", self._follow_switch)
        self._follow()

    def _own(self) -> None:
        """Acquire the directory's lock before anything is to be kept there. Raises ConfigError if that fails."""
        if not self._ownership.acquire():
            raise ConfigError(self._ownership.refusal)

    def _load(self, *, from_log: bool) -> Position | None:
        """Load the data at startup: from the log if it is enabled and present, otherwise from the snapshot.

        Return the data's position in a replication history; None if the file does not contain it.
        """
        position: Position | None = None
        core = self.core
        core.changes.set_time(self._now())
        core.changes.replaying = True
        try:
            has_log = from_log and self.log_files.find()
            if from_log and not has_log:
                self.log_files.refuse_old_file()
            if has_log:
                self.log_files.load(self._now(), cut=core.config.flag("aof-load-truncated"))
                position = self.log_files.position
                self._report("the append-only file")
            elif path := self.snapshots.load():
                position = self.snapshots.saved_position
                self._report(path.name)
        finally:
            core.changes.replaying = False
        core.changes.dirty = 0
        return position

    def _report(self, source: str) -> None:
        keys = sum(len(db) for db in self.core.databases)
        LOG.info("loaded %d keys from %s in %s", keys, source, self.snapshots.path.parent)

    def _open_log(self) -> None:
        if self.log_files.left_out:
            # Logs cannot be continued without the keys that were left out.
            self.snapshots.keep_originals()
            self.log_files.keep_original()
            self.log_files.rewrite_now()
        elif not self.log_files.open():
            self.log_files.rewrite_now()
        self.log_files.clear_temporaries()
        self._wants_log = True

    def prepare_shutdown(self, words: set[bytes]) -> None:
        if self._life is Life.LOADING:
            self._life = Life.ENDING
        if self._life is Life.ENDING:
            return
        self._life = Life.LAST_SAVE
        saved = False
        try:
            saved = self._save_for_the_last_time(words, forced=b"FORCE" in words)
        finally:
            self._life = Life.ENDING if saved else Life.RUNNING
            self._follow()
        if not saved:
            raise CommandError(messages.SHUTDOWN_FAILED)
        self.snapshots.abandon()
        self.log_files.abandon()

    def _save_for_the_last_time(self, words: set[bytes], *, forced: bool) -> bool:
        """Write unsaved data to disk as SHUTDOWN's options in ``words`` require; return whether the process may exit.

        Failures are logged.
        """
        self.core.host.flush_effects()
        try:
            if self._wants_log and not (self.log.is_open and self.log.flush_and_sync()):
                # The log has no file yet, or its file cannot be trusted: try to write a new one.
                self.log_files.rewrite_now()
        except OSError as error:
            LOG.error("the append-only file cannot be written at shutdown: %s", error)
            if not forced:
                return False
        # Without SHUTDOWN SAVE, save if there are save points and something has changed since the last save.
        moved = self.snapshots.position() != self.snapshots.saved_position
        changed = bool(self.snapshots.points and (self.core.changes.dirty or moved))
        try:
            if b"SAVE" in words or (b"NOSAVE" not in words and changed):
                self._save_now()
        except CommandError as error:
            LOG.error("at shutdown: %s", error.text.decode())
            return forced
        return True

    @property
    def is_ending(self) -> bool:
        """Whether the process is exiting, so that the data must not change, and is not saved again."""
        return self._life in (Life.ENDING, Life.CLOSED)

    def give_up_data(self) -> None:
        """Stop writing anything derived from the data, which may contain a half-done change.

        Effects collected before the fault are complete, and are still written.
        """
        self._is_faulty = True
        if self._life is not Life.CLOSED:
            self._life = Life.ENDING
        self._follow()

    def close(self) -> None:
        """Write collected effects as far as the disk allows, and close the files."""
        is_good = self._life is Life.ENDING and not self._is_faulty
        self._life = Life.CLOSED
        self.snapshots.abandon()
        self.log_files.abandon()
        try:
            position = self.snapshots.position()
            if is_good and position is not None:
                self.log.end_with(position.line)
            self.log.close()
        except OSError as error:
            LOG.error("the last part of the append-only file was not written: %s", error)
        self.workers.close()
        self.keeping.segments.close()
        if self._wants_log:
            with suppress(OSError):
                self.log_files.clear_temporaries()
        self._ownership.release()

    # -- effects ------------------------------------------------------------------------------------------------------

    def _update_refusal(self) -> None:
        """Decide whether write commands may run."""
        admission, trouble = self.core.admission, self.log.trouble
        before = admission.refusal(Refusal.DISK)
        if self.is_ending:
            error = messages.SHUTTING_DOWN
        elif trouble:
            if not before:
                LOG.error("%s cannot be written, rejecting write commands: %s", self.log.path, trouble)
            error = b"MISCONF Errors writing to the AOF file: " + trouble.encode()
        elif (
            not self.snapshots.last_ok
            and self.snapshots.points
            and self.core.config.flag("stop-writes-on-bgsave-error")
        ):
            error = messages.MISCONF_SNAPSHOT
        else:
            if before:
                LOG.info("the disk accepts writes again, accepting write commands")
            error = b""
        if error != before:
            admission.refuse(Refusal.DISK, error)

    # -- scheduling ---------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Run periodic work, ten times a second."""
        self.log.flush()
        self._update_refusal()
        self.start_due_work()

    def start_due_work(self) -> None:
        """Start writing a file in the background, if one is due and no other is being written.

        Do not call this within a command: an image must not contain a part of a transaction.
        """
        if self._life is not Life.RUNNING or self.log_files.is_running or self.snapshots.is_running:
            return
        if self._ownership.is_held:
            self.keeping.tidy()
        is_asked_for = self.snapshots.is_scheduled
        rewrites = self.log_files.is_scheduled or (not is_asked_for and self._needs_rewrite())
        saves = not rewrites and (is_asked_for or self.snapshots.due())
        if not (rewrites or saves) or self.core.divided.postpones_image(self.start_due_work):
            return
        if saves:
            if not is_asked_for:
                LOG.info("%d changes since the last snapshot, saving", self.core.changes.dirty)
            self.snapshots.start()
            self._follow()
        elif self.log_files.is_prepared():
            self._start_rewrite()
            self._follow()

    def _needs_rewrite(self) -> bool:
        if not self._wants_log or not self.log_files.is_due:
            return False
        # A log that is not open is still without its first base.
        needs_file = not self.log.is_open or self.log.is_broken
        return needs_file or self.log_files.has_grown() or self.keeping.wants_new_base()

    def _start_rewrite(self) -> None:
        """Start a rewrite, which writes the first base if that is still missing. If the rewrite cannot start, a missing
        first base is retried later; other rewrites are skipped.
        """
        with suppress(OSError):
            self.log_files.rewrite(keeps_log=self._wants_log)

    def _after_write(self) -> None:
        """Start work that waited for a file to be written."""
        self._follow()
        self.start_due_work()

    # -- configuration ------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        core, log = self.core, self.log
        log.policy = core.config.text("appendfsync")
        core.changes.record_for("log", log.is_open or log.tee is not None)
        self._update_refusal()

    def _follow_save_points(self) -> None:
        """Apply CONFIG SET save."""
        if self.snapshots.points:
            self._own()
        self._follow()

    def _follow_switch(self) -> None:
        """Apply CONFIG SET appendonly. It returns OK when the writing of the first base has started, which contains all
        data of that moment. Later effects are kept in memory until the base is complete. If the base cannot be written,
        each retry writes the data of its own time.
        """
        wants = self.core.config.flag("appendonly")
        if wants is self._wants_log:
            return
        if self._life is not Life.RUNNING:
            raise ConfigError("the server is shutting down")
        self.core.divided.finish_all()
        self.core.host.flush_effects()
        try:
            if wants:
                self._switch_on()
            else:
                self._switch_off()
        finally:
            self._follow()

    def _switch_on(self) -> None:
        """Start writing the first base. Raises ConfigError if that is not possible; the log then stays off."""
        self._own()
        # A rewrite that was requested without a log cannot be continued: it lacks the effects since its image.
        self.log_files.abandon()
        try:
            self.log_files.rewrite(keeps_log=True)
        except OSError as error:
            raise ConfigError(f"the append-only file cannot be written: {error.strerror or error}") from None
        self._wants_log = True

    def _switch_off(self) -> None:
        """Write the effects so far, as far as the disk allows, and close the log."""
        self._wants_log = False
        self.log_files.abandon()
        try:
            self.log.close()
        except OSError as error:
            LOG.error("the last part of the append-only file was not written: %s", error)

    # -- requests of the core -----------------------------------------------------------------------------------------

    @property
    def logging(self) -> bool:
        """Whether effects are being logged."""
        return self._wants_log and self.log.is_open

    def _check(self) -> None:
        """Acquire the directory's lock. Raise CommandError if that fails, or if the data must not be saved."""
        if self._life not in (Life.RUNNING, Life.LAST_SAVE):
            raise CommandError(messages.SHUTTING_DOWN)
        if not self._ownership.acquire():
            raise CommandError(messages.save_failed(self._ownership.refusal))

    def save(self) -> Reply:
        if self.snapshots.is_running:
            raise CommandError(messages.SAVE_RUNNING)
        self.core.divided.finish_all()
        self._save_now()
        return Simple(b"OK")

    def _save_now(self) -> None:
        self._check()
        try:
            self.snapshots.save()
        except OSError as error:
            raise CommandError(messages.save_failed(error.strerror or str(error))) from None
        finally:
            self._follow()

    def save_in_background(self, *, schedule: bool, within: bool) -> Reply:
        if self.snapshots.is_running:
            raise CommandError(messages.SAVE_RUNNING)
        self._check()
        must_wait = self.log_files.is_running or self.log_files.is_scheduled
        if must_wait and not (schedule or within):
            raise CommandError(messages.SAVE_BLOCKED)
        self.snapshots.ask()
        if not must_wait:
            self.core.host.after_reply(self.start_due_work)
        starts = not (must_wait or within or self.core.divided.is_partial)
        return Simple(b"Background saving started" if starts else b"Background saving scheduled")

    def all_deleted(self) -> None:
        """Start a snapshot of the empty data after the command, so that a crash does not bring the old data back.

        A snapshot that is being written is abandoned: its image is older.
        """
        if self.snapshots.points and self._life is Life.RUNNING:
            self.snapshots.abandon()
            self.snapshots.ask()
            self.core.host.after_reply(self.start_due_work)

    def rewrite_log(self, *, within: bool) -> Reply:
        if self.log_files.is_running:
            raise CommandError(b"ERR Background append only file rewriting already in progress")
        self._check()
        self.log_files.ask()
        if self.snapshots.is_running:
            return Simple(messages.REWRITE_SCHEDULED)
        self.core.host.after_reply(self.start_due_work)
        starts = not (within or self.core.divided.is_partial)
        return Simple(b"Background append only file rewriting started" if starts else messages.REWRITE_SCHEDULED)

    def last_save(self) -> int:
        return self.snapshots.last_save_ms // 1000

    def reload(self, *, from_log: bool, save: bool) -> None:
        if self._life is not Life.RUNNING:
            raise CommandError(messages.SHUTTING_DOWN)
        if from_log:
            if not self.logging:
                raise CommandError(messages.NO_PERSISTENCE)
            self.core.host.flush_effects()
            if not self.log.flush_and_sync():
                raise CommandError(messages.save_failed(self.log.trouble))
        elif save:
            self._save_now()
        else:
            self.core.host.flush_effects()
        self._life = Life.LOADING
        try:
            self._load_again(from_log=from_log)
            self._life = Life.RUNNING
        except Exception as error:  # noqa: BLE001 - any error leaves the data incomplete
            # The data in memory is now neither the old data nor that on disk.
            LOG.critical("the data could not be reloaded, stopping: %s", error)
            self._life = Life.ENDING
            self.core.host.shut_down()
            raise CommandError(b"ERR " + str(error).encode()) from None
        finally:
            self._follow()
        if not (from_log or save):
            self.on_other_data()
            if self._wants_log:
                self._rewrite_log_after_loading()

    def _load_again(self, *, from_log: bool) -> None:
        """Remove the data and load it again, without recording effects."""
        core = self.core
        dirty = core.changes.dirty
        core.changes.hold_recording(True)
        core.changes.replaying = True
        # Clients that wait for a key must not be served from half-loaded data.
        rooms = [db.waiting for db in core.databases]
        for db in core.databases:
            db.waiting = WaitingRoom()
        try:
            for db in core.databases:
                db.clear()
            if from_log:
                self.log_files.load(self._now(), cut=False)
            else:
                self.snapshots.load()
        finally:
            core.changes.replaying = False
            core.changes.hold_recording(False)
            core.changes.dirty = dirty
            for db, room in zip(core.databases, rooms, strict=True):
                db.waiting = room
                for key in room:
                    db.signal(key, replaced=True)

    def data_replaced(self) -> None:
        if self._life is not Life.RUNNING:
            return
        self.snapshots.abandon()
        if self._wants_log:
            # The old files are kept until the first base of the new data is complete.
            self._switch_off()
            self._wants_log = True
            self._start_rewrite()
        self._follow()

    def _rewrite_log_after_loading(self) -> None:
        """Rewrite the log from the loaded data: the old log does not match it, and must not be continued."""
        try:
            self.log_files.rewrite_now()
        except OSError as error:
            if self.log.is_open:
                self.log.give_up(error)
        self._follow()

    def reset_statistics(self) -> None:
        self.snapshots.saves = self.log.delayed = 0

    def info(self) -> list[tuple[str, Any]]:
        # (Lines that Redis does not have start with ``engine_``.)
        return [
            ("loading", 0),
            ("async_loading", 0),
            ("rdb_changes_since_last_save", self.core.changes.dirty),
            *self.snapshots.facts().items(),
            ("aof_enabled", int(self.logging)),
            *self.log_files.facts().items(),
            ("aof_last_write_status", "err" if self.log.trouble else "ok"),
            *(self.log_files.sizes() | self.log.facts() if self.logging else {}).items(),
            ("engine_loading_left_out", self.snapshots.left_out + self.log_files.left_out),
            ("engine_loading_seconds", f"{self._loading_seconds:.3f}"),
            *self.keeping.facts().items(),
        ]
