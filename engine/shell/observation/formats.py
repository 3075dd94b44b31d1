"""Formats of log lines: plain text for people, JSON objects for log collectors."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

LEGACY = logging.Formatter("%(process)d %(asctime)s %(levelname)s %(message)s")


class JsonLines(logging.Formatter):
    """One JSON object per line: `time` (UTC), `level`, `pid`, `logger`, `message`, and `exception` if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line of JSON, whatever its message contains."""
        found = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "pid": record.process,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return json.dumps(found)


#: Formatter for each value of the directive `log-format`.
FORMATS: dict[bytes, logging.Formatter] = {b"legacy": LEGACY, b"json": JsonLines()}
