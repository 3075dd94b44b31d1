"""Entries that an in-memory engine discards when it ends: their count, and a sentence that reports it.

A query that names no server writes to an engine that ends when the driver ends. Entries that consumer groups have not
read or acknowledged by then are lost. An engine that stores its data in files discards nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_streams import reports

if TYPE_CHECKING:
    import redis

#: Environment variable; `off` disables the embedded engine's notices about where its data is kept and when it is lost.
NOTICES = "PYSTREAMS_EMBEDDED_NOTICES"

_SECONDS = 1.0  # time limit of the count; streams that were not counted by then are omitted
_PAGE = 200  # streams per round trip
_NAMED = 3  # number of streams named in the sentence


def notices() -> bool:
    """Return whether the embedded engine reports where it stores its data and what it discards."""
    return os.environ.get(NOTICES, "").lower() not in ("off", "false", "0")


@dataclass(frozen=True)
class Discard:
    """Lost entries of one stream.

    `unread`: entries that the group furthest behind has not read; all entries if there is no group or a lag is unknown.
    `pending`: pending entries of all groups.
    """

    stream: str
    unread: int
    pending: int

    def __str__(self) -> str:
        parts = [f"{self.unread:,} unread" if self.unread else "", f"{self.pending:,} pending" if self.pending else ""]
        return f"{self.stream} ({', '.join(filter(None, parts))})"


def sentence(url: str) -> str:
    """Return a sentence about the entries that the engine at this URL would discard now.

    Return an empty text if no such entries are found, or if the engine stores its data in files.
    """
    import redis  # noqa: PLC0415 - the supervisor starts faster without redis, and needs it only at its end

    found: list[Discard] = []
    try:
        with redis.Redis.from_url(url, socket_timeout=_SECONDS, socket_connect_timeout=_SECONDS) as client:
            if not _keeps_data(client):
                found.extend(_discards(client, time.monotonic() + _SECONDS))
    except (redis.RedisError, OSError):
        pass  # the engine is ending or has ended
    if not found:
        return ""
    unread, pending = sum(each.unread for each in found), sum(each.pending for each in found)
    worst = sorted(found, key=lambda each: -each.unread - each.pending)
    named = ", ".join(map(str, worst[:_NAMED]))
    more = f" and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
    kinds = " and ".join(
        f"{count:,} {kind}" for count, kind in ((unread, "unread"), (pending, "unacknowledged")) if count
    )
    return (
        f"The embedded engine kept its data in memory and ends with its driver. It discards {kinds} "
        f"entr{'y' if unread + pending == 1 else 'ies'} in {len(found):,} stream{'s' * (len(found) > 1)}: "
        f"{named}{more}. To keep them, set the option 'embedded.dir' or 'url'."
    )


def _keeps_data(client: redis.Redis) -> bool:
    config = client.config_get("appendonly", "save")
    return config.get("appendonly") == "yes" or bool(config.get("save"))


def _discards(client: redis.Redis, deadline: float) -> Iterator[Discard]:
    """Yield the streams with unread or pending entries, until the deadline."""
    cursor = -1
    while cursor != 0 and time.monotonic() < deadline:
        cursor, page = client.scan(max(cursor, 0), count=_PAGE, _type="stream")
        report_streams = (reports.STREAM.encode(), reports.MALFORMED_STREAM.encode())
        names = [name for name in page if isinstance(name, bytes) and name not in report_streams]
        questions = client.pipeline(transaction=False)
        for name in names:
            questions.xlen(name)
            questions.xinfo_groups(name)
        answers = questions.execute(raise_on_error=False)
        for name, length, groups in zip(names, answers[::2], answers[1::2], strict=True):
            if isinstance(length, int) and isinstance(groups, list):
                # Without a group, or if its lag is unknown, all entries count as unread.
                lags = [length if group["lag"] is None else int(group["lag"]) for group in groups] or [length]
                each = Discard(name.decode(errors="replace"), max(lags), sum(int(group["pending"]) for group in groups))
                if each.unread or each.pending:
                    yield each
