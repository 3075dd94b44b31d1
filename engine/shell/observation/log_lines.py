"""The engine's log lines: to stderr, or to the file that ``logfile`` names; plain text for people, or JSON objects for
log collectors.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import platform
import sys
from datetime import UTC, datetime

from engine.core.dispatch import FatalError
from engine.settings.config import Config
from engine.version import ENGINE_VERSION

LOG = logging.getLogger("pystreams.engine")
_LEVELS = {b"debug": logging.DEBUG, b"verbose": logging.INFO, b"notice": logging.INFO, b"warning": logging.WARNING}


LEGACY = logging.Formatter("%(process)d %(asctime)s %(levelname)s %(message)s")


class JsonLines(logging.Formatter):
    """One JSON object per line: `time` (UTC), `level`, `pid`, `logger`, `message`, and `exception` if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON. Line breaks in its message are escaped."""
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


class RotatedFile(logging.handlers.WatchedFileHandler):
    """The log file. If another program has moved or removed it, the next line is written to a new file."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line. If the file cannot be opened, the line is lost, and the next line tries again."""
        try:
            super().emit(record)
        except OSError:
            self.handleError(record)


def start_logging(config: Config) -> None:
    """Start logging as configured, and follow changes of ``loglevel`` and ``log-format``."""
    name = config.text("logfile").decode()
    handler = RotatedFile(name) if name else logging.StreamHandler(sys.stderr)
    LOG.addHandler(handler)
    LOG.propagate = False

    def follow() -> None:
        LOG.setLevel(_LEVELS[config.text("loglevel")])
        handler.setFormatter(FORMATS[config.text("log-format")])

    config.on_change("loglevel", follow)
    config.on_change("log-format", follow)
    follow()


def report_fatal(error: BaseException) -> None:
    """Log what is needed to find out why the engine stops: the command's name and argument sizes, versions, the stack.

    The arguments of the command are not logged, because they may be secrets.
    """
    operation = "work between commands"
    if isinstance(error, FatalError) and error.command:
        sizes = f"name and arguments of {error.sizes[:32]} bytes"
        operation = f"the command {error.command} of client {error.session_id} ({sizes})"
    LOG.critical(
        "unexpected error in %s: the data may contain a half-done change, stopping. Effects of earlier commands "
        "are in the log, if there is one. Please report this: engine %s, Python %s on %s %s",
        operation,
        ENGINE_VERSION,
        platform.python_version(),
        platform.system(),
        platform.machine(),
        exc_info=error,
    )
