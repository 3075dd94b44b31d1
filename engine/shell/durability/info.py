"""Lines of INFO persistence, in order. They have Redis's names; lines that Redis does not have start with ``engine_``.

The values come from the ``facts`` methods of the log, its files, the rewrites, the snapshots and the stream storage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    "rdb_last_load_keys_expired",
    "rdb_last_load_keys_loaded",
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
_LINES_OF_SEGMENTS = (
    "engine_segment_files",
    "engine_segment_bytes",
    "engine_segment_dead_bytes",
    "engine_segment_cached_bytes",
    "engine_segment_last_write_status",
)
_LAST_LINES = ("engine_loading_left_out", "engine_loading_seconds")


def lines(facts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the lines in order. Lines about the log, or about segment files, are included only while these are in
    use.
    """
    of_log = _LINES_OF_LOG if facts["aof_enabled"] else ()
    of_segments = _LINES_OF_SEGMENTS if "engine_segment_files" in facts else ()
    names = (*_LINES, *of_log, *_LAST_LINES, *of_segments)
    return [(name, facts[name]) for name in names]
