"""The engine's own log lines: to stderr, or to the file that ``logfile`` names."""

from __future__ import annotations

import logging
import sys

from engine.settings.config import Config

LOG = logging.getLogger("pystreams.engine")
_LEVELS = {b"debug": logging.DEBUG, b"verbose": logging.INFO, b"notice": logging.INFO, b"warning": logging.WARNING}


def start_logging(config: Config) -> None:
    """Begin to log as the configuration says, and follow ``loglevel`` when it changes."""
    name = config.text("logfile").decode()
    handler = logging.FileHandler(name) if name else logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(process)d %(asctime)s %(levelname)s %(message)s"))
    LOG.addHandler(handler)
    LOG.propagate = False

    def follow() -> None:
        LOG.setLevel(_LEVELS[config.text("loglevel")])

    config.on_change("loglevel", follow)
    follow()
