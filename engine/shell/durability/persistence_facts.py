"""The lines of INFO persistence, under Redis's names; our own begin with ``engine_``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.shell.durability.persistence import Persistence


def lines(kept: Persistence, *, rewrite_scheduled: bool, now: float) -> list[tuple[str, Any]]:
    """What is so at the moment ``now``, by the clock that the rest goes by."""
    core, log, saves, rewrites = kept.core, kept.log, kept.snapshots, kept.appendonly
    found: list[tuple[str, Any]] = [
        ("loading", 0),
        ("async_loading", 0),
        ("rdb_changes_since_last_save", core.dirty),
        ("rdb_bgsave_in_progress", int(saves.saving)),
        ("rdb_last_save_time", saves.last_save_ms // 1000),
        ("rdb_last_bgsave_status", _ok(saves.last_ok)),
        ("rdb_last_bgsave_time_sec", saves.last_seconds),
        ("rdb_current_bgsave_time_sec", int(now - saves.began) if saves.saving else -1),
        ("rdb_saves", saves.saves),
        ("aof_enabled", int(kept.logging)),
        ("aof_rewrite_in_progress", int(rewrites.rewriting)),
        ("aof_rewrite_scheduled", int(rewrite_scheduled)),
        ("aof_last_rewrite_time_sec", rewrites.last_seconds),
        ("aof_current_rewrite_time_sec", int(now - rewrites.began) if rewrites.rewriting else -1),
        ("aof_last_bgrewrite_status", _ok(rewrites.last_ok)),
        ("aof_last_write_status", _ok(log.error is None and not log.broken)),
    ]
    if kept.logging:
        found += [
            ("aof_current_size", rewrites.size),
            ("aof_base_size", rewrites.base_size),
            ("aof_pending_rewrite", 0),
            ("aof_buffer_length", log.waiting),
            ("aof_pending_bio_fsync", int(log.syncing)),
            ("aof_delayed_fsync", log.delayed),
            ("engine_aof_fsyncs", log.syncs),
        ]
    found.append(("engine_loading_seconds", f"{kept.loaded_seconds:.3f}"))
    return found


def _ok(good: bool) -> str:
    return "ok" if good else "err"
